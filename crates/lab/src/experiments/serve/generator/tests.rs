use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use super::super::script::{BYTES, Language};
use super::*;

/// Sends back each message as changed by `respond`, until `respond` returns false or the client
/// ends.
fn serve(mut stream: UnixStream, mut respond: impl FnMut(&mut [u8]) -> bool) {
    let mut buffer = [0; BYTES];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        if !respond(&mut buffer[..read]) || stream.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

/// Calls `body` with a generator of `connections` connections to an echo. `spoil` may change the
/// echoed bytes, and ends the echo by returning false.
fn with_echo<R>(
    connections: usize,
    pipeline: usize,
    spoil: impl Fn(&mut [u8]) -> bool + Copy + Send,
    body: impl FnOnce(Generator<'_>) -> R,
) -> R {
    let scripts = Scripts::new(Language::Echo, pipeline);
    let mut generator = Generator::new(&scripts).unwrap();
    thread::scope(|scope| {
        for _ in 0..connections {
            let (client, server) = UnixStream::pair().unwrap();
            client.set_nonblocking(true).unwrap();
            generator.add(File::from(OwnedFd::from(client))).unwrap();
            scope.spawn(move || serve(server, spoil));
        }
        body(generator)
    })
}

const WINDOW: Duration = Duration::from_millis(20);

#[test]
fn a_closed_loop_counts_the_requests_of_all_connections() {
    for (connections, pipeline) in [(1, 1), (3, 16)] {
        let told = Cell::new(0);
        // A clock of the server that advances by 7 at each reading.
        let cpu_ns = || told.replace(told.get() + 7);
        let closed = with_echo(
            connections,
            pipeline,
            |_| true,
            |mut generator| {
                // On a busy machine, a window may pass before every connection is answered once.
                loop {
                    let closed = generator.closed(WINDOW, cpu_ns).unwrap();
                    assert_eq!(generator.outstanding, 0, "all was answered");
                    if closed.share > 0.0 {
                        return closed;
                    }
                }
            },
        );
        assert!(closed.requests > 0 && closed.requests.is_multiple_of(pipeline as u64));
        assert!(closed.elapsed_ns >= WINDOW.as_nanos() as u64);
        assert!((1..=closed.elapsed_ns).contains(&closed.busy_ns) && closed.server_cpu_ns == 7);
        assert!(closed.share <= 1.0);
        assert!(closed.share == 1.0 || connections > 1);
        assert!(closed.rate() <= closed.requests as f64 / WINDOW.as_secs_f64());
    }
}

#[test]
fn an_open_loop_asks_when_due_regardless_of_replies() {
    let rate = 10_000.0;
    let latencies =
        with_echo(3, 1, |_| true, |mut generator| generator.open(rate, WINDOW).unwrap().latencies);
    assert_eq!(latencies.total(), arrivals(WINDOW, rate, 3).count() as u64);
}

#[test]
fn a_queued_request_has_waited_since_its_due_time() {
    const EACH: Duration = Duration::from_millis(3);
    let slow = |_: &mut [u8]| {
        thread::sleep(EACH);
        true
    };
    let latencies =
        with_echo(1, 1, slow, |mut generator| generator.open(1000.0, WINDOW).unwrap().latencies);
    // The last script was due within the window, and is answered after all sleeps.
    let last = EACH * latencies.total() as u32 - WINDOW;
    assert!(latencies.total() > 10 && latencies.max().unwrap() >= last.as_nanos() as u64);
}

#[test]
fn a_wrong_answer_ends_the_measurement() {
    let spoil = |bytes: &mut [u8]| {
        bytes[bytes.len() - 1] ^= 1;
        true
    };
    let failure = with_echo(2, 1, spoil, |mut generator| generator.greet(0).unwrap_err());
    assert!(failure.to_string().starts_with("the server answered wrongly"), "{failure}");
}

#[test]
fn a_server_that_ends_is_told() {
    let failure =
        with_echo(2, 1, |_| false, |mut generator| generator.closed(WINDOW, || 0).unwrap_err());
    assert!(failure.to_string().starts_with("the server has ended a connection"), "{failure}");
}

#[test]
fn only_a_delay_longer_than_a_look_is_a_stall() {
    assert_eq!([1_000_000, 1_000_001].map(stall_ns), [0, 1_000_001]);
}

#[test]
fn patience_ends() {
    let mut patience = ServerTimeout::new(0);
    let long = PATIENCE.as_nanos() as u64;
    assert_eq!(patience.renew(long, false), Ok(()));
    assert!(patience.renew(long + 1, false).is_err());
    assert_eq!(patience.renew(long + 1, true), Ok(()));
}
