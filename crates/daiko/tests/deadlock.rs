//! Deadlocks: which waits are reported and which are not, and locks that their holder locks again.

mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, mpsc};
use std::thread;
use std::time::Duration;

use daiko::sync::{Condvar, Mutex, Once, OnceLock, RwLock, RwLockWriteGuard, Semaphore};
use daiko::{
    Builder, Deadlock, JoinError, JoinHandle, Preset, Runtime, RuntimeBuilder, WaitingFiber,
};
use support::child::emulated::LinuxPart;
use support::child::in_child_well;
#[cfg(debug_assertions)]
use support::child::{command, is_child};
use support::{PRESETS, end, migratable, panic_of, skip, until, yield_until};

/// Returns a runtime, and the channel through which its reports come.
fn reporting(builder: RuntimeBuilder) -> (Runtime, mpsc::Receiver<Deadlock>) {
    let (send, receive) = mpsc::channel();
    let hook = move |deadlock: &Deadlock| _ = send.send(deadlock.clone());
    (builder.on_deadlock(hook).build().unwrap(), receive)
}

/// Lists the fibers of a cycle: the fiber's name, the kind of object that it waits for, and the
/// holder's name.
fn cycle(deadlock: &Deadlock) -> Vec<(&str, &str, &str)> {
    let [cycle] = &deadlock.cycles[..] else { panic!("not one cycle: {deadlock}") };
    let fibers = deadlock.fibers[cycle.clone()].iter();
    let mut entries: Vec<_> = fibers
        .map(|fiber| {
            let holder = fiber.waits_for.held_by.as_ref().unwrap();
            let names = [&fiber.name, &holder.name].map(|name| name.as_deref().unwrap());
            (names[0], fiber.waits_for.kind, names[1])
        })
        .collect();
    entries.sort();
    entries
}

/// Waits until the other fiber has come as far.
fn meet(met: &AtomicUsize) {
    met.fetch_add(1, Ordering::AcqRel);
    yield_until("the other fiber", || met.load(Ordering::Acquire) == 2);
}

type Locks = Arc<[Mutex<usize>; 2]>;

/// Two fibers, "there" and "back", that lock two mutexes in opposite order once `go` is called.
struct Crossing {
    fibers: [JoinHandle<()>; 2],
    go: Arc<AtomicUsize>,
}

impl Crossing {
    fn on(runtime: &Runtime, builder: impl Fn() -> Builder) -> Self {
        let (locks, go): (Locks, _) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
        let fibers = [("there", 0), ("back", 1)].map(|(name, first)| {
            let (locks, met) = (locks.clone(), go.clone());
            let body = move || {
                daiko::park();
                let held = locks[first].lock().unwrap();
                meet(&met);
                *locks[1 - first].lock().unwrap() += *held;
            };
            runtime.spawn_with(builder().name(name), body).unwrap()
        });
        Crossing { fibers, go }
    }

    fn go(&self) {
        self.go.store(0, Ordering::Release);
        self.fibers.iter().for_each(|fiber| fiber.fiber().unpark());
    }

    /// Cancels one fiber, so that the other gets both locks.
    fn end(self) {
        let [there, back] = self.fibers;
        there.cancel();
        assert!(matches!(there.join(), Err(JoinError::Cancelled)));
        back.join().unwrap();
    }
}

#[test]
fn two_fibers_that_lock_in_opposite_order_are_named_with_both_locks() {
    for preset in PRESETS {
        for may_migrate in [false, true] {
            let builder = Runtime::builder().workers(2).preset(preset);
            let (runtime, reports) = reporting(builder);
            let crossing =
                Crossing::on(&runtime, || if may_migrate { migratable() } else { Builder::new() });
            crossing.go();
            let deadlock = reports.recv().unwrap();
            let expected = [("back", "Mutex", "there"), ("there", "Mutex", "back")];
            assert_eq!(cycle(&deadlock), expected);
            let [one, two] = &deadlock.fibers[..] else { panic!("{deadlock}") };
            assert_ne!(one.waits_for.address, two.waits_for.address);
            for (fiber, other) in [(one, two), (two, one)] {
                let holder = fiber.waits_for.held_by.as_ref().unwrap();
                assert_eq!(holder.fiber, Some(other.id));
                assert!(holder.locked_at.unwrap().file().ends_with("deadlock.rs"));
                assert!(fiber.spawned_at.file().ends_with("deadlock.rs"));
            }
            crossing.end();
            assert!(reports.try_recv().is_err(), "told once");
            end(runtime);
        }
    }
}

/// The objects that the holder holds while it waits for the other fiber.
struct Things {
    lock: RwLock<()>,
    once: Once,
    value: OnceLock<()>,
    mutex: Mutex<()>,
    met: AtomicUsize,
}

impl Things {
    fn new() -> Self {
        let (lock, mutex, met) = (RwLock::new(()), Mutex::new(()), AtomicUsize::new(0));
        Things { lock, once: Once::new(), value: OnceLock::new(), mutex, met }
    }
}

/// A kind of object, how it is held while a closure runs, and how another fiber waits for it.
type Way = (&'static str, fn(&Things, &dyn Fn()), fn(&Things));

fn under<G>(guard: G, run: &dyn Fn()) {
    run();
    drop(guard);
}

/// Readers and writers alike wait for a writer, by whichever method it has locked.
const WAYS: [Way; 5] = [
    ("RwLock", |has, run| under(has.lock.write(), run), |wants| drop(wants.lock.read())),
    ("RwLock", |has, run| under(has.lock.try_write(), run), |wants| drop(wants.lock.write())),
    (
        "RwLock",
        |has, run| under(has.lock.write_timeout(Duration::ZERO), run),
        |wants| drop(wants.lock.read()),
    ),
    ("Once", |has, run| has.once.call_once(run), |wants| wants.once.call_once(|| ())),
    ("Once", |has, run| *has.value.get_or_init(run), |wants| *wants.value.wait()),
];

#[test]
fn the_holder_of_an_exclusive_object_is_named() {
    for (kind, having, wait) in WAYS {
        let (runtime, reports) = reporting(Runtime::builder().workers(2));
        let things = Arc::new(Things::new());
        let theirs = things.clone();
        let holder = move || {
            having(&theirs, &|| {
                meet(&theirs.met);
                drop(theirs.mutex.lock());
            });
        };
        let other = move || {
            let _held = things.mutex.lock().unwrap();
            meet(&things.met);
            wait(&things);
        };
        let holder = runtime.spawn_with(Builder::new().name("holder"), holder).unwrap();
        let other = runtime.spawn_with(Builder::new().name("other"), other).unwrap();
        let deadlock = reports.recv().unwrap();
        assert_eq!(cycle(&deadlock), [("holder", "Mutex", "other"), ("other", kind, "holder")]);
        let place = |fiber: &WaitingFiber| fiber.waits_for.held_by.as_ref()?.locked_at;
        assert!(deadlock.fibers.iter().all(|at| place(at).unwrap().file() == file!()));
        other.cancel();
        assert!(matches!(other.join(), Err(JoinError::Cancelled)));
        holder.join().unwrap();
        end(runtime);
    }
}

#[test]
fn fibers_that_join_each_other_are_a_cycle() {
    let (runtime, reports) = reporting(Runtime::builder().workers(2));
    type Slot = Arc<StdMutex<Option<JoinHandle<()>>>>;
    let slots: [Slot; 3] = Default::default();
    let fibers = ["a", "b", "c"].map(|name| {
        let slot = slots[name.as_bytes()[0] as usize - usize::from(b'a')].clone();
        let body = move || {
            daiko::park();
            let next = slot.lock().unwrap().take().unwrap();
            let _ = next.join();
        };
        runtime.spawn_with(Builder::new().name(name), body).unwrap()
    });
    let starts = fibers.each_ref().map(|fiber| fiber.fiber().clone());
    for (at, fiber) in fibers.into_iter().enumerate() {
        *slots[(at + 2) % 3].lock().unwrap() = Some(fiber);
    }
    starts.into_iter().for_each(|fiber| fiber.unpark());
    let deadlock = reports.recv().unwrap();
    assert_eq!(cycle(&deadlock), [("a", "join", "b"), ("b", "join", "c"), ("c", "join", "a")]);
    assert_eq!(runtime.shutdown().leaked, 0);
}

/// The notified fiber waits for the mutex, no longer for the condition.
#[test]
fn a_notifier_that_joins_its_waiter_is_in_a_cycle() {
    let (runtime, reports) = reporting(Runtime::builder().workers(1));
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    let waits = pair.clone();
    let body = move || drop(waits.1.wait(waits.0.lock().unwrap()));
    let waiter = runtime.spawn_with(Builder::new().on(0).name("waiter"), body).unwrap();
    let notifier = move || {
        daiko::yield_now();
        let _held = pair.0.lock().unwrap();
        pair.1.notify_one();
        waiter.join().unwrap();
    };
    let notifier = runtime.spawn_with(Builder::new().on(0).name("notifier"), notifier).unwrap();
    let deadlock = reports.recv().unwrap();
    let expected = [("notifier", "join", "waiter"), ("waiter", "Mutex", "notifier")];
    assert_eq!(cycle(&deadlock), expected);
    notifier.cancel();
    assert!(matches!(notifier.join(), Err(JoinError::Cancelled)));
    assert_eq!(runtime.shutdown().leaked, 0);
}

/// Waits until the monitor of any runtime that only polls has looked: until that of another runtime
/// has reported.
fn until_monitors_have_looked() {
    let (runtime, reports) = reporting(Runtime::builder().workers(1).preset(Preset::Power));
    let crossing = Crossing::on(&runtime, Builder::new);
    crossing.go();
    reports.recv().unwrap();
    crossing.end();
    end(runtime);
}

/// Its worker polls all the time, so that its monitor goes on looking.
#[test]
fn each_standstill_is_told_once() {
    let (runtime, reports) = reporting(Runtime::builder().workers(1).preset(Preset::Latency));
    let crossing = Crossing::on(&runtime, Builder::new);
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let body = move || {
        loop {
            count.fetch_add(1, Ordering::Release);
            daiko::park();
        }
    };
    let other = runtime.spawn_with(Builder::new().name("other"), body).unwrap();
    until("the start", || runs.load(Ordering::Acquire) == 1);
    crossing.go();
    for round in 1..=3 {
        let deadlock = reports.recv().unwrap();
        assert_eq!(cycle(&deadlock).len(), 2);
        let [_, _, bystander] = &deadlock.fibers[..] else { panic!("{deadlock}") };
        assert_eq!((bystander.name.as_deref(), bystander.waits_for.kind), (Some("other"), "park"));
        until_monitors_have_looked();
        assert!(reports.try_recv().is_err());
        other.fiber().unpark();
        until("its turn", || runs.load(Ordering::Acquire) == round + 1);
    }
    crossing.end();
    assert_eq!(runtime.shutdown().unwound, 1);
}

/// Whether the kernel tells which threads wait.
fn threads_are_seen() -> bool {
    let seen = std::fs::read_to_string("/proc/self/syscall").is_ok();
    if !seen {
        skip("this kernel does not offer /proc/self/task/*/syscall");
    }
    seen
}

/// The child process has no threads that could end the wait, as those of other tests might.
#[test]
fn waiters_for_an_event_that_cannot_come_are_named() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    in_child_well("waiters_for_an_event_that_cannot_come_are_named", || {
        if !threads_are_seen() {
            return;
        }
        for preset in PRESETS {
            let (runtime, reports) = reporting(Runtime::builder().workers(2).preset(preset));
            type Objects = (Mutex<()>, Condvar, Semaphore);
            type Wait = fn(&Objects);
            let pair: Arc<Objects> = Arc::new((Mutex::new(()), Condvar::new(), Semaphore::new(1)));
            let waits: [(&str, Wait); 3] = [
                ("Condvar", |pair| drop(pair.1.wait(pair.0.lock().unwrap()))),
                ("Semaphore", |pair| drop(pair.2.acquire_many(2))),
                ("park", |_| daiko::park()),
            ];
            for (name, wait) in waits {
                let pair = pair.clone();
                let body = move || wait(&pair);
                drop(runtime.spawn_with(Builder::new().name(name), body).unwrap());
            }
            let deadlock = reports.recv().unwrap();
            assert!(deadlock.cycles.is_empty() && deadlock.other_threads == 0);
            let mut kinds: Vec<_> = deadlock
                .fibers
                .iter()
                .map(|fiber| (fiber.name.as_deref().unwrap(), fiber.waits_for.kind))
                .collect();
            kinds.sort();
            let same = ["Condvar", "Semaphore", "park"].map(|kind| (kind, kind));
            assert_eq!(kinds, same, "{deadlock}");
            assert_eq!(runtime.shutdown().unwound, 3);
        }
    });
}

#[test]
fn a_thread_that_holds_the_lock_of_a_waiting_fiber_is_named() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    in_child_well("a_thread_that_holds_the_lock_of_a_waiting_fiber_is_named", || {
        if !threads_are_seen() {
            return;
        }
        let (runtime, reports) = reporting(Runtime::builder().workers(1));
        let mutex = Arc::new(Mutex::new(()));
        let (theirs, held) = (mutex.clone(), mutex.lock().unwrap());
        let fiber = runtime.spawn(move || drop(theirs.lock().unwrap()));
        let deadlock = reports.recv().unwrap();
        let awaited = &deadlock.fibers[0].waits_for;
        let holder = awaited.held_by.as_ref().unwrap();
        assert_eq!((holder.fiber, awaited.kind), (None, "Mutex"));
        let mine = thread::current().name().unwrap()[..15].to_owned();
        assert_eq!(holder.name, Some(mine));
        drop(held);
        fiber.join().unwrap();
        end(runtime);
    });
}

/// The thread sleeps in between, as a thread does that waits for a device or a time.
#[test]
fn a_fiber_that_a_thread_unparks_later_is_not_reported() {
    in_child_well("a_fiber_that_a_thread_unparks_later_is_not_reported", || {
        let reports = Arc::new(AtomicUsize::new(0));
        let count = reports.clone();
        let hook = move |_: &Deadlock| _ = count.fetch_add(1, Ordering::Relaxed);
        let runtime = Runtime::builder().workers(1).on_deadlock(hook).build().unwrap();
        for _ in 0..5 {
            let fiber = runtime.spawn(daiko::park);
            let unparks = fiber.fiber().clone();
            let thread = thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                unparks.unpark();
            });
            fiber.join().unwrap();
            thread.join().unwrap();
        }
        assert_eq!(reports.load(Ordering::Relaxed), 0);
        end(runtime);
    });
}

#[cfg(debug_assertions)]
#[test]
fn without_a_hook_builds_with_debug_assertions_write_a_text() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    if is_child() {
        let runtime = Runtime::builder().workers(1).preset(Preset::Power).build().unwrap();
        Crossing::on(&runtime, Builder::new).go();
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        return drop(runtime);
    }
    let mut command = command("without_a_hook_builds_with_debug_assertions_write_a_text");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut text = text.skip_while(|line| !line.starts_with("daiko: deadlock: 2 fibers wait"));
    assert!(text.next().is_some() && text.next().unwrap().contains("in a cycle"));
    for _ in 0..2 {
        assert!(text.next().unwrap().contains("waits for Mutex"));
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// There are more parked fibers than a report has lines.
#[test]
fn fibers_that_wait_alike_share_a_line_and_hide_no_other_fiber() {
    const COUNT: usize = 100;
    let (runtime, reports) = reporting(Runtime::builder().workers(2));
    let parked: Vec<_> = (0..COUNT).map(|_| runtime.spawn(daiko::park)).collect();
    let joins = move || parked.into_iter().for_each(|fiber| fiber.join().unwrap());
    let joiner = runtime.spawn_with(Builder::new().name("joiner"), joins).unwrap();
    let crossing = Crossing::on(&runtime, Builder::new);
    crossing.go();
    let deadlock = reports.recv().unwrap();
    let others = deadlock.fibers[deadlock.cycles[0].end..].iter();
    let lines: BTreeSet<_> = others.map(|fiber| (fiber.waits_for.kind, fiber.alike)).collect();
    assert_eq!(lines, BTreeSet::from([("park", COUNT - 1), ("join", 0)]), "{deadlock}");
    assert_eq!(deadlock.unlisted, 0);
    let text = deadlock.to_string();
    assert!(text.contains("103 fibers wait") && text.contains("fiber \"joiner\""), "{text}");
    assert!(
        text.contains(" and 99 more, spawned at ") && text.contains(", wait in park"),
        "{text}"
    );
    crossing.end();
    joiner.cancel();
    assert!(matches!(joiner.join(), Err(JoinError::Cancelled)));
    assert_eq!(runtime.shutdown().leaked, 0);
}

#[test]
fn a_hook_that_panics_is_called_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let hook = move |_: &Deadlock| {
        count.fetch_add(1, Ordering::Release);
        panic!("the hook");
    };
    let runtime = Runtime::builder().workers(1).on_deadlock(hook).build().unwrap();
    for round in 1..=2 {
        let crossing = Crossing::on(&runtime, Builder::new);
        crossing.go();
        until("the hook", || calls.load(Ordering::Acquire) == round);
        crossing.end();
    }
    end(runtime);
}

/// Turns tracking on: locks are tracked once the first runtime with a hook exists.
fn track() {
    end(reporting(Runtime::builder().workers(1)).0);
}

/// Locks a mutex twice. The panic names the place of the first lock, and the mutex still works.
fn locks_twice() {
    let mutex = Mutex::new(0);
    let line = line!() + 1;
    let held = mutex.lock().unwrap();
    let text = panic_of(|| drop(mutex.lock()));
    let first = format!("{}:{line}:", file!());
    assert!(text.starts_with("daiko: a Mutex was locked again by its holder"), "{text}");
    assert!(text.contains(&first), "{text} does not name {first}");
    drop(held);
    *mutex.lock().unwrap() += 1;
    assert_eq!(mutex.into_inner().unwrap(), 1);
}

#[test]
fn locking_a_held_mutex_again_panics() {
    track();
    locks_twice();
    for builder in [Builder::new, migratable] {
        let (runtime, _reports) = reporting(Runtime::builder().workers(2));
        runtime.spawn_with(builder(), locks_twice).unwrap().join().unwrap();
        end(runtime);
    }
}

/// Locks an `RwLock` that the caller already writes. The lock still works afterwards.
fn writes_twice() {
    let lock = RwLock::new(0);
    let held = lock.write().unwrap();
    let again: [fn(&RwLock<i32>); 2] = [|lock| drop(lock.read()), |lock| drop(lock.write())];
    for again in again {
        let text = panic_of(|| again(&lock));
        assert!(text.starts_with("daiko: an RwLock was locked again by its holder"), "{text}");
        assert!(text.contains(file!()), "{text}");
    }
    assert!(lock.write_timeout(Duration::from_millis(1)).is_err());
    let reads = RwLockWriteGuard::downgrade(held);
    assert!(lock.write_timeout(Duration::from_millis(1)).is_err());
    drop((lock.read().unwrap(), reads));
    *lock.write().unwrap() += 1;
    assert_eq!(lock.into_inner().unwrap(), 1);
}

#[test]
fn locking_a_written_rwlock_again_panics() {
    track();
    writes_twice();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(writes_twice);
    end(runtime);
}

#[test]
fn a_waiter_holds_the_mutex_again_after_its_wait() {
    track();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = pair.clone();
        let setter = daiko::spawn(move || {
            // The mutex is free while the other thread waits.
            *theirs.0.lock().unwrap() = true;
            theirs.1.notify_one();
        });
        let held = pair.0.lock().unwrap();
        let held = pair.1.wait_while(held, |set| !*set).unwrap();
        assert!(panic_of(|| drop(pair.0.lock())).contains("again by its holder"));
        drop(held);
        setter.join().unwrap();
        drop(pair.0.lock().unwrap());
    });
    end(runtime);
}
