# Classes of programs and their sources, with and without the permission to sample.

# A file system on persistent memory (memmap=, on the kernel's command line), without the page cache
# between.
for module in libnvdimm nd_btt nd_pmem nd_e820; do insmod "/modules/$module.ko"; done
becomes /dev/pmem0 ls /dev/pmem0
mke2fs -b 4096 /dev/pmem0 >/dev/null
mkdir /pmem
mount -t ext4 -o dax=always /dev/pmem0 /pmem || fail 'the file system cannot be mounted with dax=always'
dd if=/dev/zero of=/pmem/pool bs=4096 count=1 2>/dev/null
# The flag of the file takes effect once the file system is mounted with dax=inode.
chattr +x /pmem/pool
echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
mkdir -m 700 /tmp/nobody
chown nobody /tmp/nobody /pmem/pool

begin compute sync /pmem/pool
attach --pid $program
until_text /tmp/said 'compute sampling'
kill -INT $session
ends 0
end_programs
say ok a program that computes is recognised, though persistent memory is mapped

# From here on as an unprivileged user, without the permission to sample.
echo 3 >/proc/sys/kernel/perf_event_paranoid
expect 'set XDG_RUNTIME_DIR to a folder of your own' su nobody -c 'daiko pair --policy cross -- works stall /tmp/turn'
is '' pidof works
attach_nobody() { # attach_nobody OPTION..
    su nobody -c "exec env XDG_RUNTIME_DIR=/tmp/nobody daiko pair --interval 1 $*" 2>/tmp/said &
    session=$!
}

attach_nobody --policy cross -- works stall /tmp/turn ::: works compute /tmp/turn
until_text /tmp/said 'no sampling: .*perf_event_paranoid'
kill -INT $session
ends 143
grep ' works ' /tmp/said && fail "daiko pair has a class without a source: $(cat /tmp/said)"
say ok without permission daiko pair prints a remedy, and places nothing

maps_say_stall() { # maps_say_stall shared|sync
    attach_nobody --policy cross -- works compute /tmp/turn $1 /pmem/pool
    until_text /tmp/said 'works  *stall  *mappings .*/pmem/pool is mapped by DAX'
    kill -INT $session
    ends 143
}
maps_say_stall shared
maps_say_stall sync
umount /pmem
mount -t ext4 -o dax=inode /dev/pmem0 /pmem
maps_say_stall shared
maps_say_stall sync
say ok without permission mapped persistent memory classifies a program as stalling

begin_four
class_options=
for pid in $(echo $pids | tr ',' ' '); do class_options="$class_options --class $pid=$(class_of $pid)"; done
attach_nobody --policy cross --pid $pids $class_options
until_text /tmp/said "left alone: another user's: run as root"
is "$free" arrangement
kill -INT $session
ends 0
end_programs
for class in stall stall compute compute; do su nobody -c "works $class /tmp/turn" & done
becomes "$free" arrangement
pids=$(pidof works | tr ' ' ',')
class_options=
for pid in $(pidof works); do class_options="$class_options --class $pid=$(class_of $pid)"; done
attach_nobody --policy cross --pid $pids $class_options
becomes '2: compute+stall compute+stall' arrangement
kill -INT $session
ends 0
is "$free" arrangement
say ok 'declared classes need no permission for own programs, and programs of another user are not placed'
