//! Pollers for which workers sleep, and peers that have a CPU of their own.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::child::emulated::LinuxPart;
use crate::support::child::in_child_well;
use crate::support::{PRESETS, end, skip, until, yield_until};
use daiko::agent::{PollerBuilder, Registration};
use daiko::net::Selector;
use daiko::sync::channel::{OneshotSender, bounded, oneshot};
use daiko::watch::{NotificationArea, WatchBuilder, at_least};
use daiko::{Builder, Preset, Runtime, RuntimeBuilder};
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::{selector, thread};

fn first_cpu() -> usize {
    cpu::allowed().unwrap().iter().next().unwrap()
}

/// Returns a builder for one CPU, where no agent spins without end.
fn on_one_cpu(workers: usize, preset: Preset) -> RuntimeBuilder {
    Runtime::builder().workers(workers).preset(preset).cpus([first_cpu()])
}

/// Returns the threads of this process besides the caller and the monitor that may go on by
/// themselves: they run, or sleep for some time, or in another call than one on a private futex.
fn awake() -> Vec<u32> {
    let is_monitor = |id| thread::name_of(id).is_some_and(|name| name == "daiko-monitor");
    let others = thread::all().unwrap().into_iter().filter(|&id| id != thread::id());
    others.filter(|&id| !thread::waits_for_another(id) && !is_monitor(id)).collect()
}

/// Waits until the workers sleep without end.
#[track_caller]
fn until_all_sleep() {
    until("the sleep of all workers", || awake().is_empty());
}

/// A poller that counts its calls.
fn counting(builder: PollerBuilder, runtime: &Runtime) -> (Registration, Arc<AtomicUsize>) {
    let polls = Arc::new(AtomicUsize::new(0));
    let count = polls.clone();
    let poller = move || {
        count.fetch_add(1, Ordering::Release);
        0
    };
    (builder.register_in(runtime, poller).unwrap(), polls)
}

#[test]
fn workers_sleep_beside_an_inactive_poller_until_it_is_active() {
    in_child_well("pollers::workers_sleep_beside_an_inactive_poller_until_it_is_active", || {
        for preset in PRESETS {
            for (builder, workers) in [
                (PollerBuilder::new(), 1),
                (PollerBuilder::new(), 2),
                (PollerBuilder::new().on(0).peer_elsewhere(), 1),
                (PollerBuilder::new().on(1), 2),
            ] {
                let runtime = on_one_cpu(workers, preset).build().unwrap();
                let (poller, polls) = counting(builder.inactive(), &runtime);
                let now = || polls.load(Ordering::Acquire);
                until_all_sleep();
                assert_eq!(now(), 0);
                let poller = Arc::new(poller);
                let by_thread = || poller.set_active(true);
                let by_fiber = || {
                    let poller = poller.clone();
                    runtime.run(move || poller.set_active(true));
                };
                for activate in [&by_thread as &dyn Fn(), &by_fiber] {
                    let before = now();
                    activate();
                    until("more polls", || now() > before + 3);
                    poller.set_active(false);
                    until_all_sleep();
                    let called = now();
                    runtime.run(|| (0..200).for_each(|_| daiko::yield_now()));
                    until_all_sleep();
                    assert_eq!(now(), called, "it is inactive");
                }
                end(runtime);
            }
        }
    });
}

/// The worker stands by, and an active one, which stays busy, hosts its fibers. A poller needs the
/// worker's own thread.
#[test]
fn a_poller_of_a_hosted_worker_is_called() {
    for preset in PRESETS {
        let runtime = on_one_cpu(2, preset).build().unwrap();
        let (asks, asked) = bounded(1);
        let (replies, replied) = bounded(1);
        let hosted = runtime.spawn_with(Builder::new().on(1), move || {
            asked.iter().for_each(|ping: usize| replies.send(ping).unwrap());
        });
        let flags: Arc<[AtomicBool; 2]> = Arc::default();
        let shared = flags.clone();
        let host = runtime.spawn_with(Builder::new().on(0), move || {
            let [is_hosted, is_polled] = &*shared;
            for ping in 0..100 {
                asks.send(ping).unwrap();
                assert_eq!(replied.recv(), Ok(ping));
            }
            is_hosted.store(true, Ordering::Release);
            yield_until("a poll", || is_polled.load(Ordering::Acquire));
        });
        until("pings", || flags[0].load(Ordering::Acquire));
        let shared = flags.clone();
        let poller = move || {
            shared[1].store(true, Ordering::Release);
            0
        };
        let poller = PollerBuilder::new().on(1).register_in(&runtime, poller).unwrap();
        host.unwrap().join().unwrap();
        hosted.unwrap().join().unwrap();
        drop(poller);
        end(runtime);
    }
}

/// A stream whose bytes a poller counts.
struct Stream {
    peer: UnixStream,
    poller: Registration,
    state: Arc<StreamState>,
}

#[derive(Default)]
struct StreamState {
    seen: AtomicUsize,
    polls: AtomicUsize,
    /// True: the poller leaves the bytes in the stream.
    is_left: AtomicBool,
}

impl StreamState {
    fn poll(&self, mut stream: &UnixStream) -> usize {
        self.polls.fetch_add(1, Ordering::Release);
        if self.is_left.load(Ordering::Acquire) {
            return 0;
        }
        let taken = stream.read(&mut [0; 64]).unwrap_or_else(|error| {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            0
        });
        self.seen.fetch_add(taken, Ordering::Release);
        taken
    }
}

impl Stream {
    fn new(runtime: &Runtime) -> Self {
        let (own, peer) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        let builder = PollerBuilder::new().wake_fd(own.try_clone().unwrap());
        let state = Arc::new(StreamState::default());
        let polled = state.clone();
        let poller = builder.register_in(runtime, move || polled.poll(&own)).unwrap();
        Stream { peer, poller, state }
    }

    fn polls(&self) -> usize {
        self.state.polls.load(Ordering::Acquire)
    }

    fn send(&mut self) {
        self.peer.write_all(&[1]).unwrap();
    }

    #[track_caller]
    fn until_seen(&self, bytes: usize) {
        until("the bytes", || self.state.seen.load(Ordering::Acquire) == bytes);
    }

    /// Waits for so many calls of the poller, while nothing wakes its worker.
    #[track_caller]
    fn until_polled(&self, times: usize) {
        let before = self.polls();
        until("calls without a wake", || self.polls() >= before + times);
    }
}

/// Waits until worker 0 sleeps in a call of its selector, and all other threads without end.
#[track_caller]
fn until_asleep_in_the_selector() {
    #[cfg(target_arch = "x86_64")]
    const WAIT: i64 = libc::SYS_epoll_wait;
    #[cfg(not(target_arch = "x86_64"))]
    const WAIT: i64 = libc::SYS_epoll_pwait;
    let calls = [WAIT, libc::SYS_epoll_pwait2, libc::SYS_io_uring_enter];
    let sleeps = |&id: &u32| thread::blocked_syscall(id).is_some_and(|call| calls.contains(&call));
    until("the sleep in the selector", || matches!(&awake()[..], [one] if sleeps(one)));
}

fn selectors() -> Vec<Selector> {
    let ring = selector::probe(selector::SelectorKind::Ring { deferred: true }).is_ok();
    [Selector::Epoll, Selector::IoUring].into_iter().take(1 + usize::from(ring)).collect()
}

fn on_each_selector(each: impl Fn(Runtime)) {
    for kind in selectors() {
        for preset in PRESETS {
            each(on_one_cpu(2, preset).selector(kind).build().unwrap());
        }
    }
}

#[test]
fn a_descriptor_wakes_the_worker_of_its_poller() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    in_child_well("pollers::a_descriptor_wakes_the_worker_of_its_poller", || {
        on_each_selector(|runtime| {
            let mut stream = Stream::new(&runtime);
            for byte in 1..=100 {
                if byte % 10 == 1 {
                    until_asleep_in_the_selector();
                }
                stream.send();
                stream.until_seen(byte);
            }
            until_asleep_in_the_selector();
            let polls = stream.polls();
            stream.poller.set_active(false);
            stream.send();
            runtime.run(|| (0..200).for_each(|_| daiko::yield_now()));
            until_all_sleep();
            assert_eq!(stream.polls(), polls, "it is inactive");
            // The byte has come before the descriptor is armed.
            stream.poller.set_active(true);
            stream.until_seen(101);
            until_asleep_in_the_selector();
            drop(stream);
            // The worker may sleep in its selector until it is woken.
            runtime.run(|| ());
            until_all_sleep();
            end(runtime);
        });
    });
}

/// A byte that the poller leaves, and the end of the stream, are there at each look: they cannot
/// end a sleep, nor must they forbid it.
#[test]
fn a_descriptor_that_stays_readable_is_sampled() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    in_child_well("pollers::a_descriptor_that_stays_readable_is_sampled", || {
        on_each_selector(|runtime| {
            let mut stream = Stream::new(&runtime);
            stream.state.is_left.store(true, Ordering::Release);
            until_asleep_in_the_selector();
            stream.send();
            stream.until_polled(10);
            let parks = || runtime.counters()[0].parks;
            let before = parks();
            until("sleeps between the calls", || parks() > before + 3);
            stream.state.is_left.store(false, Ordering::Release);
            stream.until_seen(1);
            until_asleep_in_the_selector();

            let ended = std::mem::replace(&mut stream.peer, UnixStream::pair().unwrap().0);
            drop(ended);
            stream.until_polled(10);
            let before = parks();
            until("sleeps between the calls", || parks() > before + 3);
            stream.poller.set_active(false);
            until_all_sleep();
            drop(stream);
            end(runtime);
        });
    });
}

#[test]
fn a_runtime_ends_while_a_descriptor_is_armed() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    in_child_well("pollers::a_runtime_ends_while_a_descriptor_is_armed", || {
        on_each_selector(|runtime| {
            let mut stream = Stream::new(&runtime);
            stream.send();
            stream.until_seen(1);
            until_asleep_in_the_selector();
            end(runtime);
            assert!(stream.poller.is_active());
            stream.poller.set_active(false);
            stream.poller.set_active(true);
            stream.send();
        });
    });
}

/// Asserts that worker 0 looks again and again without a sleep.
fn assert_spins(runtime: &Runtime) {
    let counters = || runtime.counters().swap_remove(0);
    let looked = |more: u64| {
        let before = counters().polls;
        until("looks", || counters().polls > before + more);
    };
    looked(2);
    let before = counters().parks;
    looked(100);
    assert_eq!(counters().parks, before);
}

/// An agent with one CPU spins for a peer that has another CPU: it does not sleep once.
#[test]
fn an_agent_spins_on_its_only_cpu_for_a_peer_elsewhere() {
    let runtime = on_one_cpu(1, Preset::Latency).build().unwrap();
    let parks = || runtime.counters()[0].parks;
    let (poller, polls) = counting(PollerBuilder::new().peer_elsewhere(), &runtime);
    let polled = |more: usize| {
        let before = polls.load(Ordering::Acquire);
        until("polls", || polls.load(Ordering::Acquire) > before + more);
    };
    polled(1);
    let before = parks();
    polled(100);
    assert_eq!(parks(), before);
    poller.set_active(false);
    until("its sleep", || parks() > before);

    let word = Arc::new(AtomicU64::new(0));
    let (watched, (tell, told)) = (word.clone(), std::sync::mpsc::channel());
    let waiter = runtime.spawn(move || {
        tell.send(()).unwrap();
        WatchBuilder::new().peer_elsewhere().wait_until(&*watched, at_least(1))
    });
    told.recv().unwrap();
    assert_spins(&runtime);
    word.store(1, Ordering::Release);
    assert_eq!(waiter.join().unwrap(), 1);
    end(runtime);
}

/// An agent with one CPU spins for the writers of an area that have another CPU, as long as there
/// is the area.
#[test]
fn an_agent_spins_on_its_only_cpu_for_the_area_of_writers_elsewhere() {
    let runtime = on_one_cpu(1, Preset::Latency).build().unwrap();
    let parks = || runtime.counters()[0].parks;
    let (area, mut slots) = runtime.run(|| NotificationArea::<u64>::peer_elsewhere(2));
    let mut slot = slots.remove(1);
    let waiter = runtime.spawn(move || slot.wait());
    assert_spins(&runtime);
    area.notify(1);
    assert_eq!(waiter.join().unwrap(), Ok(1));
    assert_spins(&runtime);
    let before = parks();
    drop((area, slots));
    until("its sleep", || parks() > before);
    end(runtime);
}

/// Two words that two processes share: one asks, the other answers.
#[derive(Clone, Copy)]
struct Words(NonNull<[AtomicU64; 2]>);

// SAFETY: atomics in memory that is never unmapped.
unsafe impl Send for Words {}

impl Words {
    fn new() -> Self {
        let (read_write, shared) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping touches no memory of the program.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, read_write, shared, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Words(NonNull::new(start.cast()).unwrap())
    }

    fn question(&self) -> &AtomicU64 {
        // SAFETY: mapped for good, and zeros are valid atomics.
        unsafe { &self.0.as_ref()[0] }
    }

    fn answer(&self) -> &AtomicU64 {
        // SAFETY: as in `question`.
        unsafe { &self.0.as_ref()[1] }
    }

    /// Forks a peer that answers so many questions on `cpu`; returns its id.
    fn peer(self, cpu: usize, rounds: u64) -> libc::pid_t {
        // SAFETY: the process has one thread that could hold a lock; the child ends without
        // unwinding.
        let child = unsafe { libc::fork() };
        if child != 0 {
            return child;
        }
        let mut own = CpuSet::new();
        own.insert(cpu);
        let bound = cpu::bind_current(&own).is_ok();
        for round in 1..=rounds {
            while self.question().load(Ordering::Acquire) < round {
                std::hint::spin_loop();
            }
            self.answer().store(round, Ordering::Release);
        }
        // SAFETY: ends the child alone.
        unsafe { libc::_exit(i32::from(!bound)) }
    }
}

/// The fiber that waits for the answer to the question of this number.
type Asker = Option<(u64, OneshotSender<u64>)>;

/// Asks by a poller that is active while there is a question.
fn rounds_by_poller(runtime: &Runtime, words: Words, rounds: u64) {
    let asker = Arc::new(Mutex::new(Asker::None));
    let asked = asker.clone();
    let poller = move || {
        let answered = words.answer().load(Ordering::Acquire);
        let asker = asked.lock().unwrap().take_if(|(round, _)| *round <= answered);
        asker.map_or(0, |(round, asker)| usize::from(asker.send(round).is_ok()))
    };
    let builder = PollerBuilder::new().on(0).peer_elsewhere().inactive();
    let poller = builder.register_in(runtime, poller).unwrap();
    runtime.run(move || {
        for round in 1..=rounds {
            let (completes, completion) = oneshot();
            *asker.lock().unwrap() = Some((round, completes));
            words.question().store(round, Ordering::Release);
            poller.set_active(true);
            assert_eq!(completion.recv(), Ok(round));
            poller.set_active(false);
        }
    });
}

fn rounds_by_watch(runtime: &Runtime, words: Words, rounds: u64) {
    runtime.run(move || {
        for round in 1..=rounds {
            words.question().store(round, Ordering::Release);
            let watch = WatchBuilder::new().peer_elsewhere();
            assert_eq!(watch.wait_until(words.answer(), at_least(round)), round);
        }
    });
}

#[test]
fn two_processes_with_one_cpu_each_answer_each_other() {
    in_child_well("pollers::two_processes_with_one_cpu_each_answer_each_other", || {
        let cpus: Vec<_> = cpu::allowed().unwrap().iter().collect();
        let [own, .., other] = cpus[..] else { return skip("there is one CPU only") };
        for preset in PRESETS {
            let rounds = if preset == Preset::Power { 20 } else { 1000 };
            for ask in [rounds_by_poller, rounds_by_watch] {
                let words = Words::new();
                let peer = words.peer(other, rounds);
                let builder = Runtime::builder().workers(1).preset(preset).cpus([own]);
                let runtime = builder.build().unwrap();
                ask(&runtime, words, rounds);
                end(runtime);
                let mut status = -1;
                // SAFETY: the result goes to a live local.
                assert_eq!(unsafe { libc::waitpid(peer, &mut status, 0) }, peer);
                assert_eq!(status, 0, "its CPU");
            }
        }
    });
}
