//! The simulation: packets arrive, are processed and wake tasks, which run.

use std::collections::VecDeque;

use daiko_core::place::{Follow, existing};

use super::agenda::{Agenda, NEVER};
use super::cpus::{Cpu, Doing, NO_TASK};
use super::draw::Draw;
use super::model::{Model, WakePolicy};
use super::outcome::SimOutcome;
use super::steering::{Backlog, Flow, Packet};
use super::tally::Account;
use super::trace::Wake;
use crate::kit::Failure;

/// A task that reads one flow.
#[derive(Clone, Copy)]
struct SimTask {
    /// Unread packets, including the packet that woke it. The task sleeps if there are none.
    packets: u32,
    /// The CPU of the task, or its last one.
    cpu: u16,
    /// The CPU on which it last began to run.
    warm_on: u16,
    /// Arrival time of the packet that woke the task; the low bits, as in a packet.
    arrived: u32,
    /// Whether the task has been woken and has not run yet.
    is_late: bool,
    /// Service time left for the packet at which the slice ended.
    left: u64,
    follow: Follow,
    account: Account,
}

/// Timers: events without a CPU. They are kept outside the agenda: arrivals of packets are too
/// frequent for a place in it.
const STARTS: usize = 0;
const REPEATS: usize = 1;
const OTHER_WORK: usize = 2;
const BALANCES: usize = 3;
const TIMERS: usize = 4;

/// The mutable state of a simulation. No event allocates memory.
pub(super) struct SimMachine {
    model: Model,
    /// Probability, times 2^32, that another packet of the burst follows.
    repeat_chance: u32,
    /// Mean time between bursts, over all flows, and between pieces of other load.
    start_mean: u64,
    other_mean: u64,
    now: u64,
    /// For each CPU, the end of its current activity.
    agenda: Agenda,
    timers: [u64; TIMERS],
    /// Index of the first timer to expire.
    soonest: usize,
    draw: Draw,
    /// Next packets of bursts in progress, by time. The order holds because the gap between packets
    /// is fixed.
    repeats: VecDeque<(u64, u32)>,
    cpus: Box<[Cpu]>,
    backlogs: Box<[Backlog]>,
    /// Bit mask of the idle CPUs.
    idle: u128,
    flows: Box<[Flow]>,
    tasks: Box<[SimTask]>,
    /// For each queued task, the task behind it.
    next: Box<[u32]>,
    /// Results since the beginning, or since [`forget`](Self::forget).
    pub(super) outcome: SimOutcome,
}

impl SimMachine {
    /// A machine with all tasks asleep, evenly spread, and their packets steered to them.
    pub(super) fn new(model: &Model) -> Result<Self, Failure> {
        model.check()?;
        let cpus = usize::from(model.cpus);
        let home = |flow: u32| (flow % u32::from(model.cpus)) as u16;
        let task = |cpu| SimTask {
            packets: 0,
            cpu,
            warm_on: cpu,
            arrived: 0,
            is_late: false,
            left: 0,
            follow: Follow::new(),
            account: Account::default(),
        };
        let per_second = u64::from(model.flows) * model.rate;
        let mut machine = Self {
            model: *model,
            repeat_chance: ((1u64 << 32) - (1u64 << 32) / u64::from(model.burst)) as u32,
            start_mean: 1_000_000_000 * u64::from(model.burst) / per_second,
            other_mean: model.load_ns * 100 / model.load.max(1) / u64::from(model.cpus),
            now: 0,
            agenda: Agenda::new(cpus),
            timers: [NEVER; TIMERS],
            soonest: STARTS,
            draw: Draw::new(model.seed),
            repeats: VecDeque::with_capacity(1024),
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            backlogs: (0..cpus).map(|_| Backlog::new()).collect(),
            idle: u128::MAX >> (128 - cpus),
            flows: (0..model.flows).map(|flow| Flow::on(home(flow))).collect(),
            tasks: (0..model.flows).map(|flow| task(home(flow))).collect(),
            next: vec![NO_TASK; model.flows as usize].into(),
            outcome: SimOutcome::default(),
        };
        machine.begin();
        Ok(machine)
    }

    fn begin(&mut self) {
        let start = self.draw.exponential(self.start_mean);
        self.set_timer(STARTS, start);
        if self.model.load > 0 {
            let other = self.draw.exponential(self.other_mean);
            self.set_timer(OTHER_WORK, other);
        }
        if self.model.balance_ns > 0 {
            self.set_timer(BALANCES, self.model.balance_ns);
        }
    }

    #[inline]
    fn set_timer(&mut self, timer: usize, time: u64) {
        self.timers[timer] = time;
        self.soonest = (0..TIMERS).min_by_key(|timer| self.timers[*timer]).unwrap_or(STARTS);
    }

    /// Restarts all counts.
    pub(super) fn forget(&mut self) {
        let warm_up = self.outcome.tally.wakes;
        self.outcome = SimOutcome { began: self.now, warm_up, ..SimOutcome::default() };
    }

    /// Runs until this many more packets have arrived. `observe` sees each wake-up.
    pub(super) fn run(&mut self, packets: u64, mut observe: impl FnMut(&Wake)) {
        let until = self.outcome.packets + packets;
        while self.outcome.packets < until {
            let (ends, cpu) = self.agenda.next();
            let timer = self.timers[self.soonest];
            if ends <= timer {
                self.now = ends;
                self.event(cpu, &mut observe);
            } else {
                self.now = timer;
                self.expire();
            }
        }
        self.outcome.ended = self.now;
    }

    /// Handles the first timer, which is due.
    #[inline]
    fn expire(&mut self) {
        match self.soonest {
            STARTS => self.start(),
            REPEATS => self.repeat(),
            OTHER_WORK => self.other(),
            _ => self.balance(),
        }
    }

    /// Begins a burst. The bursts of all flows form one Poisson process, and each burst chooses its
    /// flow uniformly, so the bursts of each flow form a Poisson process as well.
    fn start(&mut self) {
        let after = self.draw.exponential(self.start_mean);
        self.set_timer(STARTS, self.now + after);
        let flow = self.draw.below(self.model.flows);
        self.arrive(flow);
    }

    /// Delivers a further packet of a burst.
    fn repeat(&mut self) {
        let (_, flow) = self.repeats.pop_front().expect("it was due");
        let next = self.repeats.front().map_or(NEVER, |(time, _)| *time);
        self.set_timer(REPEATS, next);
        self.arrive(flow);
    }

    fn arrive(&mut self, flow: u32) {
        self.outcome.packets += 1;
        if self.draw.happens(self.repeat_chance) {
            let time = self.now + self.model.gap_ns;
            if self.repeats.is_empty() {
                self.set_timer(REPEATS, time);
            }
            self.repeats.push_back((time, flow));
        }
        let packet = Packet { flow, arrived: self.now as u32 };
        let known = &mut self.flows[flow as usize];
        match known.steer(packet, self.now, &mut self.backlogs, self.model.steering) {
            Some(cpu) if self.cpus[usize::from(cpu)].doing != Doing::Interrupt => {
                self.cpus[usize::from(cpu)].account(self.now);
                self.go_on(usize::from(cpu));
            }
            Some(_) => {}
            None => self.outcome.dropped += 1,
        }
    }

    /// Begins a piece of other load on a random CPU.
    fn other(&mut self) {
        let after = self.draw.exponential(self.other_mean);
        self.set_timer(OTHER_WORK, self.now + after);
        let cpu = self.draw.below(self.model.cpus.into()) as usize;
        let length = self.draw.exponential(self.model.load_ns).max(1);
        self.cpus[cpu].account(self.now);
        self.cpus[cpu].other_left += length;
        self.idle &= !(1 << cpu);
        if matches!(self.cpus[cpu].doing, Doing::Idle | Doing::Other) {
            self.go_on(cpu);
        }
    }

    /// Moves a task from the CPU with the longest queue to an idle one.
    fn balance(&mut self) {
        self.set_timer(BALANCES, self.now + self.model.balance_ns);
        let busiest = (0..self.cpus.len()).max_by_key(|cpu| self.cpus[*cpu].waiting);
        let Some(from) = busiest.filter(|_| self.idle != 0) else { return };
        let Some(task) = self.cpus[from].unqueue(&self.next) else { return };
        let to = self.idle.trailing_zeros() as u16;
        self.outcome.tally.other_migrations += 1;
        self.put(task, to);
    }

    /// Handles the end of a CPU's activity.
    #[inline]
    fn event(&mut self, cpu: usize, observe: &mut impl FnMut(&Wake)) {
        let now = self.now;
        self.cpus[cpu].account(now);
        match self.cpus[cpu].doing {
            Doing::Interrupt => {
                let packet = self.backlogs[cpu].pop();
                self.outcome.busy_ns += self.model.interrupt_ns;
                self.deliver(packet, cpu as u16, observe);
            }
            Doing::Task if self.cpus[cpu].service_left == 0 => self.finish_packet(cpu),
            Doing::Task => self.yields(cpu),
            Doing::Other => self.set_idle(cpu),
            Doing::Idle => unreachable!("an idle CPU has no event"),
        }
        self.go_on(cpu);
    }

    /// Completes the processing of a packet on `waker`. Wakes its task if that sleeps.
    fn deliver(&mut self, packet: Packet, waker: u16, observe: &mut impl FnMut(&Wake)) {
        let (idle, policy) = (self.idle, self.model.policy);
        let task = &mut self.tasks[packet.flow as usize];
        task.packets += 1;
        if task.packets > 1 {
            return;
        }
        let previous = task.cpu;
        let kernels = || existing(waker, previous, idle);
        let chosen = match policy {
            WakePolicy::Existing => kernels(),
            WakePolicy::Follow { bound } => task.follow.place(waker, previous, bound, kernels),
        };
        self.outcome.tally.count(&mut task.account, waker, previous, chosen);
        (task.arrived, task.is_late) = (packet.arrived, true);
        observe(&Wake { at_ns: self.now, task: packet.flow, waker, previous, idle, chosen });
        self.put(packet.flow, chosen);
    }

    /// Queues `task` on the CPU `to`, which may be busy.
    fn put(&mut self, task: u32, to: u16) {
        self.tasks[task as usize].cpu = to;
        let cpu = usize::from(to);
        self.cpus[cpu].queue(task, &mut self.next);
        self.idle &= !(1 << cpu);
        if matches!(self.cpus[cpu].doing, Doing::Idle | Doing::Other) {
            self.cpus[cpu].account(self.now);
            self.go_on(cpu);
        }
    }

    /// Records that the running task has read a packet and asks for the next on this CPU.
    fn finish_packet(&mut self, cpu: usize) {
        let task = self.cpus[cpu].running;
        self.flows[task as usize].request(cpu as u16, self.now, self.model.steering);
        let packets = &mut self.tasks[task as usize].packets;
        *packets -= 1;
        if *packets > 0 {
            self.serve(cpu, 0);
            if self.cpus[cpu].slice_left == 0 {
                self.yields(cpu);
            }
        } else {
            self.cpus[cpu].running = NO_TASK;
            self.set_idle(cpu);
        }
    }

    /// Handles the end of the running task's slice.
    fn yields(&mut self, cpu: usize) {
        let own = &mut self.cpus[cpu];
        own.slice_left = self.model.slice_ns;
        if own.waiting > 0 {
            let task = std::mem::replace(&mut own.running, NO_TASK);
            self.tasks[task as usize].left = own.service_left;
            own.queue(task, &mut self.next);
        }
    }

    fn set_idle(&mut self, cpu: usize) {
        self.idle |= u128::from(self.cpus[cpu].is_idle()) << cpu;
    }

    /// Lets the running task begin with a packet.
    fn serve(&mut self, cpu: usize, more_ns: u64) {
        let service = self.draw.exponential(self.model.service_ns).max(1) + more_ns;
        self.outcome.busy_ns += service;
        self.cpus[cpu].service_left = service;
    }

    /// Chooses the next activity of `cpu`. The caller has accounted for its time.
    #[inline]
    fn go_on(&mut self, cpu: usize) {
        if self.cpus[cpu].running == NO_TASK && self.backlogs[cpu].is_empty() {
            self.dispatch(cpu);
        }
        let length = self.cpus[cpu].choose(&self.backlogs[cpu], self.model.interrupt_ns);
        self.cpus[cpu].since = self.now;
        self.agenda.set(cpu, length.map_or(NEVER, |length| self.now + length));
    }

    /// Gives `cpu` to the first task that waits for it, if there is one.
    #[inline]
    fn dispatch(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].unqueue(&self.next) else { return };
        self.cpus[cpu].running = task;
        self.cpus[cpu].slice_left = self.model.slice_ns;
        let known = &mut self.tasks[task as usize];
        if known.is_late {
            known.is_late = false;
            let late = (self.now as u32).wrapping_sub(known.arrived);
            self.outcome.latencies.record(late.into());
        }
        let is_cold = known.warm_on != cpu as u16;
        known.warm_on = cpu as u16;
        match std::mem::take(&mut known.left) {
            0 => self.serve(cpu, if is_cold { self.model.cold_ns } else { 0 }),
            left => self.cpus[cpu].service_left = left,
        }
    }
}
