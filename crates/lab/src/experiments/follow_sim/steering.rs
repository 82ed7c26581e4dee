//! The network of the simulation: backlogs of packets, and flows that follow their tasks.
//!
//! This models `get_rps_cpu` of the kernel's `net/core/dev.c`. One table holds, for each flow, the
//! CPU where its task last called the socket. A second table holds the CPU that gets the flow's
//! packets, and how far that CPU's backlog was filled behind the last packet. A packet goes to the
//! CPU in the first table only after the backlog of the CPU in the second has been processed that
//! far, so that no packet overtakes another.

use super::model::Steering;

/// A packet that waits for its interrupt.
#[derive(Clone, Copy, Default)]
pub(super) struct Packet {
    pub(super) flow: u32,
    /// Arrival time in nanoseconds. Only the low bits are kept, as no packet waits for 4 seconds.
    pub(super) arrived: u32,
}

/// Packets in a backlog: the value of `net.core.netdev_max_backlog`, rounded up.
const BACKLOG: usize = 1024;

/// The packets that a CPU has to process, in FIFO order.
pub(super) struct Backlog {
    packets: Box<[Packet; BACKLOG]>,
    /// Numbers of processed packets and of arrived packets, both modulo 2^32.
    head: u32,
    tail: u32,
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self { packets: Box::new([Packet::default(); BACKLOG]), head: 0, tail: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Appends `packet`, unless the backlog is full. Returns whether it fitted.
    #[inline]
    fn push(&mut self, packet: Packet) -> bool {
        let fits = self.tail.wrapping_sub(self.head) < BACKLOG as u32;
        if fits {
            self.packets[self.tail as usize % BACKLOG] = packet;
            self.tail = self.tail.wrapping_add(1);
        }
        fits
    }

    /// Removes the first packet, which has been processed.
    #[inline]
    pub(super) fn pop(&mut self) -> Packet {
        let packet = self.packets[self.head as usize % BACKLOG];
        self.head = self.head.wrapping_add(1);
        packet
    }

    /// Whether all packets before `tail` have been processed.
    #[inline]
    fn has_drained(&self, tail: u32) -> bool {
        self.head.wrapping_sub(tail) as i32 >= 0
    }
}

/// State of a flow in the network.
#[derive(Clone, Copy)]
pub(super) struct Flow {
    /// CPU that gets its packets.
    target: u16,
    /// CPU where its task called last.
    requested: u16,
    /// Request in transit to the steering unit, or `target` if there is none.
    next: u16,
    /// Tail of the backlog behind the flow's last packet.
    last_tail: u32,
    /// Arrival time of `next`.
    due: u64,
}

impl Flow {
    /// A flow with its task and its packets on `cpu`.
    pub(super) fn on(cpu: u16) -> Self {
        Self { target: cpu, requested: cpu, next: cpu, last_tail: 0, due: 0 }
    }

    /// Records that the task called the socket on `cpu`. One request is in transit at a time; a
    /// later one starts when that has arrived.
    #[inline]
    pub(super) fn request(&mut self, cpu: u16, now: u64, steering: Steering) {
        self.requested = cpu;
        if let Steering::Rfs { lag_ns } = steering
            && self.next == self.target
            && cpu != self.target
        {
            self.next = cpu;
            self.due = now + lag_ns;
        }
    }

    /// Queues an arrived packet. Returns its CPU, or `None` if that CPU's backlog is full.
    #[inline]
    pub(super) fn steer(
        &mut self,
        packet: Packet,
        now: u64,
        backlogs: &mut [Backlog],
        steering: Steering,
    ) -> Option<u16> {
        if self.next != self.target
            && now >= self.due
            && backlogs[usize::from(self.target)].has_drained(self.last_tail)
        {
            self.follow(now, steering.lag_ns());
        }
        let backlog = &mut backlogs[usize::from(self.target)];
        let fits = backlog.push(packet);
        self.last_tail = backlog.tail;
        fits.then_some(self.target)
    }

    /// Applies the requests that have arrived by now.
    #[inline]
    fn follow(&mut self, now: u64, lag_ns: u64) {
        self.target = self.next;
        if self.requested != self.target {
            self.next = self.requested;
            self.due += lag_ns;
            if now >= self.due {
                self.target = self.requested;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backlogs() -> Vec<Backlog> {
        (0..3).map(|_| Backlog::new()).collect()
    }

    fn arrive(flow: &mut Flow, now: u64, backlogs: &mut [Backlog], steering: Steering) -> u16 {
        flow.steer(Packet::default(), now, backlogs, steering).expect("room")
    }

    #[test]
    fn a_flow_follows_only_when_its_packets_have_been_processed() {
        let (mut flow, mut backlogs, rfs) = (Flow::on(0), backlogs(), Steering::Rfs { lag_ns: 0 });
        assert_eq!(arrive(&mut flow, 1, &mut backlogs, rfs), 0);
        flow.request(1, 2, rfs);
        assert_eq!(arrive(&mut flow, 3, &mut backlogs, rfs), 0, "one waits");
        backlogs[0].pop();
        assert_eq!(arrive(&mut flow, 4, &mut backlogs, rfs), 0, "one more waits");
        backlogs[0].pop();
        backlogs[0].pop();
        // A packet of another flow has no influence.
        arrive(&mut Flow::on(0), 5, &mut backlogs, rfs);
        assert_eq!(arrive(&mut flow, 6, &mut backlogs, rfs), 1);
    }

    #[test]
    fn with_a_lag_requests_arrive_in_sequence() {
        let (mut flow, mut backlogs, rfs) = (Flow::on(0), backlogs(), Steering::Rfs { lag_ns: 10 });
        let mut arrive = |flow: &mut Flow, now| {
            let cpu = arrive(flow, now, &mut backlogs, rfs);
            backlogs[usize::from(cpu)].pop();
            cpu
        };
        flow.request(1, 100, rfs);
        flow.request(0, 105, rfs);
        assert_eq!(arrive(&mut flow, 109), 0);
        assert_eq!(arrive(&mut flow, 110), 1, "the first request, though it is outdated");
        assert_eq!(arrive(&mut flow, 119), 1);
        assert_eq!(arrive(&mut flow, 120), 0, "the second");
        assert_eq!(arrive(&mut flow, 200), 0);
        flow.request(2, 300, rfs);
        flow.request(1, 301, rfs);
        assert_eq!(arrive(&mut flow, 320), 1, "both have arrived");
    }

    #[test]
    fn without_steering_a_flow_stays() {
        let (mut flow, mut backlogs) = (Flow::on(0), backlogs());
        flow.request(1, 1, Steering::Hash);
        assert_eq!(arrive(&mut flow, 1_000_000, &mut backlogs, Steering::Hash), 0);
    }

    #[test]
    fn a_full_backlog_takes_nothing() {
        let (mut flow, mut backlogs) = (Flow::on(0), backlogs());
        for _ in 0..BACKLOG {
            arrive(&mut flow, 1, &mut backlogs, Steering::Hash);
        }
        assert_eq!(flow.steer(Packet::default(), 2, &mut backlogs, Steering::Hash), None);
        backlogs[0].pop();
        assert_eq!(arrive(&mut flow, 3, &mut backlogs, Steering::Hash), 0);
    }
}
