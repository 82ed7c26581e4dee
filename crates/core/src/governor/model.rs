//! Three agents that ask for the one permit.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Plain;
use loom::thread;

use super::*;

#[test]
fn one_agent_spins_at_a_time() {
    loom::model(|| {
        let shared = Arc::new((Governor::new(3, 2, Preset::Latency), Plain::new(0)));
        shared.0.set_max_agents(1);
        let agent = |shared: Arc<(Governor, Plain)>| {
            let mut permit = None;
            if shared.0.decide(&mut permit, &Idle::alone(0, false)) == Decision::Spin {
                assert_eq!(shared.1.fetch_add(1, Ordering::Relaxed), 0, "two spin");
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
