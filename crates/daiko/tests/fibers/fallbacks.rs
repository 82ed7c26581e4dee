//! The tests of the runtime on a kernel with neither light guards nor `membarrier`.

use crate::support::scenarios;
use daiko::Runtime;
use daiko_sys::memory::GuardKind;

#[test]
fn features_of_the_kernel() {
    scenarios::all(Runtime::builder);
}

#[test]
fn guards_by_mprotect() {
    scenarios::all(|| Runtime::builder().fallbacks(Some(GuardKind::Protect), true));
}

#[test]
fn no_membarrier() {
    scenarios::all(|| Runtime::builder().fallbacks(None, false));
}

#[test]
fn neither() {
    scenarios::all(|| Runtime::builder().fallbacks(Some(GuardKind::Protect), false));
}

#[test]
fn workers_that_share_one_cpu() {
    let cpu = daiko_sys::cpu::allowed().unwrap().iter().next().unwrap();
    scenarios::all(move || Runtime::builder().cpus([cpu]));
    scenarios::all(move || Runtime::builder().cpus([cpu]).fallbacks(None, false));
}

#[test]
fn any_agent_samples_for_all() {
    scenarios::all(|| Runtime::builder().any_agent(true).max_agents(1).bind(false));
}
