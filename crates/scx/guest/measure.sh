# Measures migrations and swaps under both policies in turn, and the longest hold of a task.

counters() {
    daiko follow status | sed -n 's/^counters: //p' | tr -d ','
}

# Prints the number of wake-ups from counters.
wakes_of() {
    echo "$2"
}

# await_wakes NUMBER COUNTERS: waits until there are so many more wake-ups than in the counters.
# tools/guest.sh limits the time.
await_wakes() {
    wanted=$1
    shift
    wanted=$(($(wakes_of "$@") + wanted))
    until [ "$(wakes_of $(counters))" -ge $wanted ]; do sleep 0.5; done
}

# row STEERING ARM POLICY REPETITION: prints the counters before and after so many wake-ups, behind
# a tenth of them for the change to settle.
row() {
    daiko follow start --policy "$3" >/dev/null || fail 'the policy could not be changed'
    begin=$(counters)
    [ -n "$begin" ] || fail 'no counters'
    await_wakes $((WAKES / 10)) $begin
    begin=$(counters)
    await_wakes $WAKES $begin
    say row "$1" "$2" "$4" from $begin to $(counters)
}

# Prints rows of all arms, in a rotating order; the second arm of the existing policy shows the
# effect of chance.
repetition() { # repetition STEERING NUMBER
    set -- "$1" "$2" existing follow again
    turn=$(($2 % 3))
    while [ $turn -gt 0 ]; do
        set -- "$1" "$2" "$4" "$5" "$3"
        turn=$((turn - 1))
    done
    for arm in "$3" "$4" "$5"; do
        case $arm in again) policy=existing ;; *) policy=$arm ;; esac
        row "$1" $arm $policy "$2"
    done
}

# stays STEERING POLICY: prints the largest number of wake-ups in a row at which a receiver stayed
# although the existing policy would have moved it, in a recording of so many wake-ups.
stays() {
    daiko follow start --policy "$2" >/dev/null || fail 'the policy could not be changed'
    await_wakes $((WAKES / 10)) $(counters)
    ls /proc/$receiver/task >/tmp/receivers
    seconds=5
    while :; do
        expect ', 0 lost' daiko follow record --seconds $seconds --out /tmp/wakes
        numbers=$(awk -f /stays.awk /tmp/receivers /tmp/wakes) || fail "the wake-ups could not be looked through"
        [ "$(echo $numbers | cut -d' ' -f3)" -lt $RECORDED ] || break
        seconds=$((2 * seconds))
    done
    say stays "$1" "$2" $numbers
}

WAKES=$(sed 's/.*daiko.wakes=\([0-9]*\).*/\1/' /proc/cmdline)
RECORDED=$(sed 's/.*daiko.recorded=\([0-9]*\).*/\1/' /proc/cmdline)
repetitions=$(sed 's/.*daiko.repetitions=\([0-9]*\).*/\1/' /proc/cmdline)
flows=$(sed 's/.*daiko.flows=\([0-9]*\).*/\1/' /proc/cmdline)

expect 'no scheduler is attached' daiko follow status
expect 'is not attached' daiko follow stop
expect 'is not attached' daiko follow record --seconds 1 --out /tmp/none
steer on
expect 'Flow Steering: on' daiko follow status
attach existing
expect 'daiko is attached' daiko follow status
expect 'policy: existing' daiko follow status
expect 'its policy is now follow' daiko follow start --bound 7
expect 'policy: follow, at most 7' daiko follow status
sleep 1
: >/tmp/flows
flows receive 9000 $flows >>/tmp/flows &
receiver=$!
until_text /tmp/flows connected

number=1
while [ $number -le $repetitions ]; do
    repetition on $number
    number=$((number + 1))
done
for policy in existing follow; do stays on $policy; done
steer off
for number in 1 2 3; do repetition off $number; done
for policy in existing follow; do stays off $policy; done
expect 'No such file or directory' daiko follow record --seconds 1 --out /nowhere/file

# Nothing else may run when the scheduler is detached.
kill $receiver
wait $receiver
expect detached daiko follow stop
wait $scheduler || fail "daiko follow start ended with $?"
expect disabled cat /sys/kernel/sched_ext/state
[ ! -e /sys/fs/bpf/daiko ] || fail 'maps were left behind'
