//! A bounded queue of a mutex and two condition variables.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::library::{self, Condvar, Mutex, MutexGuard};
use crate::plan::{Flow, Place};

/// The time for which impatient consumers wait.
const A_MOMENT: Duration = Duration::from_micros(20);

type Task = (Place, Box<dyn FnOnce() + Send>);

/// Runs the program. Returns all received values, sorted.
pub(crate) fn run(flow: &Flow) -> Vec<u32> {
    let shared = Arc::new(Shared::new(flow));
    let producers = flow.producers.iter().map(|(place, values)| {
        let values = values.clone();
        task(*place, &shared, move |shared| values.iter().for_each(|&value| shared.send(value)))
    });
    let total = flow.producers.iter().map(|(_, values)| values.len()).sum::<usize>();
    let count = flow.consumers.len();
    let consumers = flow.consumers.iter().enumerate().map(|(i, place)| {
        // The shares make up the total: some are greater by one.
        let share = (total + i) / count;
        task(*place, &shared, move |shared| (0..share).for_each(|_| shared.receive()))
    });
    library::together(flow.workers, producers.chain(consumers).collect());
    let queue = &mut *shared.queue.lock().unwrap();
    assert!(queue.waiting.is_empty());
    queue.received.sort();
    std::mem::take(&mut queue.received)
}

fn task(place: Place, shared: &Arc<Shared>, body: impl FnOnce(&Shared) + Send + 'static) -> Task {
    let shared = shared.clone();
    (place, Box::new(move || body(&shared)))
}

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    emptied: Condvar,
    capacity: usize,
    impatient: bool,
    locked: bool,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u32>,
    received: Vec<u32>,
}

impl Shared {
    fn new(flow: &Flow) -> Self {
        Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            capacity: flow.capacity,
            impatient: flow.impatient,
            locked: flow.locked,
        }
    }

    fn send(&self, value: u32) {
        let full = |queue: &mut Queue| queue.waiting.len() == self.capacity;
        let mut queue = self.emptied.wait_while(self.queue.lock().unwrap(), full).unwrap();
        queue.waiting.push_back(value);
        self.unlock_and_notify(queue, &self.filled);
    }

    fn receive(&self) {
        let mut queue = self.queue.lock().unwrap();
        while queue.waiting.is_empty() {
            queue = match self.impatient {
                true => self.filled.wait_timeout(queue, A_MOMENT).unwrap().0,
                false => self.filled.wait(queue).unwrap(),
            };
        }
        let value = queue.waiting.pop_front().unwrap();
        queue.received.push(value);
        self.unlock_and_notify(queue, &self.emptied);
    }

    /// Notifies one waiter, as one task takes the value of one producer.
    fn unlock_and_notify(&self, queue: MutexGuard<'_, Queue>, condvar: &Condvar) {
        if self.locked {
            condvar.notify_one();
            drop(queue);
        } else {
            drop(queue);
            condvar.notify_one();
        }
    }
}
