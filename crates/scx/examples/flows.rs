//! Traffic for tests of the scheduler: many connections, each with a thread that sleeps until a
//! message arrives.
//!
//! `flows receive PORT FLOWS` runs in the guest, `flows send ADDRESS:PORT FLOWS PER_SECOND` outside
//! of it. Messages go in trains to random flows at random intervals, until the sender is killed or
//! the receiver is gone. The rate falls while the receiver is behind: a guest that is busy with
//! packets only would produce no more output.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    env,
    error::Error,
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use socket2::SockRef;

const MESSAGE: [u8; 512] = [7; 512];
/// The receiver's message once all flows are connected.
const GO: [u8; 1] = [1];
/// Bytes that the kernel buffers for each flow: about a dozen messages.
const BUFFER: usize = 8192;
/// Number of messages in a train, which resembles a stream with a full window.
const TRAIN: u32 = 32;
/// Mean interval between two messages of a train.
const GAP_S: f64 = 1e-3;
/// Time limit for the start of the receiver.
const CONNECT_WITHIN: Duration = Duration::from_secs(300);

/// The next event of the sender.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Send {
    /// The beginning of a train of a random flow.
    Begin,
    Next {
        flow: usize,
        left: u32,
    },
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", port, flows] => receive(port.parse()?, flows.parse()?),
        ["send", to, flows, per_second] => send(to, flows.parse()?, per_second.parse()?),
        _ => Err("flows receive PORT FLOWS | flows send ADDRESS:PORT FLOWS PER_SECOND".into()),
    }
}

fn receive(port: u16, flows: usize) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(("0.0.0.0", port))?;
    println!("listening");
    let mut threads = Vec::new();
    let flows = listener.incoming().take(flows).collect::<Result<Vec<TcpStream>, _>>()?;
    for mut flow in flows {
        flow.write_all(&GO)?;
        let thread = thread::Builder::new().stack_size(64 << 10).spawn(move || {
            let mut buffer = [0; 4096];
            while flow.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        })?;
        threads.push(thread);
    }
    println!("connected");
    for thread in threads {
        thread.join().map_err(|_| "a receiver panicked")?;
    }
    Ok(())
}

fn send(to: &str, flows: usize, most_per_second: f64) -> Result<(), Box<dyn Error>> {
    let mut connections = Vec::new();
    for _ in 0..flows {
        connections.push(connect(to)?);
    }
    for flow in &mut connections {
        flow.read_exact(&mut [0; GO.len()])?;
        flow.set_nodelay(true)?;
        flow.set_nonblocking(true)?;
        SockRef::from(&*flow).set_send_buffer_size(BUFFER)?;
    }
    let (mut random, mut pace) = (Random(0x9e37_79b9_7f4a_7c15), Pace::new(most_per_second));
    let mut schedule = BinaryHeap::from([(Reverse(Instant::now()), Send::Begin)]);
    while let Some((Reverse(time), event)) = schedule.pop() {
        thread::sleep(time.saturating_duration_since(Instant::now()));
        let (flow, left) = match event {
            Send::Begin => {
                let next = time + random.exponential(f64::from(TRAIN) / pace.per_second);
                // A sender that is behind does not catch up.
                schedule.push((Reverse(next.max(Instant::now())), Send::Begin));
                (random.below(flows), TRAIN)
            }
            Send::Next { flow, left } => (flow, left),
        };
        match connections[flow].write(&MESSAGE) {
            Ok(_) => pace.count(true),
            // A receiver that is behind misses a message.
            Err(error) if error.kind() == ErrorKind::WouldBlock => pace.count(false),
            Err(_) => return Ok(()),
        }
        if left > 1 {
            let next = time + random.exponential(GAP_S);
            schedule.push((Reverse(next), Send::Next { flow, left: left - 1 }));
        }
    }
    Ok(())
}

/// The rate of messages, adapted to the receiver.
struct Pace {
    most: f64,
    per_second: f64,
    sent: u32,
    missed: u32,
    since: Instant,
}

impl Pace {
    fn new(most: f64) -> Self {
        Pace { most, per_second: most, sent: 0, missed: 0, since: Instant::now() }
    }

    /// Counts a message, and adapts the rate a few times per second.
    fn count(&mut self, was_sent: bool) {
        *(if was_sent { &mut self.sent } else { &mut self.missed }) += 1;
        if self.since.elapsed() >= Duration::from_millis(200) {
            let is_behind = self.missed * 2 > self.sent;
            let factor = if is_behind { 0.8 } else { 1.1 };
            self.per_second = (self.per_second * factor).clamp(self.most / 50.0, self.most);
            (self.sent, self.missed, self.since) = (0, 0, Instant::now());
        }
    }
}

/// Connects once the receiver listens, that is, once the guest has booted.
fn connect(to: &str) -> Result<TcpStream, Box<dyn Error>> {
    let (to, begin) = (to.parse()?, Instant::now());
    loop {
        // A short timeout: the receiver may appear at any moment, but the kernel's retries would
        // become ever rarer.
        match TcpStream::connect_timeout(&to, Duration::from_secs(2)) {
            Ok(flow) => return Ok(flow),
            Err(error) if begin.elapsed() > CONNECT_WITHIN => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Marsaglia's xorshift with a constant seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        Duration::from_secs_f64(-self.fraction().ln() * mean)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// A random number above 0 and at most 1.
    fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
