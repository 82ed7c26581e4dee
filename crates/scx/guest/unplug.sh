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

# The maps of the killed process do not disturb the next start. A CPU that goes offline makes the
# kernel detach the scheduler and ask for a restart.
attach follow
echo 0 >/sys/devices/system/cpu/cpu1/online
until_text /tmp/start 'started again: .*cpu 1 going offline'
until_text /sys/kernel/sched_ext/state enabled
expect 'policy: follow, at most 4 wake-ups' daiko follow status
echo 1 >/sys/devices/system/cpu/cpu1/online
until_text /tmp/start 'started again: .*cpu 1 going online'
until_text /sys/kernel/sched_ext/state enabled
kill -INT $scheduler
wait $scheduler || fail "an interrupt ended daiko follow start with $?: $(cat /tmp/start)"
expect disabled cat /sys/kernel/sched_ext/state
[ ! -e /sys/fs/bpf/daiko ] || fail 'maps were left behind'
say ok 'the scheduler starts again when a CPU goes and comes'

echo 0 >/sys/devices/system/cpu/cpu1/online
# The scheduler works with one CPU less.
attach follow
kill -INT $scheduler
wait $scheduler || fail "an interrupt ended daiko follow start with $?"
expect disabled cat /sys/kernel/sched_ext/state
