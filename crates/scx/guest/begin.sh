# Common functions of both parts: the network, and attaching a scheduler.
mount -t bpf bpf /sys/fs/bpf

# The kernel patches its code when a scheduler is attached or detached, and for most network
# settings. That happens while nothing else runs, or not at all, as emulators do not always notice
# it in time.
connect() {
    for module in failover net_failover virtio_net; do insmod "/modules/$module.ko"; done
    ip link set lo up
    ip address add 10.99.0.2/24 dev eth0
    ip link set eth0 up
    echo 32768 >/proc/sys/net/core/rps_sock_flow_entries
    until_text /sys/class/net/eth0/operstate 'up\|unknown'
}

# Steers each packet to the last reader of its flow (on), or leaves all on the CPU of their
# interrupt (off), by the table of the queue alone.
steer() { # steer on|off
    case $1 in
        on) entries=32768 ;;
        off) entries=0 ;;
    esac
    echo $entries >/sys/class/net/eth0/queues/rx-0/rps_flow_cnt
}

attach() { # attach POLICY
    : >/tmp/start
    daiko follow start --policy "$1" >>/tmp/start 2>&1 &
    scheduler=$!
    until_text /tmp/start '^attached'
    expect enabled cat /sys/kernel/sched_ext/state
}

connect
