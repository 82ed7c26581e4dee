//! Placement: the worker on which a fiber starts, and that on which a migratable fiber continues
//! after a wait for a socket.
//!
//! If packets are not steered, those of a loopback connection are processed on the CPU of their
//! sender. So a test chooses, by the CPU of the sender, whether the packets have followed their
//! reader.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use daiko::net::{Selector, TcpListener, TcpStream};
use daiko::{Builder, JoinHandle, Placement, Preset, Runtime, Stuck};
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::selector;
use support::{end, migratable, until, workers, yield_until};

/// Returns CPUs for two workers.
fn two_cpus() -> Option<[usize; 2]> {
    let allowed: Vec<_> = cpu::allowed().unwrap().iter().take(2).collect();
    let two = allowed.try_into().ok();
    if two.is_none() {
        println!("skipped: there is one CPU, and so one worker");
    }
    two
}

/// The values that tests change while a migratable fiber runs.
#[derive(Default)]
struct Play {
    /// The behaviour of worker 0: one of the constants below.
    busy: AtomicUsize,
    /// Whether the migratable fiber goes to worker 1.
    moves: AtomicBool,
}

/// The fiber that keeps worker 0 suspends again and again, so that its agent never runs.
const YIELDS: usize = 0;
/// The fiber does not suspend.
const KEEPS: usize = 1;
/// The fiber has ended.
const NOT: usize = 2;

/// A worker.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Here {
    cpu: usize,
    /// The kernel's identifier of its thread.
    thread: u32,
}

impl Here {
    fn now() -> Self {
        Here { cpu: cpu::current(), thread: daiko_sys::thread::id() }
    }

    fn sleeps(self) -> bool {
        daiko_sys::thread::blocked_syscall(self.thread).is_some()
    }
}

/// A connection with a reader that is a migratable fiber, on worker 1, registered with worker 0.
struct Setting {
    runtime: Runtime,
    play: Arc<Play>,
    sender: StdStream,
    /// The workers on which the migratable fiber has read.
    read_on: mpsc::Receiver<Here>,
    /// The workers.
    all: [Here; 2],
}

impl Setting {
    fn new(placement: Placement, steered: bool, selector: Selector, cpus: [usize; 2]) -> Self {
        let builder = Runtime::builder().workers(2).cpus(cpus).bind(true).preset(Preset::Power);
        let builder = builder.selector(selector).placement(placement).steered(steered);
        // Beside busy processes, worker 1 would stand by.
        let runtime = builder.all_active().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = StdStream::connect(listener.local_addr().unwrap()).unwrap();
        sender.set_nodelay(true).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let (play, (tell, read_on)) = (Arc::new(Play::default()), mpsc::channel());
        let (reader, keeper) = (play.clone(), play.clone());
        drop(runtime.spawn_with(migratable().on(0), move || reader.read(stream, &tell)).unwrap());
        let here = read_on.recv().unwrap();
        until("it waits", || here.sleeps());
        drop(runtime.spawn_with(Builder::new().on(0), move || keeper.keep()).unwrap());
        play.moves.store(true, Ordering::SeqCst);
        let mut this = Setting { runtime, play, sender, read_on, all: [here; 2] };
        this.send(0);
        this.all[1] = this.read_on.recv().unwrap();
        assert_eq!(this.all.map(|worker| worker.cpu), cpus);
        until("it waits", || this.all[1].sleeps());
        this
    }

    /// Sends a byte, which is processed on the CPU of `worker`.
    fn send(&mut self, worker: usize) {
        let (cpu, sender) = (self.all[worker].cpu, &mut self.sender);
        let send = || {
            cpu::bind_current(&CpuSet::from_iter([cpu])).unwrap();
            sender.write_all(&[1]).unwrap();
        };
        thread::scope(|scope| scope.spawn(send).join().unwrap());
    }

    /// Sends a byte from the CPU of worker `from`. Returns the worker on which the migratable fiber
    /// reads it, once the migratable fiber waits for the next byte.
    fn reads(&mut self, from: usize) -> usize {
        self.send(from);
        let here = self.read_on.recv().unwrap();
        let worker = self.all.iter().position(|known| *known == here).unwrap();
        let rest = &self.all[if self.play.busy.load(Ordering::SeqCst) == NOT { 0 } else { 1 }..];
        until("it waits", || rest.iter().all(|worker| worker.sleeps()));
        worker
    }

    fn worker_0(&self, does: usize) {
        self.play.busy.store(does, Ordering::SeqCst);
        until("worker 0 rests", || does != NOT || self.all[0].sleeps());
    }

    fn steals(&self) -> u64 {
        self.runtime.counters().iter().map(|worker| worker.steals).sum()
    }

    fn end(self) {
        self.worker_0(NOT);
        drop(self.sender);
        until("the migratable fiber ends", || self.read_on.recv().is_err());
        end(self.runtime);
    }
}

impl Play {
    fn read(&self, mut stream: TcpStream, tell: &mpsc::Sender<Here>) {
        let (mut byte, start) = ([0], Here::now());
        let _ = tell.send(start);
        while stream.read(&mut byte).unwrap() == 1 {
            // Another worker takes the migratable fiber, as worker 0 has another runnable fiber.
            while self.moves.load(Ordering::SeqCst) && Here::now() == start {
                daiko::yield_now();
            }
            self.moves.store(false, Ordering::SeqCst);
            let _ = tell.send(Here::now());
        }
    }

    /// Keeps worker 0 busy, so that its agent takes no fibers of other workers.
    fn keep(&self) {
        loop {
            match self.busy.load(Ordering::SeqCst) {
                YIELDS => daiko::yield_now(),
                KEEPS => std::hint::spin_loop(),
                _ => return,
            }
        }
    }
}

/// Returns the workers on which a migratable fiber reads that has moved, while its packets are
/// always processed on the CPU of its first worker, which is idle. Repeats the test if another
/// worker stole the migratable fiber meanwhile.
fn reads_of_one_never_followed(
    placement: Placement,
    steered: bool,
    cpus: [usize; 2],
) -> Vec<usize> {
    for _ in 0..100 {
        let mut setting = Setting::new(placement, steered, Selector::Epoll, cpus);
        setting.worker_0(NOT);
        let before = setting.steals();
        let reads: Vec<_> = (0..7).map(|_| setting.reads(0)).collect();
        let undisturbed = setting.steals() == before;
        setting.end();
        if undisturbed {
            return reads;
        }
    }
    panic!("it is stolen all the time");
}

#[test]
fn a_migratable_fiber_that_has_settled_is_looked_for_where_it_is() {
    let Some(cpus) = two_cpus() else { return };
    for selector in [Selector::Epoll, Selector::IoUring] {
        if let Err(refused) = selector::probe(selector.into()) {
            println!("skipped: {refused}");
            continue;
        }
        let mut setting = Setting::new(Placement::Follow, true, selector, cpus);
        assert_eq!(setting.reads(1), 1);
        assert_eq!(setting.reads(1), 1);
        // The agent of the first worker sees no more packets, and is not needed: a spare of that
        // worker may have run the migratable fiber.
        setting.worker_0(KEEPS);
        for _ in 0..100 {
            setting.send(0);
            setting.read_on.recv().unwrap();
        }
        setting.worker_0(YIELDS);
        setting.end();
    }
}

#[test]
fn a_migratable_fiber_that_has_moved_stays_for_a_while_where_packets_are_steered() {
    let Some(cpus) = two_cpus() else { return };
    let reads = |placement, steered| reads_of_one_never_followed(placement, steered, cpus);
    assert_eq!(reads(Placement::Follow, true), [1, 1, 1, 1, 0, 0, 0]);
    assert_eq!(reads(Placement::Follow, false), [0; 7]);
    assert_eq!(reads(Placement::Default, true), [0; 7]);
}

/// A fiber counts for the worker that it is sent to, until it begins there. A worker whose count
/// only rose would seem busier with each round, and get no fibers in the end.
#[test]
fn fibers_are_sent_to_a_worker_that_is_idle_again() {
    const ROUNDS: usize = 8;
    let runtime = workers(2);
    let round = || {
        let (here, begun) = (daiko_sys::thread::id(), Arc::new(AtomicUsize::new(0)));
        let body = || {
            let begun = begun.clone();
            move || {
                begun.fetch_add(1, Ordering::Relaxed);
                daiko::park();
                daiko_sys::thread::id() != here
            }
        };
        let fibers: Vec<_> = (0..200).map(|_| daiko::spawn(body())).collect();
        // All have begun, and have their workers, before the first of them ends.
        yield_until("all have begun", || begun.load(Ordering::Relaxed) == 200);
        fibers.iter().for_each(|fiber| fiber.fiber().unpark());
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).filter(|&elsewhere| elsewhere).count()
    };
    let rounds = move || (0..ROUNDS).map(|_| round()).collect::<Vec<_>>();
    let elsewhere = runtime.spawn_with(Builder::new().on(0), rounds).unwrap().join().unwrap();
    assert!(elsewhere.iter().all(|&count| count >= 20), "{elsewhere:?}");
    end(runtime);
}

/// A runtime with blockers: fibers that block their workers, which count as stuck.
struct Blocked {
    runtime: Runtime,
    blockers: Vec<(mpsc::Sender<()>, JoinHandle<u32>)>,
}

impl Blocked {
    /// Starts a runtime of `count` workers, and blocks those of `stuck`.
    fn new(count: usize, stuck: impl IntoIterator<Item = usize>) -> Self {
        let (tell, told) = mpsc::channel();
        let hook = move |stuck: &Stuck| tell.send(stuck.worker).unwrap();
        let runtime = Runtime::builder().workers(count).on_stuck(hook).build().unwrap();
        let block = |worker| {
            let (release, released) = mpsc::channel();
            let body = move || {
                released.recv().unwrap();
                daiko_sys::thread::id()
            };
            let fiber = runtime.spawn_with(Builder::new().on(worker), body).unwrap();
            assert_eq!(told.recv().unwrap(), worker);
            (release, fiber)
        };
        let blockers = stuck.into_iter().map(block).collect();
        Blocked { runtime, blockers }
    }

    /// Lets the blockers end; returns the threads of their workers.
    fn release(&mut self) -> Vec<u32> {
        let end = |(release, fiber): (mpsc::Sender<()>, JoinHandle<u32>)| {
            release.send(()).unwrap();
            fiber.join().unwrap()
        };
        self.blockers.drain(..).map(end).collect()
    }
}

/// Spawns fibers that all live at the same time, more than one worker takes while another has none,
/// and waits for their end.
fn run_free_fibers(runtime: &Runtime, builder: &Builder) {
    const FIBERS: usize = 300;
    let begun = Arc::new(AtomicUsize::new(0));
    let body = || {
        let begun = begun.clone();
        move || {
            begun.fetch_add(1, Ordering::Relaxed);
            daiko::park();
        }
    };
    let spawn = |_| runtime.spawn_with(builder.clone(), body()).unwrap();
    let fibers: Vec<_> = (0..FIBERS).map(spawn).collect();
    until("all have begun", || begun.load(Ordering::Relaxed) == FIBERS);
    fibers.iter().for_each(|fiber| fiber.fiber().unpark());
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

#[test]
fn a_stuck_worker_gets_no_free_fibers() {
    for builder in [Builder::new(), Builder::new().spread()] {
        for stuck in 0..2 {
            let mut blocked = Blocked::new(2, [stuck]);
            run_free_fibers(&blocked.runtime, &builder);
            assert_eq!(blocked.runtime.counters()[1 - stuck].imbalance, 0, "none is sent to it");
            blocked.release();
            // It is a worker as any other again.
            run_free_fibers(&blocked.runtime, &builder);
            end(blocked.runtime);
        }
    }
}

#[test]
fn free_fibers_start_although_all_workers_are_stuck() {
    for count in 1..=2 {
        for builder in [Builder::new(), Builder::new().spread()] {
            let mut blocked = Blocked::new(count, 0..count);
            run_free_fibers(&blocked.runtime, &builder);
            blocked.release();
            end(blocked.runtime);
        }
    }
}

#[test]
fn a_fiber_placed_by_name_waits_for_a_stuck_worker() {
    let mut blocked = Blocked::new(2, [1]);
    let named = Builder::new().on(1);
    let named = blocked.runtime.spawn_with(named, daiko_sys::thread::id).unwrap();
    // The monitor looks through the inbox meanwhile, where the fiber above is.
    run_free_fibers(&blocked.runtime, &Builder::new());
    assert!(!named.is_finished());
    assert_eq!(blocked.release(), [named.join().unwrap()]);
    end(blocked.runtime);
}

/// Calls `act` in a fiber on worker 1 while worker 0 has more fibers than that, so that fibers are
/// spread to worker 1.
fn on_the_least_loaded(act: impl FnOnce() + Send + 'static) {
    let runtime = workers(2);
    let park = |_| runtime.spawn_with(Builder::new().on(0), daiko::park).unwrap();
    let parked: Vec<_> = (0..100).map(park).collect();
    runtime.spawn_with(Builder::new().on(1), act).unwrap().join().unwrap();
    parked.iter().for_each(|fiber| fiber.fiber().unpark());
    parked.into_iter().for_each(|fiber| fiber.join().unwrap());
    end(runtime);
}

/// Number of fibers that `spread` spawns.
const SPREAD: usize = 20;

/// Spawns fibers that run `body`.
fn spread(body: impl Fn() + Send + Sync + 'static) -> Vec<JoinHandle<()>> {
    let body = Arc::new(body);
    let spawn = |_| {
        let body = body.clone();
        Builder::new().spread().spawn(move || body()).unwrap()
    };
    (0..SPREAD).map(spawn).collect()
}

#[test]
fn fibers_in_the_inbox_of_a_worker_that_gets_stuck_are_taken_back() {
    on_the_least_loaded(|| {
        let (tell, told) = mpsc::channel();
        drop(spread(move || tell.send(()).unwrap()));
        assert_eq!(told.iter().count(), SPREAD);
    });
}

#[test]
fn fibers_in_the_queue_of_a_worker_that_gets_stuck_are_taken_back() {
    on_the_least_loaded(|| {
        let (tell, told) = mpsc::channel();
        let told = Mutex::new(Some(told));
        // The worker reads all these messages at once. The first fiber that it starts blocks it.
        let fibers = spread(move || {
            let first = told.lock().unwrap().take();
            match first {
                Some(told) => assert_eq!(told.iter().take(SPREAD - 1).count(), SPREAD - 1),
                None => tell.send(()).unwrap(),
            }
        });
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

/// Fibers that were placed take turns with those that run.
#[test]
fn fibers_are_placed_on_a_worker_that_is_busy() {
    on_the_least_loaded(|| {
        let fibers = spread(|| ());
        yield_until("all have ended", || fibers.iter().all(JoinHandle::is_finished));
    });
}
