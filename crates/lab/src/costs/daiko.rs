//! Fibers of a runtime with one worker, created by a fiber.

use daiko::{Builder, JoinError, JoinHandle, Runtime, SpawnError};

use super::{
    CREATE, CREATE_JOIN, FORK_JOIN, Item, JOIN, Method, THREAD_INFO, YIELD,
    create::{self, Create, TOKEN},
    info,
    laps::Timed,
    threads::Threads,
    turn::yield_pair,
};
use crate::{Failure, experiment::Effort};

pub(super) const METHOD: Method = Method {
    name: "daiko",
    items: &[
        Item::of(THREAD_INFO, |effort| run(info::thread_local, effort)).with("of", "tls"),
        Item::of(THREAD_INFO, |effort| run(current, effort)).with("of", "current"),
        Item::of(CREATE, |effort| run(|effort| create::create(&Fibers, effort), effort)),
        Item::of(JOIN, |effort| run(|effort| create::join(&Fibers, effort), effort)),
        Item::of(CREATE_JOIN, |effort| run(|effort| create::create_join(&Fibers, effort), effort)),
        Item::of(FORK_JOIN, |effort| run(|effort| create::fork_join(&Fibers, effort), effort)),
        Item::of(YIELD, |effort| run(yield_pair::<Fibers>, effort)),
    ],
};

/// Runs `body` in a fiber.
fn run(body: fn(Effort) -> Result<Timed, Failure>, effort: Effort) -> Result<Timed, Failure> {
    let runtime = Runtime::builder().workers(1).build();
    let runtime = runtime.map_err(|error| Failure::Limit(error.to_string()))?;
    runtime.run(move || body(effort))
}

/// The fiber itself, by a handle.
fn current(effort: Effort) -> Result<Timed, Failure> {
    let own = daiko::current();
    info::ask(effort, || daiko::current() == own)
}

/// Fibers, for those that are one.
struct Fibers;

impl Create for Fibers {
    type Thread = JoinHandle<u64>;

    #[inline]
    fn create(&self, _: usize, _: usize) -> Result<JoinHandle<u64>, Failure> {
        Builder::new().spawn(|| TOKEN).map_err(refused)
    }

    fn run(&self, threads: &[JoinHandle<u64>]) {
        while !threads.iter().all(JoinHandle::is_finished) {
            daiko::yield_now();
        }
    }

    #[inline]
    fn join(thread: JoinHandle<u64>) -> Result<u64, Failure> {
        thread.join().map_err(broken)
    }
}

impl Threads for Fibers {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn spawn<T: Send + 'static>(
        _: usize,
        _: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        Builder::new().spawn(body).map_err(refused)
    }

    fn join<T: Send + 'static>(thread: JoinHandle<T>) -> Result<T, Failure> {
        thread.join().map_err(broken)
    }

    /// Inlined, so that all who yield do so in places of their own.
    #[inline(always)]
    fn yield_now() {
        daiko::yield_now();
    }
}

fn refused(error: SpawnError) -> Failure {
    Failure::Limit(error.to_string())
}

fn broken(error: JoinError) -> Failure {
    Failure::Broken(format!("daiko: {error}"))
}
