# What both parts begin with: the network, and how a scheduler is attached.
mount -t bpf bpf /sys/fs/bpf

# The kernel changes its code when a scheduler comes or goes, and at most settings of the network: all that happens while nothing
# else does, or not at all, as emulators do not always notice in time.
connect() {
    for module in failover net_failover virtio_net; do insmod "/modules/$module.ko"; done
    ip link set lo up
    ip address add 10.99.0.2/24 dev eth0
    ip link set eth0 up
    echo 32768 >/proc/sys/net/core/rps_sock_flow_entries
    until_text /sys/class/net/eth0/operstate 'up\|unknown'
}

# Each packet to where its flow was read last, or all where their interrupt is: by the table of the queue alone.
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
