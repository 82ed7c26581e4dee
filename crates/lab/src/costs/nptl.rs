//! POSIX threads, by the C library's own calls, all bound to one CPU: where the
//! system places them it pays for moving and waking besides, and most of a
//! create and join is that.

use std::{ffi::c_void, io, ptr, thread};

use super::{
    CREATE_JOIN, FORK_JOIN, FORKED, Item, Method, YIELD, YIELDS,
    laps::{ALWAYS, Laps, SELDOM, Timed, Turn},
};
use crate::{
    Failure,
    experiment::Effort,
    host,
    pthread::{Attributes, Pthread},
    ring::kernel::harness::limits,
};

pub(super) const METHOD: Method = Method {
    name: "nptl",
    items: &[
        Item { name: CREATE_JOIN, times: 1, first: 100, run: |effort| run(create_join, effort) },
        Item {
            name: FORK_JOIN,
            times: FORKED as u64,
            first: 1,
            run: |effort| run(fork_join, effort),
        },
        Item { name: YIELD, times: YIELDS, first: 1000, run: |effort| run(yield_pair, effort) },
    ],
};

type Body = fn(Effort) -> Result<Timed, Failure>;

/// Runs `body` on a bound thread; those that it creates inherit the CPU.
fn run(body: Body, effort: Effort) -> Result<Timed, Failure> {
    let cpu = *host::cpu_list().first().expect("a process has a CPU");
    let bound = move || host::bind(cpu).map_err(broken).and_then(|()| body(effort));
    thread::spawn(bound).join().expect("no body panics")
}

extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

fn create(attributes: &Attributes) -> io::Result<Pthread> {
    // SAFETY: `nothing` does not use its argument.
    unsafe { attributes.create(nothing, ptr::null()) }
}

fn create_join(effort: Effort) -> Result<Timed, Failure> {
    let attributes = Attributes::small_stacks().map_err(broken)?;
    let mut laps = Laps::new(effort, SELDOM);
    while laps.another() {
        create(&attributes).and_then(Pthread::join).map_err(broken)?;
    }
    Ok(laps.end())
}

fn fork_join(effort: Effort) -> Result<Timed, Failure> {
    let attributes = Attributes::small_stacks().map_err(broken)?;
    let mut threads = Vec::with_capacity(FORKED);
    let mut laps = Laps::new(effort, ALWAYS);
    while laps.another() {
        for index in 0..FORKED {
            let thread = create(&attributes);
            let refused = |error: io::Error| Failure::Limit(limits::explain(index, FORKED, &error));
            threads.push(thread.map_err(refused)?);
        }
        for thread in threads.drain(..) {
            thread.join().map_err(broken)?;
        }
    }
    Ok(laps.end())
}

/// `sched_yield` may return to its caller although another thread is runnable:
/// a turn takes as many as it takes.
fn yield_pair(effort: Effort) -> Result<Timed, Failure> {
    let turn = Turn::default();
    let attributes = Attributes::small_stacks().map_err(broken)?;
    // SAFETY: `follow` expects a turn; this one outlives the join below.
    let follower = unsafe { attributes.create(follow, (&raw const turn).cast()) };
    let follower = follower.map_err(broken)?;
    let timed = turn.lead(effort, sched_yield);
    follower.join().map_err(broken)?;
    Ok(timed)
}

extern "C" fn follow(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `yield_pair` passes a turn that outlives this thread.
    let turn = unsafe { &*argument.cast::<Turn>() };
    turn.follow(sched_yield);
    ptr::null_mut()
}

fn sched_yield() {
    // SAFETY: takes nothing, and cannot fail on Linux.
    unsafe { libc::sched_yield() };
}

fn broken(error: io::Error) -> Failure {
    Failure::Broken(format!("a POSIX thread failed: {error}"))
}
