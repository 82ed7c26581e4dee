# Shares of CPU time, work conservation and partial switches, on CPUs without siblings.
. /hogs.sh

# Prints the ticks in which a CPU was idle, all together.
idle_ticks() {
    awk '$1 == "cpu" { print $5 + $6 }' /proc/stat
}

# Prints the policies of processes, from the kernel's report: 0 is SCHED_OTHER, 7 is SCHED_EXT.
policies_of() {
    for pid in "$@"; do awk '$1 == "policy" { print $3 }' "/proc/$pid/sched"; done
}

expect 'no process 999999' daiko schedule start --only 999999
expect 'no process 999999' daiko schedule start --pair --class 999999=stall
expect '--pair' daiko schedule start --class $$=stall
expect '--follow' daiko schedule start --bound 3
expect disabled cat /sys/kernel/sched_ext/state

# Weights of 1024 and 110 under nice 0 and 10, on four CPUs for eight loops.
start
for value in 0 0 0 0 10 10 10 10; do hog $value; done
until_time 200 $hogs
idle=$(idle_ticks)
until_time 1500 $hogs
idle=$(($(idle_ticks) - idle))
for time in $used; do [ "$time" -gt 0 ] || fail "a loop starved: $used"; done
set -- $used
nice=$(($5 + $6 + $7 + $8))
normal=$(($1 + $2 + $3 + $4))
[ $normal -gt $((4 * nice)) ] || fail "nice 0 had $normal ticks and nice 10 $nice: not four times as much"
[ $normal -lt $((20 * nice)) ] || fail "nice 0 had $normal ticks and nice 10 $nice: more than twenty times as much"
[ $((10 * idle)) -lt $((normal + nice)) ] || fail "CPUs were idle for $idle ticks while loops waited"
say ok "nice 0 had $normal ticks, nice 10 $nice ($used), idle were $idle"
end_hogs

# Loops that have to share a CPU spread as soon as they may run on all.
for value in 0 0 0 0; do
    hog $value
    taskset -p 1 $hog >/dev/null
done
until_time 100 $hogs
for pid in $hogs; do taskset -p f $pid >/dev/null; done
cpus() { for pid in $hogs; do awk '{ print $39 }' /proc/$pid/stat; done | sort -u; }
becomes '0 1 2 3' cpus
say ok 'four loops of one CPU spread over four'
end_hogs
finish

# Only the given processes and their children, and only until the end.
sh -c 'until [ -e /tmp/go ]; do sleep 0.1; done
    sh -c "while :; do :; done" &
    echo $! >/tmp/child
    while :; do :; done' &
chosen=$!
hogs=" $chosen"
: >/tmp/child
start --only $chosen
expect 'for some processes' cat /tmp/start
touch /tmp/go
until_text /tmp/child .
child=$(cat /tmp/child)
hogs="$hogs $child"
hog 0
expect '7 7 0 0' echo $(policies_of $chosen $child $hog $$)
until_time 200 $hogs
for time in $used; do [ "$time" -gt 0 ] || fail "a loop starved: $used"; done
expect 'attached already' daiko schedule start --only $hog
kill -STOP $hogs
finish
expect '0 0 0 0' echo $(policies_of $chosen $child $hog $$)
say ok "only the chosen process and its child were switched, and switched back ($used)"
kill -CONT $hogs
end_hogs

# The settings of an attached scheduler change without a new start.
start
expect 'policy: shared' daiko schedule status
expect 'follow, at most 2 wake-ups, pairs' daiko schedule start --follow --bound 2 --pair
expect 'policy: follow, at most 2 wake-ups, pairs' daiko schedule status
expect 'policy is now existing' daiko follow start --policy existing
finish
say ok 'settings change while it is attached'
