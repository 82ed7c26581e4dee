# `daiko pair` by the scheduler, on two cores of two siblings each: busy loops of declared classes.
. /hogs.sh

# loop NAME: starts a busy loop of the class of this name; on SIGUSR1 it takes the other class.
loop() {
    sh -c 'name=$0
        turn() { case $name in stalls) name=computes ;; *) name=stalls ;; esac; printf %s $name >/proc/$$/comm; }
        printf %s $name >/proc/$$/comm
        trap turn USR1
        while :; do :; done' $1 &
    hog=$!
    until_text /proc/$hog/comm "^$1$"
    hogs="$hogs $hog"
}

# pair OPTION..: begins a session with the loops, waits until it has said its means; sets session.
pair() {
    : >/tmp/said
    kill -STOP $hogs
    daiko pair --interval 1 --class stalls=stall --class computes=compute --pid $(echo $hogs | tr ' ' ',') "$@" 2>/tmp/said &
    session=$!
    until_text /tmp/said 'pairs are made by\|placed by masks\|nothing was started'
    kill -CONT $hogs
}

# end_session SIGNAL: ends it.
end_session() {
    kill -STOP $hogs
    kill -$1 $session
    wait $session
    code=$?
    until [ "$(pidof daiko)" = "$scheduler" ]; do sleep 0.1; done
    kill -CONT $hogs
}

ends() { # ends CODE
    wait $session
    code=$?
    [ $code = $1 ] || fail "daiko pair: expected the exit code $1, saw $code: $(tail -n 6 /tmp/said | tr '\n' '|')"
}

policies() {
    for pid in $hogs; do awk '$1 == "policy" { print $3 }' /proc/$pid/sched; done
}

masks() {
    for pid in $hogs; do awk '/^Cpus_allowed_list:/ { print $2 }' /proc/$pid/status; done | sort -u
}

# Prints the state of the kernel, and whether the scheduler has left maps.
rest() {
    cat /sys/kernel/sched_ext/state
    ls /sys/fs/bpf
}

# is PATTERN COMMAND..: checks that the output of the command matches now.
is() {
    wanted=$1
    shift
    said=$(echo $("$@" 2>&1))
    case $said in
        $wanted) ;;
        *) fail "'$*': expected '$wanted', saw '$said'; daiko pair said: $(tail -n 6 /tmp/said | tr '\n' '|')" ;;
    esac
}

# slices TICKS: sets doubled and paired to the slices that began beside the own kind, and beside a
# complement.
slices() {
    doubled=$(counter doubled)
    paired=$(counter paired)
    until_time $1 $hogs
    doubled=$(($(counter doubled) - doubled))
    paired=$(($(counter paired) - paired))
}

share() {
    slices 800
    [ $((paired + doubled)) -gt 50 ] || fail "only $paired + $doubled slices were counted"
    share=$((100 * doubled / (paired + doubled)))
}

scheduler=
for name in stalls stalls computes computes; do loop $name; done

# A scheduler for this session.
pair --policy cross
until_text /tmp/said "pairs are made by Daiko's scheduler, attached for these processes"
for pid in $hogs; do until_text /tmp/said " $pid .* any "; done
is '7 7 7 7' policies
hog 0
other=$hog
hogs=${hogs% *}
is 0 awk '$1 == "policy" { print $3 }' /proc/$other/sched
kill -9 $other
wait $other
is 0-3 masks
expect 'is now shared' daiko schedule start
share
alone=$share
expect 'is now shared, pairs' daiko schedule start --pair
share
[ $((2 * share)) -lt $alone ] || fail "$share of 100 slices began beside the same kind, without pairs $alone"
say ok "a session's own scheduler: $share of 100 slices began beside the same kind, without pairs $alone"

# The first loop and the one on its core are of one kind from now on, and so are the other two.
core_of() {
    read -r line </proc/$1/stat
    set -- $line
    core=$((${39} / 2))
}
set -- $hogs
core_of $1
first=$core
core_of $3
if [ $core = $first ]; then third=$4; else third=$3; fi
kill -USR1 $1 $third
until_text /tmp/said " $1 .* compute .* any "
until_text /tmp/said " $third .* stall .* any "
share
[ $((2 * share)) -lt $alone ] || fail "after a change of classes $share of 100 slices began beside the same kind"
say ok "after a change of classes: $share of 100"
end_session INT
[ $code = 0 ] || fail "daiko pair ended with $code: $(cat /tmp/said)"
is disabled rest
is '0 0 0 0' policies
say ok an interrupt leaves nothing behind

# A process that is started later belongs to the scheduler at once; a mask of its own stays.
end_hogs
sh -c 'until [ -e /tmp/go ]; do sleep 0.1; done
    sh -c "printf computes >/proc/\$\$/comm; while :; do :; done" &
    echo $! >/tmp/child
    printf stalls >/proc/$$/comm
    while :; do :; done' &
hogs=" $!"
: >/tmp/child
taskset -p 5 $! >/dev/null
pair --by schedule
until_text /tmp/said 'attached for these processes'
touch /tmp/go
until_text /tmp/child .
hogs="$hogs $(cat /tmp/child)"
is '7 7' policies
is 0,2 masks
end_session KILL
is disabled rest
is '0 0' policies
is 0,2 masks
say ok 'a killed session leaves nothing behind, and a mask of the program as it was'
end_hogs

# A scheduler that is there already goes on afterwards, without the classes.
for name in stalls stalls computes computes; do loop $name; done
quietly start --pair
for signal in INT KILL; do
    pair --policy cross
    until_text /tmp/said "pairs are made by Daiko's scheduler, which was attached before"
    for pid in $hogs; do until_text /tmp/said " $pid .* any "; done
    is '0 0 0 0' policies
    slices 200
    [ $((paired + doubled)) -gt 20 ] || fail "only $paired + $doubled slices were counted"
    end_session $signal
    slices 200
    [ $((paired + doubled)) = 0 ] || fail "classes remain after SIG$signal: $paired + $doubled slices were counted"
done
say ok 'an attached scheduler serves a session, and loses its classes with it'
expect 'is now shared' daiko schedule start
pair --policy cross
until_text /tmp/said 'placed by masks: .*without pairs: daiko schedule start --pair adds them'
kill -INT $session
ends 0
pair --by schedule
ends 2
expect 'nothing was started' cat /tmp/said
quietly finish
scheduler=

for option in '--policy parallel' '--policy nosmt' '--cpus 0-3' '--by masks'; do
    pair $option
    until_text /tmp/said "placed by masks: .*${option%% *}"
    is disabled cat /sys/kernel/sched_ext/state
    kill -INT $session
    ends 0
done
pair --by schedule --policy parallel
ends 2
say ok 'a request without a counterpart stays with masks, and says why'

# Masks stand in for a scheduler that ends, unless they are excluded.
pair --policy cross
for pid in $hogs; do until_text /tmp/said " $pid .* any "; done
quietly expect detached daiko schedule stop
until_text /tmp/said 'from now on threads are placed by masks'
becomes '0-1 2-3' masks
kill -INT $session
ends 0
is 0-3 masks
pair --policy cross --by schedule
for pid in $hogs; do until_text /tmp/said " $pid .* any "; done
quietly expect detached daiko schedule stop
ends 1
is 0-3 masks
is '0 0 0 0' policies
end_hogs
say ok 'a scheduler that ends meanwhile is replaced by masks, or ends the session'
