//! The threads of a ring, from creation to join.

use std::{
    io,
    thread::{Builder, Scope, ScopedJoinHandle, scope},
};

use daiko_sys::cpu;

use super::{
    Agent, Buffer, Conductor, Gate, Port,
    cpus::Places,
    part::{Follower, Leader, Part, START, pass_on},
};
use crate::{
    experiments::ring::{Cpus, Kind, Method, Outcome, Spec},
    kit::{Failure, OrFailure, Skip, thread_limits},
};

/// Stack size in bytes of address space. Small, so that 10,000 threads fit wherever a few do.
const STACK: usize = 64 * 1024;

/// The method that sends through ports of type `P`.
pub(crate) struct Threads<P> {
    pub(crate) name: &'static str,
    /// Opens a port for each of the given number of threads.
    pub(crate) open: fn(usize) -> io::Result<Vec<P>>,
    /// Tests whether the ring's threads can wait this way here.
    pub(crate) supports: fn(&Spec) -> Result<(), Skip>,
    /// Laps of the first, calibrating run.
    pub(crate) first_laps: fn(&Spec) -> u64,
    /// Agent that serves all threads, where they need one.
    pub(crate) agent: Option<Agent<P>>,
}

impl<P> Threads<P> {
    /// A method that is supported everywhere, without an agent.
    pub(crate) fn new(name: &'static str, open: fn(usize) -> io::Result<Vec<P>>) -> Self {
        Self { name, open, supports: |_| Ok(()), first_laps: Spec::usual_laps, agent: None }
    }
}

/// A method in which each thread waits at a gate of type `G`.
pub(crate) fn gates<G: Gate + Default>(name: &'static str) -> Threads<Buffer<G>> {
    Threads::new(name, |threads| Ok((0..threads).map(|_| Buffer::new(G::default())).collect()))
}

impl<P: Port> Method for Threads<P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> Kind {
        Kind::Kernel
    }

    fn supports(&self, spec: &Spec) -> Result<(), Skip> {
        if self.agent.is_some() {
            own_cpu(spec.cpus)?;
        }
        (self.supports)(spec)
    }

    fn first_laps(&self, spec: &Spec) -> u64 {
        (self.first_laps)(spec)
    }

    fn run(&self, spec: &Spec) -> Result<Outcome, Failure> {
        let allowed = cpu::allowed().or_broken("sched_getaffinity")?;
        let agent = self.agent;
        let ports = (self.open)(spec.threads).or_limit(self.name)?;
        Ring {
            spec,
            agent,
            successors: spec.successors(),
            places: Places::new(&allowed, spec.cpus, agent.is_some()),
            ports: &ports,
            conductor: &Conductor::default(),
        }
        .run()
    }
}

/// Checks that an agent can have a CPU of its own.
fn own_cpu(cpus: Cpus) -> Result<(), Skip> {
    let allowed = cpu::allowed().map_or(1, |allowed| allowed.len());
    if allowed < 2 {
        return Err(Skip::new("the agent needs a CPU of its own: allow two or more"));
    }
    match cpus {
        Cpus::One => Err(Skip::new("not with cpus=one: the agent needs a CPU of its own")),
        Cpus::All => Ok(()),
    }
}

/// One run of a ring.
struct Ring<'a, P> {
    spec: &'a Spec,
    agent: Option<Agent<P>>,
    successors: Vec<u32>,
    places: Places,
    ports: &'a [P],
    conductor: &'a Conductor,
}

impl<P: Port> Ring<'_, P> {
    fn run(&self) -> Result<Outcome, Failure> {
        scope(|scope| {
            let mut crew = Vec::with_capacity(self.spec.threads + 1);
            let made = self.create(scope, &mut crew);
            let over = match made {
                Ok(()) => self.conduct(),
                Err(failure) => {
                    self.conductor.halt();
                    self.conductor.wait_arrived(crew.len());
                    Err(failure)
                }
            };
            // An agent has no port; it sees the flag.
            self.ports.iter().take(crew.len()).for_each(P::rouse);
            let outcome = join(crew)?;
            over.map(|()| outcome)
        })
    }

    fn create<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        crew: &mut Vec<ScopedJoinHandle<'scope, Option<Outcome>>>,
    ) -> Result<(), Failure> {
        let total = self.spec.threads + usize::from(self.agent.is_some());
        for index in 0..total {
            let body = move || self.thread(index, total);
            let made = Builder::new().stack_size(STACK).spawn_scoped(scope, body);
            let refused = |error: io::Error| thread_limits::refused(index, total, &error);
            crew.push(made.map_err(refused)?);
        }
        Ok(())
    }

    fn conduct(&self) -> Result<(), Failure> {
        self.conductor.wait_assembled();
        self.ports[0].send(START);
        self.conductor.wait_over(self.spec.limit)
    }

    /// Body of thread `index` of `total`. The thread after the ring's last one is the agent.
    /// Returns the measurement if it is the leader.
    fn thread(&self, index: usize, total: usize) -> Option<Outcome> {
        let agent = self.agent.filter(|_| index == self.spec.threads);
        let place = if agent.is_some() { &self.places.agent } else { &self.places.ring };
        if let Err(failure) = cpu::bind_current(place).or_broken("sched_setaffinity") {
            self.conductor.report(Err(failure));
        }
        if let Some(agent) = agent {
            self.conductor.arrive(total);
            agent(self.ports, self.conductor);
            return None;
        }
        self.ports[index].attach();
        self.conductor.arrive(total);
        if index == 0 {
            let mut leader = Leader::new(self.spec.laps);
            self.play(0, &mut leader);
            return Some(leader.outcome());
        }
        self.play(index, &mut Follower::new(self.spec.laps));
        None
    }

    /// Passes data on until the part ends or the conductor halts.
    fn play(&self, index: usize, part: &mut impl Part) {
        let own = &self.ports[index];
        let next = &self.ports[self.successors[index] as usize];
        let mut last = 0;
        loop {
            let found = own.receive(last, self.conductor);
            if self.conductor.halted() {
                return;
            }
            last = found;
            if !pass_on(part, found, self.conductor, |datum| next.send(datum)) {
                return;
            }
        }
    }
}

/// Joins all threads. Returns the leader's measurement.
fn join(crew: Vec<ScopedJoinHandle<'_, Option<Outcome>>>) -> Result<Outcome, Failure> {
    let mut outcome = None;
    for thread in crew {
        let result = thread.join().map_err(|_| Failure::Broken("a thread panicked".into()))?;
        outcome = outcome.or(result);
    }
    Ok(outcome.unwrap_or_default())
}
