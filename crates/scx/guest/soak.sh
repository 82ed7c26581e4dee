# CPUs that go and come beside busy loops: the scheduler starts again each time, and no loop
# starves.
. /hogs.sh

rounds=$(sed 's/.*daiko.rounds=\([0-9]*\).*/\1/' /proc/cmdline)

# turn CPU STATE: unplugs or plugs a CPU and waits until the scheduler was started again. The loops
# are stopped meanwhile, as the kernel patches its code then (begin.sh).
turn() {
    kill -STOP $hogs
    turns=$((turns + 1))
    echo $2 >/sys/devices/system/cpu/cpu$1/online
    becomes $turns grep -c 'started again' /tmp/start
    until_text /sys/kernel/sched_ext/state enabled
    kill -CONT $hogs
    until_time 20 $hogs
}

start
hog 0
hog 5
round=0
turns=0
while [ $round -lt $rounds ]; do
    turn $((1 + round % 3)) 0
    turn $((1 + round % 3)) 1
    round=$((round + 1))
done
until_time 200 $hogs
for time in $used; do [ "$time" -gt 0 ] || fail "a loop starved: $used"; done
kill -STOP $hogs
finish
kill -CONT $hogs
end_hogs
say ok "a CPU went and came $rounds times"
