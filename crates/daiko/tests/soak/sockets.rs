//! Streams in both directions, and acceptors: each byte comes once and in order, and each
//! connection is accepted once, even if fibers are cancelled or run out of time meanwhile.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use daiko::net::{TcpListener, TcpStream, UnixStream};
use daiko::time;

use super::support::OnDrop;
use super::{Dice, Round, came_to_its_end};

/// The number of bytes that a writer sends in all. `LARGE` is more than the buffers of a socket
/// take.
const SMALL: usize = 10_000;
const LARGE: usize = 1 << 20;
/// The number of acceptors at the same listener.
const ACCEPTORS: usize = 4;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn pair(dice: &mut Dice, round: &Arc<Round>) -> [Stream; 2] {
        if dice.one_in(2) {
            let (one, other) = UnixStream::pair().unwrap();
            return [one, other].map(Stream::Unix);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connects = round.spawn(dice, move |_, _| TcpStream::connect(address).unwrap());
        let (accepted, _) = listener.accept().unwrap();
        [accepted, connects.join().unwrap()].map(Stream::Tcp)
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.read(buffer),
            Stream::Unix(stream) => { stream }.read(buffer),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => { stream }.write(bytes),
            Stream::Unix(stream) => { stream }.write(bytes),
        }
    }

    fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.readable(),
            Stream::Unix(stream) => stream.readable(),
        }
    }

    fn set_timeouts(&self, time: Option<Duration>) {
        match self {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(time).unwrap();
                stream.set_write_timeout(time).unwrap();
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(time).unwrap();
                stream.set_write_timeout(time).unwrap();
            }
        }
    }

    fn end_writing(&self) {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write).unwrap(),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Write).unwrap(),
        }
    }
}

/// One direction of a stream. The byte at each offset is known.
struct Way {
    from: Arc<Stream>,
    to: Arc<Stream>,
    sent: AtomicUsize,
    received: AtomicUsize,
    has_ended: AtomicBool,
}

fn byte(at: usize) -> u8 {
    (at * 31 % 251) as u8
}

fn some(dice: &mut Dice) -> Duration {
    Duration::from_nanos(1 + dice.roll() % 100_000)
}

/// Returns the result of a call, unless its time was over.
fn in_time<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Err(error) if error.kind() == ErrorKind::TimedOut => None,
        done => Some(done.unwrap()),
    }
}

impl Way {
    fn new(from: &Arc<Stream>, to: &Arc<Stream>) -> Arc<Self> {
        let (sent, received, has_ended) = Default::default();
        Arc::new(Way { from: from.clone(), to: to.clone(), sent, received, has_ended })
    }

    /// Writes the bytes. The writer does not suspend between a call that has sent and the count, so
    /// no cancel comes between.
    fn write(&self, dice: &mut Dice, bytes: usize) {
        let most = if bytes > SMALL { 1 << 16 } else { 300 };
        while self.sent.load(Ordering::Relaxed) < bytes {
            let at = self.sent.load(Ordering::Relaxed);
            let part: Vec<u8> = (at..bytes.min(at + 1 + dice.below(most))).map(byte).collect();
            let write = || in_time(self.from.write(&part));
            let sent = match dice.one_in(4) {
                true => time::timeout(some(dice), write).unwrap_or(None),
                false => write(),
            };
            self.sent.fetch_add(sent.unwrap_or(0), Ordering::Relaxed);
        }
    }

    /// Reads until the end, or until a cancel ends it; it counts as [`write`](Self::write) does.
    fn read(&self, dice: &mut Dice) {
        let most = if dice.one_in(4) { 1 << 16 } else { 300 };
        let mut buffer = vec![0; 1 + dice.below(most)];
        while !self.has_ended.load(Ordering::Relaxed) {
            let len = 1 + dice.below(buffer.len());
            let buffer = &mut buffer[..len];
            let mut read = || in_time(self.to.read(buffer));
            let read = match dice.below(4) {
                0 => time::timeout(some(dice), read).unwrap_or(None),
                1 => in_time(self.to.readable()).and_then(|()| read()),
                _ => read(),
            };
            let Some(read) = read else { continue };
            let at = self.received.fetch_add(read, Ordering::Relaxed);
            assert!((at..).zip(&buffer[..read]).all(|(at, seen)| byte(at) == *seen), "at {at}");
            self.has_ended.fetch_or(read == 0, Ordering::Relaxed);
        }
    }
}

/// Runs both directions at once, and cancels some of the fibers.
pub(super) fn streams(dice: &mut Dice, round: &Arc<Round>) {
    let [one, other] = Stream::pair(dice, round).map(Arc::new);
    one.set_timeouts(dice.one_in(2).then(|| some(dice)));
    let ways = [Way::new(&one, &other), Way::new(&other, &one)];
    let bytes = if dice.one_in(8) { LARGE } else { SMALL };
    let spawn_writer = |dice: &mut Dice, way: &Arc<Way>| {
        let (way, from) = (way.clone(), way.from.clone());
        // The direction is also shut if the writer is cancelled before it starts.
        let end = OnDrop(move || from.end_writing());
        round.spawn(dice, move |dice, _| {
            let _end = end;
            way.write(dice, bytes);
        })
    };
    let writers = ways.each_ref().map(|way| spawn_writer(dice, way));
    let readers = ways.clone().map(|way| round.spawn(dice, move |dice, _| way.read(dice)));
    writers.iter().chain(&readers).filter(|_| dice.one_in(4)).for_each(|fiber| fiber.cancel());
    // Only one reader at a time: two would not know which of them read first.
    readers.into_iter().for_each(|reader| _ = came_to_its_end(reader));
    ways.iter().for_each(|way| way.read(dice));
    writers.into_iter().for_each(|writer| _ = came_to_its_end(writer));
    for way in &ways {
        let [sent, received] =
            [&way.sent, &way.received].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(sent, received, "bytes sent, and received");
    }
}

/// Runs several acceptors that time out, or are cancelled.
pub(super) fn acceptors(dice: &mut Dice, round: &Arc<Round>) {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let accepted = Arc::new(AtomicUsize::new(0));
    let accept = move |listener: &TcpListener, accepted: &AtomicUsize, time| {
        let done = time::timeout(time, || listener.accept().unwrap());
        accepted.fetch_add(usize::from(done.is_ok()), Ordering::Relaxed);
    };
    let acceptors: Vec<_> = (0..1 + dice.below(ACCEPTORS))
        .map(|_| {
            let (listener, accepted) = (listener.clone(), accepted.clone());
            round.spawn(dice, move |dice, _| {
                (0..10).for_each(|_| accept(&listener, &accepted, 10 * some(dice)));
            })
        })
        .collect();
    let connected: Vec<_> = (0..dice.below(20))
        .map(|_| {
            if dice.one_in(2) {
                time::sleep(some(dice));
            }
            TcpStream::connect(address).unwrap()
        })
        .collect();
    acceptors.iter().filter(|_| dice.one_in(3)).for_each(|fiber| fiber.cancel());
    acceptors.into_iter().for_each(|acceptor| _ = came_to_its_end(acceptor));
    while accepted.load(Ordering::Relaxed) < connected.len() {
        accept(&listener, &accepted, Duration::from_secs(1));
    }
    accept(&listener, &accepted, some(dice));
    assert_eq!(accepted.load(Ordering::Relaxed), connected.len(), "connections, and accepted");
}
