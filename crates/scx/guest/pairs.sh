# Places of busy loops on two cores of two siblings each, with declared classes.
. /hogs.sh

# Sets core to that of a process, without any process that would take its CPU.
core_of() {
    read -r line </proc/$1/stat
    set -- $line
    core=$((${39} / 2))
}

# Prints the cores of processes.
cores_of() {
    for pid in "$@"; do
        core_of $pid
        echo $core
    done
}

# Returns true if the two loops are on different cores.
are_apart() {
    core_of $1
    first=$core
    core_of $2
    [ $first != $core ]
}

# share: prints the slices that loops of known classes began beside their own kind, for each 100
# that they began beside any, while they run for so many ticks.
share() {
    doubled=$(counter doubled)
    paired=$(counter paired)
    until_time $1 $hogs
    doubled=$(($(counter doubled) - doubled))
    paired=$(($(counter paired) - paired))
    [ $((paired + doubled)) -gt 50 ] || fail "only $paired + $doubled slices were counted"
    share=$((100 * doubled / (paired + doubled)))
}

# declare OPTION PID..: declares the first half of the loops to stall and the others to compute.
declare() {
    option=$1
    shift
    half=$(($# / 2))
    words=
    for pid in "$@"; do
        [ $half -gt 0 ] && words="$words --class $pid=stall" || words="$words --class $pid=compute"
        half=$((half - 1))
    done
    expect "$# threads have a class" daiko schedule start --pair $words
    # Classes without pairs show the effect of chance.
    [ "$option" = --pair ] || daiko schedule start >/dev/null
}

start
hog 0
hog 0
for pid in $hogs; do taskset -p 3 $pid >/dev/null; done
becomes '0 0' cores_of $hogs
for pid in $hogs; do taskset -p f $pid >/dev/null; done
until are_apart $hogs; do sleep 0.1; done
apart=0
for sample in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.2
    are_apart $hogs && apart=$((apart + 1))
done
[ $apart -ge 16 ] || fail "two loops on two idle cores shared one in $((20 - apart)) of 20 samples"
say ok "two loops of one core get a core each, and had one in $apart of 20 samples"

hog 0
hog 0
declare '' $hogs
# Loops may have been exchanged while the classes were declared.
exchanged=$(counter exchanged)
share 800
alone=$share
[ "$(counter exchanged)" = $exchanged ] || fail 'loops were exchanged without --pair'
declare --pair $hogs
share 800
[ $((2 * share)) -lt $alone ] || fail "$share of 100 slices began beside the same kind, without pairs $alone: $(daiko schedule status)"
say ok "four loops on four CPUs: $share of 100 slices began beside the same kind, without pairs $alone"

# The first two share a core with the last two, and are of one kind from now on.
set -- $hogs
exchanged=$(counter exchanged)
if [ "$(cores_of $1)" = "$(cores_of $3)" ]; then hogs="$1 $3 $2 $4"; else hogs="$1 $4 $2 $3"; fi
declare --pair $hogs
share 800
[ $((2 * share)) -lt $alone ] || fail "after a change of classes $share of 100 slices began beside the same kind"
say ok "after a change of classes: $share of 100, $(($(counter exchanged) - exchanged)) exchanges"

# More loops than CPUs, of different weights, so that the order of the queue changes.
end_hogs
for value in 0 2 4 6 1 3 5 7; do hog $value; done
declare '' $hogs
share 1500
alone=$share
declare --pair $hogs
skipped=$(counter skipped)
share 1500
for time in $used; do [ "$time" -gt 20 ] || fail "a loop starved: $used"; done
skipped=$(($(counter skipped) - skipped))
[ $skipped -gt 0 ] || fail "no loop was passed over for a complement: $(daiko schedule status)"
[ $((2 * share)) -lt $alone ] || fail "eight loops: $share of 100 slices began beside the same kind, without pairs $alone"
say ok "eight loops on four CPUs: $share of 100, without pairs $alone; $skipped were passed over; ticks $used"
end_hogs
finish
