//! The threads of a ring, from creation to join.

use std::io;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

use daiko_sys::cpu;

use super::cpus::Places;
use super::part::{Follower, Leader, Part, START, pass_on};
use super::{Agent, Buffer, Conductor, Gate, Port};
use crate::experiments::ring::{Method, RingOutcome, RingSpec, VariedParameters};
use crate::kit::{Failure, OrFailure, thread_limits};

/// Stack size in bytes of address space. Small, so that 10,000 threads fit wherever a few do.
const STACK: usize = 64 * 1024;

/// The method that sends by ports of type `P`: `open` opens a port for each of so many threads. An
/// `agent` serves all threads, where they need it.
pub(crate) fn ports<P: Port>(
    name: &'static str,
    open: fn(usize) -> io::Result<Vec<P>>,
    agent: Option<Agent<P>>,
) -> Method {
    Method::new(name, VariedParameters::Kernel, move |spec| {
        let allowed = cpu::allowed().or_broken("sched_getaffinity")?;
        let ports = open(spec.threads).or_limit(name)?;
        ThreadRing {
            spec,
            agent,
            successors: spec.successors(),
            places: Places::new(&allowed, spec.cpus, agent.is_some()),
            ports: &ports,
            conductor: &Conductor::default(),
        }
        .run()
    })
}

/// The method whose threads wait at a gate each, as it is by default.
pub(crate) fn gates<G: Gate + Default>(name: &'static str) -> Method {
    let open = |threads| Ok((0..threads).map(|_| Buffer::new(G::default())).collect());
    ports(name, open, None)
}

/// One run of a ring.
struct ThreadRing<'a, P> {
    spec: &'a RingSpec,
    agent: Option<Agent<P>>,
    successors: Vec<u32>,
    places: Places,
    ports: &'a [P],
    conductor: &'a Conductor,
}

impl<P: Port> ThreadRing<'_, P> {
    fn run(&self) -> Result<RingOutcome, Failure> {
        scope(|scope| {
            let mut handles = Vec::with_capacity(self.spec.threads + 1);
            let made = self.create(scope, &mut handles);
            let over = match made {
                Ok(()) => self.conduct(),
                Err(failure) => {
                    self.conductor.halt();
                    self.conductor.wait_arrived(handles.len());
                    Err(failure)
                }
            };
            // An agent has no port; it sees the flag.
            self.ports.iter().take(handles.len()).for_each(P::rouse);
            let outcome = join(handles)?;
            over.map(|()| outcome)
        })
    }

    fn create<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        handles: &mut Vec<ScopedJoinHandle<'scope, Option<RingOutcome>>>,
    ) -> Result<(), Failure> {
        let total = self.spec.threads + usize::from(self.agent.is_some());
        for index in 0..total {
            let body = move || self.thread(index, total);
            let made = Builder::new().stack_size(STACK).spawn_scoped(scope, body);
            let refused = |error: io::Error| thread_limits::refused(index, total, &error);
            handles.push(made.map_err(refused)?);
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
    fn thread(&self, index: usize, total: usize) -> Option<RingOutcome> {
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
fn join(handles: Vec<ScopedJoinHandle<'_, Option<RingOutcome>>>) -> Result<RingOutcome, Failure> {
    let mut outcome = None;
    for thread in handles {
        let result = thread.join().map_err(|_| Failure::Broken("a thread panicked".into()))?;
        outcome = outcome.or(result);
    }
    Ok(outcome.unwrap_or_default())
}
