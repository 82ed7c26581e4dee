//! A server with thousands of connections: no readiness that is in the kernel may be left there.
//!
//! Two client threads send bursts of requests on random connections, read all replies, and pause,
//! now and then until all workers sleep. A further kernel thread asks the kernel every [`LOOK`] for
//! which connections the call that a fiber is making would succeed, and looks at each worker. A
//! readiness that outlasts [`LOOKS`] looks, at each of which every worker has either polled
//! [`POLLS`] times since or sleeps, is lost: the kernel would have woken a sleeper, and an agent
//! that polls would have been told. Time alone proves nothing: workers that wait for a CPU, or a
//! machine that stands still, leave readiness alone as well.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, net, process, thread};

use daiko::net::{TcpListener, TcpStream};
use daiko::{Builder, Runtime};
use daiko_sys::selector::{self, SelectorKind};
use daiko_sys::thread as kernel_thread;

use super::support::{self, PRESETS, child, until};
use super::{Dice, seconds, seed};

/// Time between two looks of the checker.
const LOOK: Duration = Duration::from_millis(20);
/// Looks after which a readiness is lost: 200 ms, or more where the machine is busy.
const LOOKS: u32 = 10;
/// Rounds of an agent after which it must have seen a readiness. A selector with 9,000 changes
/// reports all of them in 71 rounds.
const POLLS: u64 = 1_000;
/// Smallest and largest number of connections of a round.
const CONNECTIONS: [usize; 2] = [1_000, 9_000];
/// Descriptors for anything but connections.
const SPARE: usize = 500;
/// Time of a round.
const ROUND: Duration = Duration::from_secs(20);
/// Bytes of a large reply, so many that its writer has to wait for the reader.
const LARGE: u32 = 8 << 20;
/// Time between two thefts of a planted loss.
const THEFT: Duration = Duration::from_micros(100);

/// One round of the soak.
struct Shape {
    workers: usize,
    connections: usize,
    selector: SelectorKind,
    /// Workers run under `SCHED_FIFO`.
    real_time: bool,
    length: Duration,
}

/// A connection, as the checker sees it.
struct Served {
    /// Open until its round ends.
    fd: RawFd,
    /// Calls that have ended, times two, plus 1 if the present call writes.
    calls: AtomicU64,
}

impl Served {
    /// Makes a call on the connection, which may wait.
    fn call<R>(&self, writes: bool, call: impl FnOnce() -> R) -> R {
        let calls = (self.calls.load(Ordering::Relaxed) & !1) + 2;
        self.calls.store(calls | u64::from(writes), Ordering::Relaxed);
        call()
    }

    /// Returns the events to ask the kernel for, and the present call.
    fn awaited(&self) -> (libc::pollfd, u64) {
        let calls = self.calls.load(Ordering::Relaxed);
        let events = if calls & 1 == 1 { libc::POLLOUT } else { libc::POLLIN };
        (libc::pollfd { fd: self.fd, events, revents: 0 }, calls)
    }
}

/// The state that the threads of a round share.
#[derive(Default)]
struct Board {
    served: Mutex<Vec<Arc<Served>>>,
    /// Connections without a server's end.
    open: AtomicUsize,
    requests: AtomicU64,
    /// Set while the checker looks.
    checks: AtomicBool,
    /// Largest number of looks that a readiness has outlasted.
    longest: AtomicU64,
}

#[test]
fn a_server_leaves_no_readiness_in_the_kernel() {
    let Some(seconds) = seconds() else {
        return support::skip("the soak of a server runs for DAIKO_SOAK_SECONDS");
    };
    let (end, mut dice) = (Instant::now() + Duration::from_secs(seconds), Dice::new(seed()));
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now());
        round(&Shape::any(&mut dice, left.min(ROUND)), &mut dice, |_| ());
    }
}

/// Shows that the test above can fail: a thief takes changes out of the selectors of the workers.
#[test]
fn a_planted_loss_of_readiness_is_found() {
    if seconds().is_none() {
        return support::skip("the soak of a server runs for DAIKO_SOAK_SECONDS");
    }
    let output = child::in_child("server::a_planted_loss_of_readiness_is_found", || {
        let (selector, length) = (SelectorKind::Epoll, Duration::from_secs(60));
        let shape =
            Shape { workers: 2, connections: CONNECTIONS[0], selector, real_time: false, length };
        round(&shape, &mut Dice::new(seed()), steal_changes);
    });
    let report = child::stderr(&output);
    assert!(!output.status.success() && report.contains("readiness is lost"), "{report}");
    println!("soak: planted: {}", report.lines().next().unwrap_or_default());
}

impl Shape {
    fn any(dice: &mut Dice, length: Duration) -> Self {
        let most = allowed_connections();
        let kinds = [SelectorKind::Epoll, SelectorKind::Ring { deferred: true }];
        let selector = kinds[dice.below(2)];
        let selector =
            if selector::probe(selector).is_ok() { selector } else { SelectorKind::Epoll };
        let connections = CONNECTIONS[0] + dice.below(most - CONNECTIONS[0] + 1);
        let (workers, real_time) = (2 + dice.below(3), dice.one_in(2));
        Shape { workers, connections, selector, real_time, length }
    }
}

/// Raises the limit of descriptors; returns the most connections that it allows, both ends of
/// which are in this process.
fn allowed_connections() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a live local.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    let most = (limit.rlim_cur as usize).saturating_sub(SPARE) / 2;
    most.clamp(CONNECTIONS[0], CONNECTIONS[1])
}

/// Runs a server, its clients, the checker, and `plant` for as long as the checker looks.
fn round(shape: &Shape, dice: &mut Dice, plant: fn(&Board)) {
    let (runtime, is_real_time) = build(shape, dice);
    let board = Arc::new(Board::default());
    board.open.store(shape.connections, Ordering::Relaxed);
    let address = listen(&runtime, &board, shape.connections);
    let streams: Vec<_> =
        (0..shape.connections).map(|_| net::TcpStream::connect(address).unwrap()).collect();
    until("all connections are accepted", || {
        board.served.lock().unwrap().len() == shape.connections
    });
    let workers = (0..shape.workers).map(|worker| Watched::new(&runtime, worker)).collect();
    board.checks.store(true, Ordering::Relaxed);
    let end = Instant::now() + shape.length;
    let looks = thread::scope(|threads| {
        let (board, runtime) = (&*board, &runtime);
        let checker = threads.spawn(move || check(board, runtime, workers));
        threads.spawn(move || plant(board));
        let halves = streams.chunks(shape.connections.div_ceil(2));
        let clients = halves.map(|half| {
            let dice = Dice::new(dice.roll());
            threads.spawn(move || ask(half, dice, board, end))
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        board.checks.store(false, Ordering::Relaxed);
        checker.join().unwrap()
    });
    drop(streams);
    until("the server's ends are closed", || board.open.load(Ordering::Acquire) == 0);
    report(shape, is_real_time, &board, looks);
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (0, 0));
}

fn report(shape: &Shape, is_real_time: bool, board: &Board, looks: u64) {
    let Shape { workers, connections, selector, .. } = shape;
    let requests = board.requests.load(Ordering::Relaxed);
    let longest = board.longest.load(Ordering::Relaxed);
    let scheduled = if is_real_time { "SCHED_FIFO" } else { "plain priorities" };
    println!(
        "soak: {workers} workers with {selector:?}, {scheduled}, {connections} connections: \
         {requests} requests, {looks} looks, of which a readiness outlasted {longest} at most"
    );
}

/// Builds the runtime; its threads inherit the policy of the thread that starts them. Returns true
/// with it if that is `SCHED_FIFO`.
fn build(shape: &Shape, dice: &mut Dice) -> (Runtime, bool) {
    let preset = PRESETS[dice.below(PRESETS.len())];
    let builder = Runtime::builder().workers(shape.workers).preset(preset);
    let builder = builder.selector_kind(shape.selector);
    thread::scope(|threads| {
        let starter = threads.spawn(|| {
            let is_real_time = shape.real_time && become_real_time();
            (builder.build().unwrap(), is_real_time)
        });
        starter.join().unwrap()
    })
}

/// Gives the calling thread the lowest priority of real time; returns false if it must not have it.
fn become_real_time() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters are a live local.
    let is_allowed = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } == 0;
    if !is_allowed {
        support::skip("rounds under SCHED_FIFO: run as root");
    }
    is_allowed
}

/// Starts the fiber that accepts `connections`, and a fiber for each.
fn listen(runtime: &Runtime, board: &Arc<Board>, connections: usize) -> SocketAddr {
    let board = board.clone();
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let listener = runtime.spawn(bind).join().unwrap();
    let address = listener.local_addr().unwrap();
    drop(runtime.spawn(move || {
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            let served = Arc::new(Served { fd: stream.as_raw_fd(), calls: AtomicU64::new(0) });
            board.served.lock().unwrap().push(served.clone());
            let board = board.clone();
            daiko::spawn(move || {
                answer(stream, &served).unwrap();
                // Release: pairs with the Acquire in `round`.
                board.open.fetch_sub(1, Ordering::Release);
            });
        }
    }));
    address
}

/// Answers each request, the length of its reply, by so many bytes.
fn answer(mut stream: TcpStream, served: &Served) -> io::Result<()> {
    let bytes = vec![1; 1 << 16];
    let mut length = [0; 4];
    while served.call(false, || stream.read(&mut length))? == length.len() {
        let mut left = u32::from_ne_bytes(length) as usize;
        while left > 0 {
            let part = &bytes[..left.min(bytes.len())];
            left -= served.call(true, || stream.write(part))?;
        }
    }
    Ok(())
}

/// Sends bursts of requests, and reads the replies to each burst, until the `end`.
fn ask(streams: &[net::TcpStream], mut dice: Dice, board: &Board, end: Instant) {
    let mut buffer = vec![0; 1 << 16];
    while Instant::now() < end {
        // As often a few as many.
        let most = 1 << dice.below(streams.len().ilog2() as usize + 1);
        let count = 1 + dice.below(most);
        let first = dice.below(streams.len() - count + 1);
        let burst = &streams[first..first + count];
        let lengths: Vec<u32> = burst.iter().map(|_| length(&mut dice)).collect();
        for (mut stream, length) in burst.iter().zip(&lengths) {
            stream.write_all(&length.to_ne_bytes()).unwrap();
        }
        for (stream, length) in burst.iter().zip(&lengths) {
            take(stream, *length as usize, &mut buffer);
        }
        board.requests.fetch_add(burst.len() as u64, Ordering::Relaxed);
        let pause = if dice.one_in(32) { 300_000 } else { dice.roll() % 10_000 };
        thread::sleep(Duration::from_micros(pause));
    }
}

fn length(dice: &mut Dice) -> u32 {
    if dice.one_in(1_000) { LARGE } else { 1 + dice.below(1_000) as u32 }
}

fn take(mut stream: &net::TcpStream, mut left: usize, buffer: &mut [u8]) {
    while left > 0 {
        let part = left.min(buffer.len());
        let read = stream.read(&mut buffer[..part]).unwrap();
        assert!(read > 0 && buffer[..read].iter().all(|&byte| byte == 1));
        left -= read;
    }
}

/// A readiness that the checker has seen.
#[derive(Clone)]
struct Seen {
    call: u64,
    /// Rounds of each worker's agent at that time.
    polls: Arc<[u64]>,
    looks: u32,
}

/// A worker, as the checker sees it.
struct Watched {
    thread: u32,
    polls: u64,
    /// It sleeps, and has polled nothing since the last look.
    is_asleep: bool,
}

impl Watched {
    /// Returns the worker of this number.
    fn new(runtime: &Runtime, worker: usize) -> Self {
        let named = || fs::read_link("/proc/thread-self").unwrap();
        let path = runtime.spawn_with(Builder::new().on(worker), named).unwrap().join().unwrap();
        let thread = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        Watched { thread, polls: 0, is_asleep: false }
    }

    fn look(&mut self, polls: u64) {
        self.is_asleep = polls == self.polls && kernel_thread::state(self.thread) == Some('S');
        self.polls = polls;
    }
}

/// Looks until the round ends, and ends the process if a readiness is lost. Returns the number of
/// looks.
fn check(board: &Board, runtime: &Runtime, mut workers: Vec<Watched>) -> u64 {
    let served = board.served.lock().unwrap().clone();
    let mut seen = vec![None; served.len()];
    let mut looks = 0;
    while board.checks.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        // Before the kernel is asked: what was ready before and still is was so at this time.
        workers.iter_mut().zip(polls(runtime)).for_each(|(worker, polls)| worker.look(polls));
        look(board, runtime, &served, &workers, &mut seen);
        looks += 1;
    }
    looks
}

fn polls(runtime: &Runtime) -> Vec<u64> {
    runtime.counters().iter().map(|counters| counters.polls).collect()
}

/// Compares the kernel's readiness with that of the last look.
fn look(
    board: &Board,
    runtime: &Runtime,
    served: &[Arc<Served>],
    workers: &[Watched],
    seen: &mut [Option<Seen>],
) {
    let (mut polled, calls): (Vec<_>, Vec<_>) = served.iter().map(|one| one.awaited()).unzip();
    // SAFETY: the array is live, and of this length.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) };
    assert!(ready >= 0, "{}", io::Error::last_os_error());
    // After the kernel was asked: rounds from here on find all that was ready.
    let now: Arc<[u64]> = polls(runtime).into();
    for ((seen, polled), call) in seen.iter_mut().zip(&polled).zip(calls) {
        let is_ready = polled.revents != 0;
        match seen.as_mut().filter(|seen| is_ready && seen.call == call) {
            Some(seen) => outlasts(board, workers, seen),
            None => *seen = is_ready.then(|| Seen { call, polls: now.clone(), looks: 0 }),
        }
    }
}

/// Counts the look, unless a worker may not have come to the readiness yet.
fn outlasts(board: &Board, workers: &[Watched], seen: &mut Seen) {
    let mut each = workers.iter().zip(&*seen.polls);
    if each.all(|(worker, since)| worker.is_asleep || worker.polls >= since + POLLS) {
        seen.looks += 1;
        board.longest.fetch_max(seen.looks.into(), Ordering::Relaxed);
    }
    if seen.looks >= LOOKS {
        let way = if seen.call & 1 == 1 { "write" } else { "read" };
        eprintln!("soak: a readiness is lost, to {way}");
        for (worker, since) in workers.iter().zip(&*seen.polls) {
            let Watched { thread, polls, is_asleep } = worker;
            eprintln!("thread {thread}: {} polls since, asleep: {is_asleep}", polls - since);
        }
        process::abort();
    }
}

/// Takes changes out of the epoll instances of this process, as long as the checker looks.
fn steal_changes(board: &Board) {
    let selectors: Vec<RawFd> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let is_epoll =
                fs::read_link(&path).is_ok_and(|to| to.ends_with("anon_inode:[eventpoll]"));
            is_epoll.then(|| path.file_name()?.to_str()?.parse().ok()).flatten()
        })
        .collect();
    assert!(!selectors.is_empty(), "no worker has a selector");
    while board.checks.load(Ordering::Relaxed) {
        thread::sleep(THEFT);
        for &selector in &selectors {
            let mut event = libc::epoll_event { events: 0, u64: 0 };
            // SAFETY: there is room for one event.
            unsafe { libc::epoll_wait(selector, &mut event, 1, 0) };
        }
    }
}
