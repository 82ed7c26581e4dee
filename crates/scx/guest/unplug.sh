# Refused starts of a scheduler, and its unrequested ends: a kill, and a CPU that goes offline.

echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
expect "schedulers are root's" su nobody -c 'daiko follow start'
umount /sys/fs/bpf
expect 'mount -t bpf bpf /sys/fs/bpf' daiko follow start
expect disabled cat /sys/kernel/sched_ext/state
mount -t bpf bpf /sys/fs/bpf

attach follow
kill -9 $scheduler
wait $scheduler
until_text /sys/kernel/sched_ext/state disabled
expect 'no scheduler is attached' daiko follow status
[ -e /sys/fs/bpf/daiko ] || fail 'a killed process has tidied up'

# The maps of the killed process do not disturb the next start.
attach follow
echo 0 >/sys/devices/system/cpu/cpu1/online
wait $scheduler && fail 'daiko follow start ended well without its CPU'
expect 'cpu 1 going offline' cat /tmp/start
expect 'start it again' cat /tmp/start
expect disabled cat /sys/kernel/sched_ext/state
[ ! -e /sys/fs/bpf/daiko ] || fail 'maps were left behind'

# The scheduler works with one CPU less.
attach follow
kill -INT $scheduler
wait $scheduler || fail "an interrupt ended daiko follow start with $?"
expect disabled cat /sys/kernel/sched_ext/state
