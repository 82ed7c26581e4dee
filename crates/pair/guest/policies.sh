# The places of programs under each policy, and after a change of their class.

expect '2 cores: CPUs 0+1, 2+3;' daiko topology
say ok daiko topology shows the siblings

begin_four
is "$free" arrangement
check() { # check POLICY SIGNAL ARRANGEMENT
    attach --policy $1 --pid $pids
    becomes "$3" arrangement
    placed=$said
    expect sampling cat /tmp/said
    kill -$2 $session
    ends 0
    is "$free" arrangement
    say ok "--policy $1: $placed; after SIG$2 all may run as before"
}
check cross INT '2: compute+stall compute+stall'
check parallel TERM '2: compute+compute stall+stall'
check auto INT '2: compute+stall compute+stall'

# Threads of any class leave the second sibling of each core idle.
attach --policy nosmt --pid $pids
for pid in $(pidof works); do becomes 0,2 cpus_of $pid; done
kill -HUP $session
ends 0
is "$free" arrangement
say ok --policy nosmt: all run on the first siblings, CPUs 0 and 2, and after SIGHUP as before

# One program of each core changes its class, so that equal classes share a core: a stall with the
# stall that the third program has become.
attach --policy cross --pid $pids
becomes '2: compute+stall compute+stall' arrangement
first=${pids%%,*}
third=$(echo $pids | cut -d, -f3)
turn=1
[ "$(core_of $first)" = "$(core_of $third)" ] && turn=2
touch /tmp/turn.3 /tmp/turn.$turn
becomes '2: compute+stall compute+stall' arrangement
kill -INT $session
ends 0
is "$free" arrangement
say ok programs that have changed their class are paired anew

attach --policy cross --pid $pids
becomes '2: compute+stall compute+stall' arrangement
end_programs
ends 0
say ok daiko pair ends successfully with the last of its processes
