# Shares of control groups, on CPUs without siblings, beside those of the kernel's own scheduler.
. /hogs.sh

mount -t cgroup2 none /sys/fs/cgroup
cd /sys/fs/cgroup
echo +cpu >cgroup.subtree_control

# group PATH WEIGHT LOOPS: makes a control group with busy loops.
group() {
    mkdir $1
    echo $2 >$1/cpu.weight
    loops=$3
    while [ $loops -gt 0 ]; do
        hog 0
        echo $hog >$1/cgroup.procs
        loops=$((loops - 1))
    done
}

# of_hundred FIRST LAST [FROM]: the part of these loops in the time of all loops from FROM on, in
# hundredths.
of_hundred() {
    echo $used | tr ' ' '\n' | awk -v first=$1 -v last=$2 -v from=${3:-1} '
        NR >= from { all += $1; if (NR >= first && NR <= last) part += $1 } END { print int(100 * part / all + 0.5) }'
}

# measure FIRST LAST: that part under the kernel's own scheduler, then under Daiko's; sets kernel
# and ours.
measure() {
    until_time 100 $hogs
    until_time 800 $hogs
    kernel=$(of_hundred $1 $2)
    quietly start
    expect 'weights (cpu.weight) and nice values are' cat /tmp/start
    until_time 100 $hogs
    until_time 800 $hogs
    for time in $used; do [ "$time" -gt 0 ] || fail "a loop starved: $used"; done
    ours=$(of_hundred $1 $2)
}

# is_about WANTED SHARE NAME [KERNEL]: checks a share in hundredths. On a busy machine the emulated
# CPUs stand still for longer than a scheduler remembers: the share that the kernel's own scheduler
# has just given, if it is passed, is right as well.
is_about() {
    for right in $1 ${4:-}; do
        [ $2 -ge $((right - 6)) ] && [ $2 -le $((right + 6)) ] && return
    done
    fail "$3 had $2 of 100 ticks, not about $1, under the kernel's scheduler ${4:-unknown} ($used)"
}

group light 100 4
group heavy 400 4
measure 5 8
is_about 80 $ours 'the group with four times the weight' $kernel
say ok "weights of 400 and 100, four loops each: $ours of 100 ticks ($used), under the kernel's scheduler $kernel"

# Loads follow loops that move, and weights that change, while the scheduler is attached.
for pid in $(cat light/cgroup.procs); do echo $pid >heavy/cgroup.procs; done
until_time 100 $hogs
until_time 800 $hogs
is_about 50 $(of_hundred 5 8) 'four of eight loops in one group'
set -- $hogs
for pid in $1 $2 $3 $4; do echo $pid >light/cgroup.procs; done
echo 33 >heavy/cpu.weight
until_time 100 $hogs
until_time 800 $hogs
is_about 25 $(of_hundred 5 8) 'the group with a third of the weight'
say ok "after moves and another weight: $(of_hundred 5 8) of 100 ticks ($used)"
quietly finish
end_hogs
rmdir light heavy

# Two levels: equal groups with one loop and with eight, the second in parts of 100 and 300.
group one 100 1
mkdir eight
echo +cpu >eight/cgroup.subtree_control
group eight/light 100 4
group eight/heavy 300 4
measure 1 1
# It has the rest as well while other processes of the test take the time of the eight. Without
# groups it would have a ninth.
[ $ours -ge 20 ] && [ $ours -le 40 ] || fail "the loop that is alone in its group had $ours of 100 ticks, not a CPU ($used)"
heavy=$(of_hundred 6 9 2)
is_about 75 $heavy 'the heavy four of the eight loops'
say ok "one loop beside eight of a group with the same weight: $ours of 100 ticks, which is one CPU, under the kernel's \
scheduler $kernel; of the eight the heavy four $heavy ($used)"
quietly finish
end_hogs
