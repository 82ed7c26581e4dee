//! Selects of permits, and of the ends of wait groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;

use crate::support::waits::{
    LONG, SHORT, everywhere_numbered, let_others_run, on_borrowed_thread_locals, on_one_worker,
    waiting,
};
use crate::support::{end, migratable, panic_of, workers};
use daiko::sync::{Event, Semaphore, WaitGroup, channel};
use daiko::{Builder, JoinError, select};

#[test]
fn a_select_gets_permits_and_their_guard_gives_them_back() {
    everywhere_numbered(1, |_| {
        let (doors, event) = (Semaphore::new(3), Event::manual());
        let count = select! {
            acquire_many(doors, 2) -> permit => {
                assert_eq!(doors.available_permits(), 1);
                permit.count()
            }
            wait(event) => 0,
        };
        assert_eq!((count, doors.available_permits()), (2, 3));
        let permit = select! { acquire(doors) -> permit => permit };
        assert_eq!(doors.available_permits(), 2);
        let waits = select! {
            acquire_many(doors, 3) -> _ => false,
            default(SHORT) => true,
        };
        assert!(waits && doors.try_acquire(2).is_some(), "the select is in line no more");
        drop(permit);
        let waits = select! {
            acquire_many(doors, 4) -> _ => false,
            default => true,
        };
        assert!(waits);
    });
}

#[test]
fn permits_wake_a_select_of_a_fiber_and_of_a_thread() {
    everywhere_numbered(1, |number| {
        let doors = Arc::new(Semaphore::new(0));
        let theirs = doors.clone();
        let gives = move || {
            (0..number % 3).for_each(|_| let_others_run());
            theirs.add_permits(1);
            theirs.add_permits(1);
        };
        let gives = thread::spawn(gives);
        let event = Event::manual();
        let permit = select! {
            wait(event) => panic!("it is not set"),
            acquire_many(doors, 2) -> permit => permit,
            default(LONG) => panic!("an hour"),
        };
        permit.forget();
        gives.join().unwrap();
        assert_eq!(doors.available_permits(), 0);
    });
}

/// The caller occupies the only worker, so that the select does not run between the two calls.
#[test]
fn what_comes_too_late_for_a_select_is_passed_on_at_once() {
    on_one_worker(|| {
        for is_in_line in [false, true] {
            let shared = Arc::new((Event::manual(), Event::auto(), Semaphore::new(0)));
            let theirs = shared.clone();
            let selects = waiting(move || {
                select! {
                    wait(theirs.0) => {}
                    wait(theirs.1) => panic!("set later"),
                    acquire(theirs.2) -> _ => panic!("given later"),
                }
            });
            let next = is_in_line.then(|| {
                [0, 1].map(|which| {
                    let theirs = shared.clone();
                    waiting(move || match which {
                        0 => theirs.1.wait(),
                        _ => theirs.2.acquire().forget(),
                    })
                })
            });
            let (ends, event, doors) = &*shared;
            ends.set();
            event.set();
            doors.add_permits(1);
            assert_eq!(
                (event.is_set(), doors.available_permits()),
                if is_in_line { (false, 0) } else { (true, 1) }
            );
            assert!(!selects.is_finished());
            selects.join().unwrap();
            next.into_iter().flatten().for_each(|next| next.join().unwrap());
            let left = u32::from(!is_in_line);
            assert_eq!((event.is_set(), doors.available_permits()), (!is_in_line, left));
        }
    });
}

#[test]
fn a_waiter_for_less_is_served_when_a_select_for_more_leaves() {
    on_one_worker(|| {
        let shared = Arc::new((Semaphore::new(1), Event::manual()));
        let theirs = shared.clone();
        let selects = waiting(move || {
            select! {
                acquire_many(theirs.0, 2) -> _ => panic!("there is one"),
                wait(theirs.1) => {}
            }
        });
        let theirs = shared.clone();
        let next = waiting(move || theirs.0.acquire().forget());
        assert_eq!(shared.0.available_permits(), 1);
        shared.1.set();
        selects.join().unwrap();
        next.join().unwrap();
        assert_eq!(shared.0.available_permits(), 0);
    });
}

#[test]
fn a_cancelled_select_takes_no_permit_along() {
    let runtime = workers(2);
    for round in 0..2000 {
        let doors = Arc::new([Semaphore::new(0), Semaphore::new(0)]);
        let theirs = doors.clone();
        let selects = move || {
            select! {
                acquire(theirs[0]) -> permit => { permit.forget(); 0 }
                acquire(theirs[1]) -> permit => { permit.forget(); 1 }
            }
        };
        let builder = if round % 2 == 0 { Builder::new() } else { migratable() };
        let selects = runtime.spawn_with(builder, selects).unwrap();
        let theirs = doors.clone();
        let gives = runtime.spawn(move || theirs.iter().for_each(|doors| doors.add_permits(1)));
        selects.cancel();
        gives.join().unwrap();
        let taken = match selects.join() {
            Ok(taken) => Some(taken),
            Err(error) => {
                assert!(matches!(error, JoinError::Cancelled));
                None
            }
        };
        for (which, doors) in doors.iter().enumerate() {
            assert_eq!(doors.available_permits(), u32::from(taken != Some(which)));
        }
    }
    end(runtime);
}

/// Two semaphores with 2 and 3 permits, and an automatic event that is set once.
struct Gates {
    doors: [Semaphore; 2],
    event: Event,
    inside: [AtomicU32; 2],
    entered: AtomicUsize,
}

impl Gates {
    const PERMITS: [u32; 2] = [2, 3];

    fn new() -> Arc<Self> {
        let doors = Self::PERMITS.map(Semaphore::new);
        let (event, inside) = (Event::auto(), [const { AtomicU32::new(0) }; 2]);
        event.set();
        Arc::new(Gates { doors, event, inside, entered: AtomicUsize::new(0) })
    }

    fn count(&self, which: usize, count: u32, number: usize) {
        let before = self.inside[which].fetch_add(count, Ordering::Relaxed);
        assert!(before + count <= Self::PERMITS[which]);
        if number.is_multiple_of(4) {
            let_others_run();
        }
        self.inside[which].fetch_sub(count, Ordering::Relaxed);
    }

    /// Passes one gate, perhaps after some timeouts.
    fn pass(&self, number: usize) {
        let [one, other] = &self.doors;
        let patience = if number.is_multiple_of(3) { SHORT } else { LONG };
        let wanted = 1 + number as u32 % 3;
        loop {
            select! {
                acquire(one) -> permit => self.count(0, permit.count(), number),
                acquire_many(other, wanted) -> permit => self.count(1, permit.count(), number),
                wait(self.event) => self.event.set(),
                default(patience) => {
                    let_others_run();
                    continue;
                }
            }
            self.entered.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }

    fn assert_whole(&self) {
        assert_eq!(self.doors.each_ref().map(Semaphore::available_permits), Self::PERMITS);
        assert!(self.event.is_set());
    }
}

#[test]
fn permits_are_conserved_among_selects_that_win_and_lose() {
    const EACH: usize = 300;
    let gates = Gates::new();
    let theirs = gates.clone();
    everywhere_numbered(3, move |number| {
        for round in 0..EACH {
            if round % 8 == 0 {
                // A waiter that is no select stands in the same line.
                drop(theirs.doors[round % 2].acquire());
            }
            theirs.pass(number + round);
        }
    });
    assert_eq!(gates.entered.load(Ordering::Relaxed), 4 * 9 * EACH);
    gates.assert_whole();
    on_borrowed_thread_locals(|| {
        let gates = Gates::new();
        let fibers = [0, 1, 2, 3, 4, 5, 6].map(|number| {
            let gates = gates.clone();
            daiko::spawn(move || (0..EACH).for_each(|round| gates.pass(number + round)))
        });
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        gates.assert_whole();
    });
}

#[test]
fn a_member_selects_the_end_of_its_group_again_and_again() {
    everywhere_numbered(1, |number| {
        let (sender, receiver) = channel::unbounded();
        let (mut group, noted) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
        for helper in 0..3 {
            let (member, sender, noted) = (group.clone(), sender.clone(), noted.clone());
            let helps = move || {
                (0..(number + helper) % 4).for_each(|_| let_others_run());
                sender.send(helper).unwrap();
                noted.fetch_add(1, Ordering::Relaxed);
                drop(member);
            };
            match daiko::try_current() {
                Some(_) => drop(daiko::spawn(helps)),
                None => drop(thread::spawn(helps)),
            }
        }
        let mut received = 0;
        let mut ended = false;
        while !ended || received < 3 {
            select! {
                recv(receiver) -> helper => { helper.unwrap(); received += 1; }
                wait(group) => {
                    assert_eq!(noted.load(Ordering::Relaxed), 3);
                    ended = true;
                }
            }
            assert!(format!("{group:?}").starts_with("WaitGroup { members: "));
        }
        // A new group.
        let member = group.clone();
        let waits = select! {
            wait(group) => false,
            default(SHORT) => true,
        };
        assert!(waits);
        assert_eq!(format!("{group:?}"), "WaitGroup { members: 2 }");
        drop(member);
        group.wait();
    });
}

#[test]
fn members_that_select_and_members_that_wait_end_together() {
    let runtime = workers(2);
    for round in 0..500 {
        let group = WaitGroup::new();
        let builders = [Builder::new(), migratable(), Builder::new().on(1)];
        let fibers = builders.map(|builder| {
            let mut member = group.clone();
            let waits = move || {
                let event = Event::manual();
                select! {
                    wait(member) => {}
                    wait(event) => panic!("it is not set"),
                }
            };
            runtime.spawn_with(builder, waits).unwrap()
        });
        let mut member = group.clone();
        let selects = thread::spawn(move || {
            let patience = if round % 2 == 0 { LONG } else { SHORT };
            while select! { wait(member) => false, default(patience) => true } {}
        });
        let waits = runtime.spawn(move || group.wait());
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        selects.join().unwrap();
        waits.join().unwrap();
    }
    end(runtime);
}

#[test]
fn a_member_is_back_after_a_select_that_was_cancelled_or_refused() {
    on_one_worker(|| {
        let (group, event) = (WaitGroup::new(), Arc::new(Event::manual()));
        let (mut member, theirs) = (group.clone(), event.clone());
        let selects = waiting(move || {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                select! {
                    wait(member) => {}
                    wait(theirs) => {}
                }
            }));
            assert_eq!(format!("{member:?}"), "WaitGroup { members: 2 }");
            result.unwrap_or_else(|cancel| std::panic::resume_unwind(cancel));
        });
        assert_eq!(format!("{group:?}"), "WaitGroup { members: 1 }", "it has left");
        selects.cancel();
        assert!(matches!(selects.join(), Err(JoinError::Cancelled)));
        assert_eq!(format!("{group:?}"), "WaitGroup { members: 1 }");
        let (mut one, _other) = (group.clone(), group);
        let message = panic_of(|| daiko::no_suspend(|| select! { wait(one) => {} }));
        assert!(message.contains("no_suspend"), "{message}");
        assert_eq!(format!("{one:?}"), "WaitGroup { members: 2 }");
    });
}
