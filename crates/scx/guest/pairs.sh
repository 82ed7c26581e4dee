# Places of busy loops on two cores of two siblings each, with declared classes.
. /hogs.sh

# Prints the cores of processes.
cores_of() {
    for pid in "$@"; do awk '{ print int($39 / 2) }' /proc/$pid/stat; done
}

# bind MASK PID..: lets processes run on these CPUs only.
bind() {
    mask=$1
    shift
    for pid in "$@"; do taskset -p $mask $pid >/dev/null; done
}

# double: puts the first two loops on one core and the others on the other one, then frees them.
double() {
    bind 3 $1 $2
    bind c $3 $4
    becomes '0 0 1 1' cores_of $1 $2 $3 $4
    bind f $1 $2 $3 $4
}

start
hog 0
hog 0
bind 3 $hogs
becomes '0 0' cores_of $hogs
bind f $hogs
becomes '[01] [01]' cores_of $hogs
differ() { [ $(cores_of $hogs | sort -u | wc -l) = 2 ] && echo yes; }
becomes yes differ
until_time 200 $hogs
expect yes differ
say ok "two loops of one core get a core each, and keep it ($(counter moved) moves)"

hog 0
hog 0
double $hogs
until_time 400 $hogs
expect '0 0 1 1' echo $(cores_of $hogs)
expect 0 counter exchanged
say ok 'without classes four loops stay where they are'

set -- $hogs
daiko schedule start --pair --class $1=stall --class $2=stall --class $3=compute --class $4=compute >/dev/null
paired() { [ "$(cores_of $1 $2 | sort -u | wc -l) $(cores_of $3 $4 | sort -u | wc -l)" = '2 2' ] && echo yes; }
becomes yes paired $1 $2 $3 $4
until_time 400 $hogs
expect yes paired $1 $2 $3 $4
say ok "stalling loops share cores with computing loops ($(counter exchanged) exchanges)"

# Two that share a core become of one kind.
if [ "$(cores_of $1)" = "$(cores_of $3)" ]; then set -- $1 $3 $2 $4; else set -- $1 $4 $2 $3; fi
daiko schedule start --pair --class $1=stall --class $2=stall --class $3=compute --class $4=compute >/dev/null
becomes yes paired $1 $2 $3 $4
say ok 'loops whose class has changed are paired anew'

# More loops than CPUs: the queue is searched for complements, and no loop starves.
# Their weights differ, so that the order of the queue changes.
value=0
for class in stall compute stall compute; do
    value=$((value + 2))
    hog $value
    daiko schedule start --pair --class $hog=$class >/dev/null
done
skipped=$(counter skipped)
until_time 1000 $hogs
for time in $used; do [ "$time" -gt 10 ] || fail "a loop starved: $used"; done
[ "$(counter skipped)" -gt "$skipped" ] || fail "no loop was passed over for a complement: $(daiko schedule status)"
say ok "eight loops on four CPUs had $used ticks; $(counter skipped) were passed over"
end_hogs
finish
