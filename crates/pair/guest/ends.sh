# Exit codes of commands and daiko pair, the rest of a killed session, and threads bound by another
# party.

attach --policy cross -- works stall /tmp/turn ::: works compute /tmp/turn ::: works compute /tmp/turn ::: works stall /tmp/turn
becomes '2: compute+stall compute+stall' arrangement
kill -INT $session
ends 143
is '' pidof works
say ok commands are paired, and ended by an interrupt

attach -- true ::: sh -c 'exit 3' ::: false
ends 3
attach -- sh -c 'exit 0'
ends 0
say ok the exit code is that of the first command that fails

begin_four
attach --policy cross --pid $pids
becomes '2: compute+stall compute+stall' arrangement
kill -KILL $session
wait $session
is '2: compute+stall compute+stall' arrangement
expect '1 sessions were killed: 4 threads may run again as before, 0 were bound' daiko pair --restore
is "$free" arrangement
is '' ls /run/daiko-pair
expect '0 sessions were killed' daiko pair --restore
say ok daiko pair --restore puts back the threads of a killed session

# A later binding takes precedence, in a running session and after a killed one.
first=${pids%%,*}
attach --policy cross --pid $pids
becomes '2: compute+stall compute+stall' arrangement
taskset -p 5 $first >/dev/null
until_text /tmp/said 'bound by another program'
kill -INT $session
ends 0
is 0,2 cpus_of $first
taskset -p f $first >/dev/null
attach --policy cross --pid $pids
becomes '2: compute+stall compute+stall' arrangement
kill -KILL $session
wait $session
taskset -p 5 $first >/dev/null
expect '3 threads may run again as before, 1 were bound by another process since' daiko pair --restore
is 0,2 cpus_of $first
end_programs
say ok a thread bound by another process is left alone

