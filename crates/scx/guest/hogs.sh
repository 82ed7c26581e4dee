# Common functions of the parts with busy loops.

hogs=

# hog NICE: starts a busy loop with this nice value; sets hog to its id and adds it to hogs.
hog() {
    sh -c 'while :; do :; done' &
    hog=$!
    renice -n "$1" -p $hog >/dev/null
    hogs="$hogs $hog"
}

end_hogs() {
    kill $hogs
    wait $hogs 2>/dev/null
    hogs=
}

# quietly COMMAND..: stops the loops while the command attaches or detaches a scheduler, as the
# kernel patches its code then (begin.sh).
quietly() {
    kill -STOP $hogs
    "$@"
    kill -CONT $hogs
}

# Prints the CPU time of processes in ticks, of each in turn.
times_of() {
    for pid in "$@"; do awk '{ print $14 + $15 }' "/proc/$pid/stat"; done
}

# until_time TICKS PID..: waits until the processes have used so much CPU time from now on, all
# together; sets used to the time of each. tools/guest.sh limits the time.
until_time() {
    wanted=$1
    shift
    times_of "$@" >/tmp/before
    sum=0
    while [ $sum -lt $wanted ]; do
        sleep 0.2
        times_of "$@" >/tmp/after
        used=$(awk 'NR == FNR { before[FNR] = $1; next } { print $1 - before[FNR] }' /tmp/before /tmp/after)
        sum=0
        for time in $used; do sum=$((sum + time)); done
    done
    used=$(echo $used)
}

# start OPTION..: attaches the scheduler.
start() {
    : >/tmp/start
    daiko schedule start --interval 3600 "$@" >>/tmp/start 2>&1 &
    scheduler=$!
    until_text /tmp/start '^attached'
    expect enabled cat /sys/kernel/sched_ext/state
}

# finish: detaches it.
finish() {
    expect detached daiko schedule stop
    wait $scheduler || fail "daiko schedule start ended with $?: $(cat /tmp/start)"
    expect disabled cat /sys/kernel/sched_ext/state
}

counter() { # counter NAME
    daiko schedule status | tr ',' '\n' | sed -n "s/^.* $1 \([0-9]*\)$/\1/p"
}

# becomes PATTERN COMMAND..: waits until the output of the command matches.
becomes() {
    wanted=$1
    shift
    tries=0
    while :; do
        said=$(echo $("$@" 2>&1))
        case $said in $wanted) return ;; esac
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "'$*': expected '$wanted', saw '$said' after two minutes"
        sleep 0.2
    done
}
