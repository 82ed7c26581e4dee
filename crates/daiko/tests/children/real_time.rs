//! Workers with a real-time policy: as they keep their CPUs from threads of lower priority, agents
//! without work sleep under every preset. Otherwise the kernel ends the child.

use std::thread;

use crate::support::child::in_child_well;
use crate::support::real_time::RealTime;
use crate::support::{PRESETS, end, skip, until};
use daiko::sync::channel::bounded;
use daiko::{Builder, Preset, Runtime};
use daiko_sys::cpu;
use daiko_sys::thread as kernel_thread;

const POLICIES: [libc::c_int; 2] = [libc::SCHED_FIFO, libc::SCHED_RR];

/// Returns true if agents spin at all here.
fn has_two_cpus() -> bool {
    let has = cpu::default_workers() >= 2;
    if !has {
        skip("agents never spin on one CPU");
    }
    has
}

fn build(preset: Preset) -> Runtime {
    Runtime::builder().workers(2).preset(preset).build().unwrap()
}

/// Builds a runtime on a thread with `policy`, which its threads inherit. `None` if it is refused.
fn build_under(policy: libc::c_int, preset: Preset) -> Option<Runtime> {
    thread::scope(|threads| {
        let builds = || RealTime::enter(policy).map(|_real_time| build(preset));
        threads.spawn(builds).join().unwrap()
    })
}

/// Waits until each worker has slept once more.
fn await_sleeps(runtime: &Runtime) {
    let parks = || runtime.counters().into_iter().map(|counts| counts.parks).collect::<Vec<_>>();
    let before = parks();
    // A message may find a worker asleep for good: each is made to look, and to sleep anew.
    pass_messages(runtime, 1);
    until("each worker has slept", || {
        parks().iter().zip(&before).take(2).all(|(now, was)| now > was)
    });
}

/// Sends messages from this thread to one worker, from there to the other, and back.
fn pass_messages(runtime: &Runtime, count: u64) {
    let (to, from_thread) = bounded(1);
    let (on, from_first) = bounded(1);
    let (back, answers) = bounded(1);
    let first = runtime.spawn_with(Builder::new().on(0), move || {
        from_thread.iter().for_each(|number: u64| on.send(number + 1).unwrap());
    });
    let second = runtime.spawn_with(Builder::new().on(1), move || {
        from_first.iter().for_each(|number: u64| back.send(number + 1).unwrap());
    });
    for number in 0..count {
        to.send(number).unwrap();
        assert_eq!(answers.recv(), Ok(number + 2));
    }
    drop(to);
    first.unwrap().join().unwrap();
    second.unwrap().join().unwrap();
}

#[test]
fn agents_with_a_real_time_policy_leave_their_cpus_to_lower_priorities() {
    const NAME: &str =
        "real_time::agents_with_a_real_time_policy_leave_their_cpus_to_lower_priorities";
    in_child_well(NAME, || {
        if !has_two_cpus() {
            return;
        }
        for policy in POLICIES {
            for preset in PRESETS {
                let Some(runtime) = build_under(policy, preset) else { return };
                pass_messages(&runtime, 1000);
                await_sleeps(&runtime);
                end(runtime);
            }
        }
    });
}

#[test]
fn agents_obey_a_policy_that_they_are_given_while_they_spin() {
    in_child_well("real_time::agents_obey_a_policy_that_they_are_given_while_they_spin", || {
        if !has_two_cpus() || RealTime::enter(libc::SCHED_FIFO).is_none() {
            return;
        }
        let runtime = build(Preset::Latency);
        let name = |id: &u32| kernel_thread::name_of(*id);
        let is_worker = |id: &u32| matches!(name(id).as_deref(), Some("daiko-0" | "daiko-1"));
        let workers: Vec<_> = kernel_thread::all().unwrap().into_iter().filter(is_worker).collect();
        assert_eq!(workers.len(), 2);
        for round in 0..5 {
            let policy = POLICIES[round % POLICIES.len()];
            workers.iter().for_each(|&worker| RealTime::give(worker, policy));
            await_sleeps(&runtime);
            workers.iter().for_each(|&worker| RealTime::take(worker));
        }
        end(runtime);
    });
}

/// The thread that builds the runtime, and waits for it, has the same priority as its workers.
#[test]
fn a_runtime_starts_and_ends_on_a_thread_of_the_same_priority() {
    in_child_well("real_time::a_runtime_starts_and_ends_on_a_thread_of_the_same_priority", || {
        if !has_two_cpus() {
            return;
        }
        for policy in POLICIES {
            for preset in PRESETS {
                let Some(_real_time) = RealTime::enter(policy) else { return };
                let runtime = build(preset);
                pass_messages(&runtime, 100);
                end(runtime);
            }
        }
    });
}
