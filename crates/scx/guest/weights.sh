# Shares of CPU time, work conservation and partial switches, on CPUs without siblings.

# hog NICE COMMAND..: starts a busy loop behind a command, with this nice value; sets hog to its id.
hog() {
    nice_value=$1
    shift
    "$@" nice -n "$nice_value" sh -c 'while :; do :; done' &
    hog=$!
}

end_hogs() {
    kill $hogs
    wait $hogs
    hogs=
}

# Prints the CPU time of processes in ticks, of each in turn.
times_of() {
    for pid in "$@"; do awk '{ print $14 + $15 }' "/proc/$pid/stat"; done
}

# until_time TICKS PID..: waits until the processes have used so much CPU time, all together, from
# now on; sets used to the time of each.
until_time() {
    wanted=$1
    shift
    begin=$(times_of "$@")
    while :; do
        used=$(echo "$begin" $(times_of "$@") | awk -v n=$# '{ for (i = 1; i <= n; i++) a[i] = $i; for (; i <= 2 * n; i++) print $i - a[i - n] }' RS='' FS='[ \n]+')
        [ "$(echo "$used" | awk '{ s += $1 } END { print s }')" -lt "$wanted" ] || break
        sleep 0.2
    done
    used=$(echo $used)
}

start() { # start OPTION..
    : >/tmp/start
    daiko schedule start --interval 3600 "$@" >>/tmp/start 2>&1 &
    scheduler=$!
    until_text /tmp/start '^attached'
    expect enabled cat /sys/kernel/sched_ext/state
}

finish() {
    expect detached daiko schedule stop
    wait $scheduler || fail "daiko schedule start ended with $?: $(cat /tmp/start)"
    expect disabled cat /sys/kernel/sched_ext/state
}

counter() { # counter NAME
    daiko schedule status | sed -n "s/^counters:.* $1 \([0-9]*\).*/\1/p"
}

hogs=
start
for value in 0 0 0 0 10 10 10 10; do
    hog $value
    hogs="$hogs $hog"
done
until_time 3000 $hogs
say ok shares $used
finish
end_hogs
