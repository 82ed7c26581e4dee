//! Three agents that ask for the one permit.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Plain;
use loom::thread;

use super::*;

/// The state of the agents: the governor, the number of those that spin, and data of the one.
struct Shared(Governor, Plain, UnsafeCell<u32>);

// SAFETY: the model checks that the permit gives the cell to one agent at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

#[test]
fn one_agent_spins_at_a_time() {
    loom::model(|| {
        let governor = Governor::new(3, 2, Preset::Latency);
        let shared = Arc::new(Shared(governor, Plain::new(0), UnsafeCell::new(0)));
        shared.0.set_max_agents(1);
        let agent = |shared: Arc<Shared>| {
            let mut permit = None;
            if shared.0.decide(&mut permit, &Idle::alone(0, false)) == Decision::Spin {
                assert_eq!(shared.1.fetch_add(1, Ordering::Relaxed), 0, "two spin");
                // SAFETY: no other agent spins; the model checks that.
                shared.2.with_mut(|spins| unsafe { *spins += 1 });
                shared.1.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let handles: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || agent(shared))
            })
            .collect();
        agent(shared.clone());
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!(shared.0.spinners.load(Ordering::Relaxed), 0);
    });
}
