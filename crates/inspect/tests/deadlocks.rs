//! Cycles of waits: among fibers, between a fiber and a thread, between two processes.

#[path = "../../../tests/child.rs"]
mod child;

use std::sync::{Arc, Barrier};
use std::{env, process, thread};

use child::{ReadyChild, command, is_child, ready};
use daiko::sync::Mutex;
use daiko_inspect::{Deadlocks, Party, Subject, Waiting};

/// Searches until the parties have come to their waits, and with them `waiting` fibers at least.
fn search(subjects: &[&ReadyChild], waiting: usize) -> Deadlocks {
    let subjects: Vec<_> =
        subjects.iter().map(|running| Subject::process(running.id()).unwrap()).collect();
    loop {
        let found = Deadlocks::among(&subjects).unwrap();
        assert!(found.untracked.is_empty(), "{found:?}");
        if !found.cycles.is_empty() && found.waiting >= waiting {
            return found;
        }
        thread::yield_now();
    }
}

/// Returns the one cycle, from the party with the least name on.
fn only_cycle(mut found: Deadlocks) -> Vec<Waiting> {
    assert_eq!(found.cycles.len(), 1, "{found:?}");
    let mut cycle = found.cycles.remove(0);
    let least = (0..cycle.len()).min_by_key(|&at| name(&cycle[at])).unwrap();
    cycle.rotate_left(least);
    cycle
}

fn name(waiting: &Waiting) -> String {
    let fiber = waiting.fiber.as_ref();
    fiber.and_then(|row| row.name.as_ref()).map_or(String::new(), |name| name.to_string())
}

fn runtime() -> daiko::Runtime {
    daiko::Runtime::builder().workers(2).track_locks(true).build().unwrap()
}

/// A fiber that locks one mutex, and once all parties have one, the next.
fn take_both(
    runtime: &daiko::Runtime,
    name: &str,
    [one, other]: [&Arc<Mutex<()>>; 2],
    all: &Arc<daiko::sync::Barrier>,
) -> daiko::JoinHandle<()> {
    let (one, other, all) = (Arc::clone(one), Arc::clone(other), Arc::clone(all));
    let body = move || {
        let _held = one.lock();
        all.wait();
        drop(other.lock());
    };
    runtime.spawn_with(daiko::Builder::new().name(name), body).unwrap()
}

#[test]
fn three_fibers_in_a_ring_are_named() {
    let running = ReadyChild::of("three_fibers_in_a_ring_are_named", ring_of_three);
    let found = search(&[&running], 5);
    assert_eq!(found.waiting, 5, "three in the ring, one behind it, the main fiber: {found:?}");
    let cycle = only_cycle(found);
    assert_eq!(cycle.iter().map(name).collect::<Vec<_>>(), ["a", "b", "c"]);
    for waiting in &cycle {
        assert_eq!(&*waiting.wait.kind, "Mutex");
        let at = waiting.held_at.as_ref().unwrap();
        assert!(at.file.ends_with("tests/deadlocks.rs"), "{at}");
    }
}

fn ring_of_three() {
    let runtime = runtime();
    let locks: [_; 3] = std::array::from_fn(|_| Arc::new(Mutex::new(())));
    let all = Arc::new(daiko::sync::Barrier::new(3));
    let [a, b, c] = &locks;
    let _fibers = [("a", [a, b]), ("b", [b, c]), ("c", [c, a])]
        .map(|(name, both)| take_both(&runtime, name, both, &all));
    let behind = Arc::clone(a);
    let _behind = runtime.spawn(move || drop(behind.lock()));
    runtime.run(|| daiko::blocking(ready));
    process::exit(0);
}

#[test]
fn a_fiber_and_a_thread_over_two_locks_are_named() {
    let running = ReadyChild::of("a_fiber_and_a_thread_over_two_locks_are_named", fiber_and_thread);
    let cycle = only_cycle(search(&[&running], 0));
    assert_eq!(cycle.iter().map(name).collect::<Vec<_>>(), ["", "fiber"]);
    let Party::Thread(id) = cycle[0].party else { panic!("{cycle:?}") };
    let task = format!("/proc/{}/task/{id}/comm", running.id());
    assert_eq!(std::fs::read_to_string(task).unwrap(), "thread\n");
    assert!(cycle.iter().all(|waiting| waiting.held_at.is_some()), "{cycle:?}");
}

fn fiber_and_thread() {
    let runtime = runtime();
    let [one, other]: [_; 2] = std::array::from_fn(|_| Arc::new(Mutex::new(())));
    let (own, wanted, all) = (Arc::clone(&other), Arc::clone(&one), Arc::new(Barrier::new(2)));
    let all_of_thread = Arc::clone(&all);
    let body = move || {
        let _held = own.lock();
        all_of_thread.wait();
        drop(wanted.lock());
    };
    let _thread = thread::Builder::new().name("thread".into()).spawn(body).unwrap();
    let body = move || {
        let _held = one.lock();
        daiko::blocking(|| all.wait());
        drop(other.lock());
    };
    let _fiber = runtime.spawn_with(daiko::Builder::new().name("fiber"), body).unwrap();
    runtime.run(|| daiko::blocking(ready));
    process::exit(0);
}

/// Two processes, each of which holds one mutex of a segment and waits for the other.
#[test]
fn two_processes_over_a_segment_are_named() {
    let test = "two_processes_over_a_segment_are_named";
    if is_child() {
        return one_of_two_processes();
    }
    let name = format!("daiko-deadlocks-{}", process::id());
    let segment = daiko::shm::Segment::create(&name, 1 << 20).unwrap();
    let turn = daiko::shm::Semaphore::create(&segment, "turn", 2).unwrap();
    let turns = [turn.acquire(), turn.acquire()];
    for lock in ["one", "other"] {
        drop(daiko::shm::Mutex::create(&segment, lock, 0_u64).unwrap());
    }
    let start = |role: &str| {
        let mut command = command(test);
        command.env("SEGMENT", &name).env("ROLE", role);
        ReadyChild::start(command)
    };
    let running = [start("one"), start("other")];
    // Both hold theirs.
    drop(turns);
    let cycle = only_cycle(search(&[&running[0], &running[1]], 0));
    assert_eq!(cycle.iter().map(self::name).collect::<Vec<_>>(), ["one", "other"]);
    assert_ne!(cycle[0].subject, cycle[1].subject);
    for waiting in &cycle {
        assert_eq!(&*waiting.wait.kind, "shared");
        assert!(waiting.file.is_some() && waiting.held_at.is_some(), "{waiting:?}");
    }
    segment.remove().unwrap();
}

fn one_of_two_processes() {
    let (name, role) = (env::var("SEGMENT").unwrap(), env::var("ROLE").unwrap());
    let other = if role == "one" { "other" } else { "one" };
    let segment = daiko::shm::Segment::open(&name).unwrap();
    let runtime = runtime();
    let held = daiko::shm::Mutex::<u64>::open(&segment, &role).unwrap();
    let wanted = daiko::shm::Mutex::<u64>::open(&segment, other).unwrap();
    let turn = daiko::shm::Semaphore::open(&segment, "turn").unwrap();
    let (tell, told) = daiko::sync::channel::bounded::<()>(1);
    let body = move || {
        let _held = held.lock().unwrap();
        tell.send(()).unwrap();
        let _turn = turn.acquire();
        drop(wanted.lock());
    };
    let _fiber = runtime.spawn_with(daiko::Builder::new().name(role), body).unwrap();
    runtime.run(move || {
        told.recv().unwrap();
        daiko::blocking(ready);
    });
    process::exit(0);
}

/// A wait that only looks like a cycle: the holder is not waiting.
#[test]
fn a_crowd_behind_a_running_holder_is_no_cycle() {
    let running = ReadyChild::of("a_crowd_behind_a_running_holder_is_no_cycle", crowd);
    let subjects = [Subject::process(running.id()).unwrap()];
    let found = Deadlocks::among(&subjects).unwrap();
    assert!(found.cycles.is_empty(), "{found:?}");
}

fn crowd() {
    let runtime = runtime();
    runtime.run(|| {
        let lock = Arc::new(Mutex::new(()));
        let _held = lock.lock();
        let _crowd: [_; 4] = std::array::from_fn(|_| {
            let lock = Arc::clone(&lock);
            daiko::spawn(move || drop(lock.lock()))
        });
        daiko::blocking(ready);
    });
    process::exit(0);
}
