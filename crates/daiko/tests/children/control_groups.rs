//! A process in a control group that grants less than a CPU, or few threads.

use std::time::Duration;

use super::exhaustion::{self, ThreadLimit};
use super::scarce::while_fibers_run;
use crate::support::child::in_child_well;
use crate::support::{PRESETS, end, scenarios, skip, until};
use daiko::{Preset, Runtime};
use daiko_sys::cgroup::{GroupLimit, MadeGroup};
use daiko_sys::cpu;

/// Half a CPU. A short period, so that tests wait less for the next one.
const HALF_A_CPU: GroupLimit =
    GroupLimit::Cpu { time: Duration::from_millis(10), period: Duration::from_millis(20) };

/// Makes a group with `limit`; `None`, after a message, if this process may not.
pub(super) fn made(limit: GroupLimit) -> Option<MadeGroup> {
    MadeGroup::new(limit).inspect_err(|error| skip(&error.to_string())).ok()
}

/// A quota below one CPU is rounded up to one active worker, whatever number is asked for. It holds
/// for groups inside that group as well. The preset is `Power`, unless another one is set.
#[test]
fn half_a_cpu_is_one_active_worker() {
    in_child_well("control_groups::half_a_cpu_is_one_active_worker", || {
        let Some(group) = made(HALF_A_CPU) else { return };
        let nested = group.nested().unwrap();
        for inside in [&group, &nested] {
            inside.enter().unwrap();
            assert!(cpu::quota().unwrap() <= 0.5);
            let runtime = Runtime::builder().build().unwrap();
            assert_eq!((runtime.workers(), runtime.active_workers()), (1, 1));
            assert_eq!(runtime.preset(), Preset::Power);
            end(runtime);
            for preset in PRESETS {
                let runtime = Runtime::builder().workers(4).preset(preset).build().unwrap();
                assert_eq!((runtime.workers(), runtime.active_workers()), (4, 1));
                assert_eq!(runtime.preset(), preset);
                end(runtime);
            }
            inside.leave().unwrap();
        }
    });
}

#[test]
fn a_runtime_with_half_a_cpu_starts_works_and_stops() {
    in_child_well("control_groups::a_runtime_with_half_a_cpu_starts_works_and_stops", || {
        let Some(group) = made(HALF_A_CPU) else { return };
        group.enter().unwrap();
        scenarios::all(Runtime::builder);
        group.leave().unwrap();
    });
}

#[test]
fn active_workers_follow_the_quota_while_fibers_run() {
    in_child_well("control_groups::active_workers_follow_the_quota_while_fibers_run", || {
        if cpu::default_workers() < 2 {
            return skip("one CPU is allowed");
        }
        let Some(group) = made(HALF_A_CPU) else { return };
        while_fibers_run(|runtime| {
            group.enter().unwrap();
            until("one is active", || runtime.active_workers() == 1);
            group.leave().unwrap();
            until("both are active again", || runtime.active_workers() == 2);
        });
    });
}

#[test]
fn too_few_threads_of_a_group_are_an_error_of_the_build() {
    in_child_well("control_groups::too_few_threads_of_a_group_are_an_error_of_the_build", || {
        exhaustion::build_with_too_few_threads(ThreadLimit::Group);
    });
}

#[test]
fn a_blocking_call_without_a_thread_of_the_group_is_made_by_its_fiber() {
    const NAME: &str =
        "control_groups::a_blocking_call_without_a_thread_of_the_group_is_made_by_its_fiber";
    in_child_well(NAME, || exhaustion::call_without_threads(ThreadLimit::Group));
}

#[test]
fn a_blocking_call_waits_for_the_only_thread_of_the_group() {
    in_child_well("control_groups::a_blocking_call_waits_for_the_only_thread_of_the_group", || {
        exhaustion::wait_for_the_only_thread(ThreadLimit::Group);
    });
}

#[test]
fn no_thread_of_the_group_for_a_spare_is_only_slow() {
    in_child_well("control_groups::no_thread_of_the_group_for_a_spare_is_only_slow", || {
        exhaustion::go_on_without_a_spare(ThreadLimit::Group);
    });
}
