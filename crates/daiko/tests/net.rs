//! Sockets and pipes: all data that is sent arrives, each waiter is woken, and nothing is left
//! behind.

mod support;

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use daiko::net::{
    Async, ListenOptions, Selector, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener,
    UnixStream,
};
use daiko::sync::Event;
use daiko::sync::channel::oneshot;
use daiko::{BuildError, Builder, JoinHandle, Runtime, select};
use daiko_sys::selector::{self, SelectorKind};
use support::child::emulated::LinuxPart;
use support::child::in_child_well;
use support::seccomp::forbid;
use support::waits::waiting;
use support::{end, migratable, panic_of, until, workers, yield_until};

/// The duration of a wait that ends by its timeout.
const SHORT: Duration = Duration::from_millis(20);
/// A number of bytes that exceeds the buffers of any socket or pipe.
const MUCH: usize = 8 << 20;

/// Runs `body` in runtimes of one worker and of two, pinned and as a migratable fiber, with each
/// selector that the kernel grants.
fn everywhere(body: impl Fn() + Clone + Send + 'static) {
    for kind in kinds() {
        for count in 1..=2 {
            for builder in [Builder::new as fn() -> Builder, migratable] {
                let runtime =
                    Runtime::builder().workers(count).selector_kind(kind).build().unwrap();
                runtime.spawn_with(builder(), body.clone()).unwrap().join().unwrap();
                end(runtime);
            }
        }
    }
}

fn kinds() -> Vec<SelectorKind> {
    let all = [
        SelectorKind::Epoll,
        SelectorKind::Ring { deferred: false },
        SelectorKind::Ring { deferred: true },
    ];
    let is_granted = |kind: &SelectorKind| match selector::probe(*kind) {
        Ok(()) => true,
        Err(refused) => {
            println!("skipped: sockets by {kind}: {refused}");
            false
        }
    };
    all.into_iter().filter(is_granted).collect()
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn connected() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let connects = daiko::spawn(move || TcpStream::connect(address).unwrap());
    let (accepted, from) = listener.accept().unwrap();
    let connected = connects.join().unwrap();
    assert_eq!(connected.local_addr().unwrap(), from);
    (connected, accepted)
}

/// Echoes all bytes until the peer ends.
fn echo(mut stream: impl Read + Write) -> usize {
    let (mut bytes, mut all) = ([0; 4096], 0);
    loop {
        match stream.read(&mut bytes).unwrap() {
            0 => return all,
            len => stream.write_all(&bytes[..len]).unwrap(),
        }
        all += 1;
    }
}

/// Spawns a fiber that runs until it is cancelled; returns the number of its runs as well.
fn neighbour() -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counts = runs.clone();
    let body = move || {
        loop {
            counts.fetch_add(1, Ordering::Relaxed);
            daiko::yield_now();
        }
    };
    (daiko::spawn(body), runs)
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

#[test]
fn many_connections_are_answered_each_with_its_own() {
    everywhere(|| {
        let (listener, address) = listen();
        let server = daiko::spawn(move || {
            let handlers: Vec<_> = listener
                .incoming()
                .take(50)
                .map(|stream| daiko::spawn(move || echo(stream.unwrap())))
                .collect();
            handlers.into_iter().for_each(|handler| _ = handler.join().unwrap());
        });
        let clients: Vec<_> = (0..50_u32)
            .map(|client| {
                daiko::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    for round in 0..20 {
                        let question = [client.to_le_bytes(), u32::to_le_bytes(round)].concat();
                        let mut answer = [0; 8];
                        stream.write_all(&question).unwrap();
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(answer, question[..]);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

#[test]
fn a_writer_waits_for_a_slow_reader_and_nothing_is_lost() {
    everywhere(|| {
        let pairs: [Pair; 3] = [tcp_pair, unix_pair, pipe_pair];
        for pair in pairs {
            let (mut writer, mut reader) = pair();
            let written = Arc::new(AtomicUsize::new(0));
            let counts = written.clone();
            let writes = daiko::spawn(move || {
                for part in pattern(MUCH).chunks(64 << 10) {
                    writer.write_all(part).unwrap();
                    counts.fetch_add(part.len(), Ordering::Relaxed);
                }
            });
            // The writer has filled the buffers, and then waits.
            let mut before = usize::MAX;
            while written.load(Ordering::Relaxed) != before {
                before = written.load(Ordering::Relaxed);
                daiko::time::sleep(SHORT);
            }
            assert!(before < MUCH, "the kernel takes it all");
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert!(all == pattern(MUCH));
            writes.join().unwrap();
        }
    });
}

type Pair = fn() -> (Box<dyn Write + Send>, Box<dyn Read + Send>);

fn tcp_pair() -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
    let (a, b) = connected();
    (Box::new(a), Box::new(b))
}

fn unix_pair() -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
    let (a, b) = UnixStream::pair().unwrap();
    (Box::new(a), Box::new(b))
}

fn pipe_pair() -> (Box<dyn Write + Send>, Box<dyn Read + Send>) {
    let (reader, writer) = daiko::net::pipe().unwrap();
    (Box::new(writer), Box::new(reader))
}

#[test]
fn both_directions_go_on_at_the_same_time() {
    everywhere(|| {
        let (here, there) = connected();
        let echoes = daiko::spawn(move || echo(there));
        let (mut reads, mut writes) = here.into_split();
        let writer = daiko::spawn(move || writes.write_all(&pattern(MUCH)).unwrap());
        let mut all = Vec::new();
        // The half that writes shuts its direction down.
        reads.read_to_end(&mut all).unwrap();
        assert!(all == pattern(MUCH));
        writer.join().unwrap();
        assert!(echoes.join().unwrap() > 0);
    });
}

#[test]
fn halves_of_one_stream_are_put_together_again_and_no_others() {
    everywhere(|| {
        let (a, b) = UnixStream::pair().unwrap();
        let ((reads_a, writes_a), (reads_b, writes_b)) = (a.into_split(), b.into_split());
        let (reads_a, writes_b) = reads_a.reunite(writes_b).unwrap_err();
        let (mut a, b) = (reads_a.reunite(writes_a).unwrap(), reads_b.reunite(writes_b).unwrap());
        drop(b);
        assert_eq!(a.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn a_read_ends_in_time_and_takes_nothing() {
    everywhere(|| {
        let (mut here, mut there) = connected();
        here.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(here.read_timeout(), Some(SHORT));
        assert_eq!(here.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(here.peek(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
        here.set_read_timeout(None).unwrap();
        here.set_read_deadline(Some(Instant::now() + SHORT));
        assert_eq!(here.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
        // The deadline has passed, but bytes that have arrived are still read.
        there.write_all(b"late").unwrap();
        let reader = here.as_fd().try_clone_to_owned().unwrap();
        until("four bytes", || readable_bytes(&reader) == 4);
        let mut bytes = [0; 4];
        here.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"late");
        assert_eq!(
            here.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

/// Returns the number of bytes that can be read, as the kernel counts them.
fn readable_bytes(fd: &impl AsFd) -> i32 {
    use std::os::fd::AsRawFd;
    let mut bytes = 0;
    // SAFETY: the request stores a number to a live local.
    unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::FIONREAD, &mut bytes) };
    bytes
}

#[test]
fn a_wait_until_readable_takes_nothing() {
    everywhere(|| {
        let (here, mut there) = connected();
        here.set_read_timeout(Some(SHORT)).unwrap();
        assert_eq!(here.readable().unwrap_err().kind(), ErrorKind::TimedOut);
        here.set_read_timeout(None).unwrap();
        let here = Arc::new(here);
        for _ in 0..10 {
            let waits = here.clone();
            let waiter = daiko::spawn(move || waits.readable().unwrap());
            there.write_all(b"hop").unwrap();
            waiter.join().unwrap();
            here.readable().unwrap();
            let mut bytes = [0; 8];
            assert_eq!((&*here).read(&mut bytes).unwrap(), 3);
        }
        here.writable().unwrap();
        here.set_write_timeout(Some(SHORT)).unwrap();
        while (&*here).write(&pattern(1 << 16)).is_ok() {}
        assert_eq!(here.writable().unwrap_err().kind(), ErrorKind::TimedOut);
        drop(there);
        here.readable().unwrap();
    });
}

#[test]
fn a_write_ends_in_time() {
    everywhere(|| {
        let (here, _there) = connected();
        here.set_write_timeout(Some(SHORT)).unwrap();
        let error = (&here).write_all(&pattern(MUCH)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_wait_that_is_cancelled_leaves_the_stream_as_it_was() {
    everywhere(|| {
        let (here, mut there) = connected();
        let here = Arc::new(here);
        let reading = here.clone();
        let reader = daiko::spawn(move || (&*reading).read(&mut [0; 8]).map(drop));
        daiko::time::sleep(SHORT);
        reader.cancel();
        assert!(reader.join().is_err());
        there.write_all(b"hop").unwrap();
        let mut bytes = [0; 3];
        (&*here).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"hop");
    });
}

#[test]
fn an_acceptor_that_is_cancelled_or_timed_out_leaves_its_connection_to_the_next() {
    everywhere(|| {
        let (listener, address) = listen();
        let listener = Arc::new(listener);
        let acceptor = || {
            let listener = listener.clone();
            daiko::spawn(move || listener.accept().map(drop).unwrap())
        };
        let (cancelled, others): (Vec<_>, Vec<_>) =
            (0..5).map(|_| (acceptor(), acceptor())).unzip();
        daiko::time::sleep(SHORT);
        let connect = move |count| -> Vec<_> {
            (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
        };
        let connects = daiko::spawn(move || connect(5));
        cancelled.iter().for_each(JoinHandle::cancel);
        let _connected = connects.join().unwrap();
        // A cancelled acceptor may have been faster. The connections that it took are missing for
        // the rest.
        let taken = cancelled.into_iter().filter_map(|acceptor| acceptor.join().ok()).count();
        let _as_many_more = connect(taken);
        others.into_iter().for_each(|acceptor| acceptor.join().unwrap());
        let late = daiko::time::timeout(SHORT, || listener.accept().map(drop));
        assert!(late.is_err(), "there were five for the rest");
    });
}

#[test]
fn the_end_of_one_direction_is_read_and_the_other_goes_on() {
    everywhere(|| {
        let (mut here, mut there) = connected();
        here.write_all(b"question").unwrap();
        here.shutdown(Shutdown::Write).unwrap();
        let mut question = Vec::new();
        there.read_to_end(&mut question).unwrap();
        assert_eq!(question, b"question");
        there.write_all(b"answer").unwrap();
        drop(there);
        let mut answer = Vec::new();
        here.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"answer");
    });
}

#[test]
fn a_local_shutdown_ends_the_waits_for_a_stream() {
    everywhere(|| {
        let (here, _there) = connected();
        let here = Arc::new(here);
        let reading = here.clone();
        let reader = daiko::spawn(move || (&*reading).read(&mut [0; 8]).unwrap());
        daiko::time::sleep(SHORT);
        here.shutdown(Shutdown::Both).unwrap();
        assert_eq!(reader.join().unwrap(), 0);
    });
}

#[test]
fn a_peer_that_resets_or_is_gone_is_an_error() {
    everywhere(|| {
        let (mut here, there) = connected();
        // If bytes are unread, the kernel resets the connection.
        here.write_all(b"unread").unwrap();
        until("the bytes", || readable_bytes(&there) == 6);
        drop(there);
        assert_eq!(here.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        let (mut here, there) = UnixStream::pair().unwrap();
        drop(there);
        assert_eq!(here.write(b"hop").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_writer_that_waits_learns_that_its_peer_has_gone() {
    everywhere(|| {
        let (mut here, there) = connected();
        let writer = daiko::spawn(move || here.write_all(&pattern(MUCH)).unwrap_err().kind());
        daiko::time::sleep(SHORT);
        drop(there);
        let gone = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(gone.contains(&writer.join().unwrap()));
    });
}

#[test]
fn a_missing_listener_and_a_taken_address_are_errors() {
    everywhere(|| {
        let (listener, address) = listen();
        let taken = TcpListener::bind(address).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        let shared = ListenOptions::new().reuse_port(true);
        assert_eq!(shared.tcp(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let foreign = TcpListener::bind("203.0.113.1:0").unwrap_err();
        assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
        assert_eq!(TcpStream::connect("no port").unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_port_is_shared_by_listeners_with_the_option() {
    everywhere(|| {
        let first = ListenOptions::new().reuse_port(true).tcp("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let second = ListenOptions::new().reuse_port(true).tcp(address).unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let acceptors = [first, second].map(|listener| {
            let accepted = accepted.clone();
            daiko::spawn(move || {
                loop {
                    drop(listener.accept().unwrap());
                    accepted.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        (0..20).for_each(|_| drop(TcpStream::connect(address).unwrap()));
        while accepted.load(Ordering::Relaxed) < 20 {
            daiko::yield_now();
        }
        acceptors.iter().for_each(JoinHandle::cancel);
        acceptors.into_iter().for_each(|acceptor| assert!(acceptor.join().is_err()));
    });
}

#[test]
fn connections_are_spread_over_all_workers() {
    let runtime = Runtime::builder().workers(3).all_active().build().unwrap();
    let (listener, address) = runtime.run(listen);
    let served = Arc::new(Mutex::new(HashMap::<u32, usize>::new()));
    let by_worker = served.clone();
    let serve = move |stream: io::Result<TcpStream>| {
        let by_worker = by_worker.clone();
        let counts_and_echoes = move || {
            *by_worker.lock().unwrap().entry(daiko_sys::thread::id()).or_default() += 1;
            echo(stream.unwrap())
        };
        Builder::new().spread().spawn(counts_and_echoes).unwrap()
    };
    let server = runtime.spawn(move || {
        let serve: Vec<_> = listener.incoming().take(60).map(serve).collect();
        serve.into_iter().for_each(|serves| assert_eq!(serves.join().unwrap(), 1));
    });
    let clients: Vec<_> = (0..60).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    for mut client in &clients {
        client.write_all(b"hop").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
    }
    let served: Vec<usize> = served.lock().unwrap().values().copied().collect();
    assert_eq!((served.len(), served.iter().sum()), (3, 60));
    // The acceptor's worker has one fiber more. A starting fiber is counted twice for a moment.
    assert!(served.iter().all(|count| (17..=23).contains(count)), "{served:?}");
    drop(clients);
    server.join().unwrap();
    end(runtime);
}

#[test]
fn a_connect_ends_in_time() {
    everywhere(|| {
        // The queue of the listener is full, so that the kernel answers no client.
        let listener = ListenOptions::new().backlog(0).tcp("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connected = Vec::new();
        let error = loop {
            match TcpStream::connect_timeout(&address, SHORT) {
                Ok(stream) => connected.push(stream),
                Err(error) => break error,
            }
            assert!(connected.len() < 100, "the kernel keeps any number waiting");
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_connect_at_a_path_waits_for_room() {
    everywhere(|| {
        let folder = tempfile();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let path = folder.join("socket");
        let connects: Vec<_> = (0..10)
            .map(|_| {
                let path = path.clone();
                daiko::spawn(move || UnixStream::connect(path).map(echo).unwrap())
            })
            .collect();
        for _ in 0..10 {
            let mut stream = listener.accept().unwrap();
            stream.write_all(b"hop").unwrap();
            stream.read_exact(&mut [0; 3]).unwrap();
        }
        connects.into_iter().for_each(|connect| assert!(connect.join().unwrap() > 0));
        std::fs::remove_dir_all(folder).unwrap();
    });
}

fn tempfile() -> std::path::PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("daiko-net-{}-{number}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    folder
}

#[test]
fn messages_keep_their_bounds_and_wait_for_the_receiver() {
    everywhere(|| {
        let (here, there) = UnixDatagram::pair().unwrap();
        let sends = daiko::spawn(move || {
            for number in 0..1000_u32 {
                here.send(&number.to_le_bytes()).unwrap();
            }
        });
        daiko::time::sleep(SHORT);
        let mut bytes = [0; 64];
        for number in 0..1000_u32 {
            assert_eq!(there.recv(&mut bytes).unwrap(), 4);
            assert_eq!(bytes[..4], number.to_le_bytes());
        }
        sends.join().unwrap();
        there.set_read_timeout(Some(SHORT)).unwrap();
        let gone = there.recv(&mut bytes);
        assert!(matches!(gone, Ok(0)) || gone.unwrap_err().kind() == ErrorKind::TimedOut);
    });
}

#[test]
fn a_message_to_a_socket_that_is_full_waits_for_room_there() {
    everywhere(|| {
        let folder = tempfile();
        let there = UnixDatagram::bind(folder.join("socket")).unwrap();
        let here = UnixDatagram::unbound().unwrap();
        let path = folder.join("socket");
        let sends = daiko::spawn(move || {
            (0..1000).for_each(|_| _ = here.send_to(b"hop", &path).unwrap());
            here.set_write_timeout(Some(SHORT)).unwrap();
            while here.send_to(b"hop", &path).is_ok() {}
            here.send_to(b"hop", &path).unwrap_err().kind()
        });
        (0..1000).for_each(|_| assert_eq!(there.recv(&mut [0; 8]).unwrap(), 3));
        assert_eq!(sends.join().unwrap(), ErrorKind::TimedOut);
        std::fs::remove_dir_all(folder).unwrap();
    });
}

#[test]
fn several_receivers_at_one_socket_get_all_messages_between_them() {
    everywhere(|| {
        let (here, there) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        here.connect(there.local_addr().unwrap()).unwrap();
        let there = Arc::new(there);
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let there = there.clone();
                daiko::spawn(move || {
                    (0..5).map(|_| there.recv(&mut [0; 8]).unwrap()).sum::<usize>()
                })
            })
            .collect();
        daiko::time::sleep(SHORT);
        // Several datagrams arrive at once: one edge stands for all of them.
        (0..20).for_each(|_| _ = here.send(b"hop").unwrap());
        let received: usize = receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum();
        assert_eq!(received, 60);
    });
}

/// One edge is reported, to the reader that has waited longest.
#[test]
fn a_partial_read_wakes_the_next_reader() {
    for kind in kinds() {
        let runtime = Runtime::builder().workers(1).selector_kind(kind).build().unwrap();
        let test = || {
            let (here, mut there) = connected();
            let here = Arc::new(here);
            let readers = [(); 3].map(|()| {
                let here = here.clone();
                waiting(move || (&*here).read(&mut [0]).unwrap())
            });
            there.write_all(b"hop").unwrap();
            for reader in readers {
                yield_until("its byte", || reader.is_finished());
                assert_eq!(reader.join().unwrap(), 1);
            }
        };
        runtime.spawn_with(Builder::new().on(0), test).unwrap().join().unwrap();
        end(runtime);
    }
}

#[test]
fn a_fiber_that_never_waits_lets_others_run() {
    for kind in kinds() {
        let runtime = Runtime::builder().workers(1).selector_kind(kind).build().unwrap();
        runtime.run(|| {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let (other, runs) = neighbour();
            for _ in 0..1000 {
                here.write_all(b"hop").unwrap();
                there.read_exact(&mut [0; 3]).unwrap();
            }
            assert!(runs.load(Ordering::Relaxed) > 10);
            daiko::no_suspend(|| {
                for _ in 0..1000 {
                    here.write_all(b"hop").unwrap();
                    there.read_exact(&mut [0; 3]).unwrap();
                }
            });
            other.cancel();
            assert!(other.join().is_err());
        });
        end(runtime);
    }
}

#[test]
fn a_send_without_a_peer_is_an_error() {
    everywhere(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(socket.send(b"hop").is_err());
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        socket.connect(closed).unwrap();
        socket.send(b"hop").unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn parts_are_written_and_read_at_once() {
    everywhere(|| {
        let (mut here, mut there) = connected();
        let parts = [IoSlice::new(b"hop"), IoSlice::new(b" by hop")];
        assert_eq!(here.write_vectored(&parts).unwrap(), 10);
        let (mut a, mut b) = ([0; 4], [0; 6]);
        until("ten bytes", || readable_bytes(&there) == 10);
        let mut parts = [io::IoSliceMut::new(&mut a), io::IoSliceMut::new(&mut b)];
        assert_eq!(there.read_vectored(&mut parts).unwrap(), 10);
        assert_eq!((&a, &b), (b"hop ", b"by hop"));
    });
}

#[test]
fn threads_that_are_no_fibers_wait_as_well() {
    let runtime = workers(1);
    let (listener, address) = listen();
    let server = runtime.spawn(move || echo(listener.accept().unwrap().0));
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..100 {
        stream.write_all(b"hop").unwrap();
        stream.read_exact(&mut [0; 3]).unwrap();
    }
    stream.set_read_timeout(Some(SHORT)).unwrap();
    assert_eq!(stream.read(&mut [0; 3]).unwrap_err().kind(), ErrorKind::TimedOut);
    drop(stream);
    assert_eq!(server.join().unwrap(), 100);
    end(runtime);
}

#[test]
fn a_stream_goes_from_fiber_to_fiber_from_worker_to_worker_and_to_a_thread() {
    let runtime = workers(2);
    let (a, b) = UnixStream::pair().unwrap();
    let echoes = runtime.spawn_with(Builder::new().on(0), move || echo(b)).unwrap();
    let mut stream = Some(a);
    for round in 0..100 {
        let mut taken = stream.take().unwrap();
        let body = move || {
            taken.write_all(b"hop").unwrap();
            taken.read_exact(&mut [0; 3]).unwrap();
            taken
        };
        stream = Some(match round % 3 {
            2 => body(),
            on => runtime.spawn_with(Builder::new().on(on), body).unwrap().join().unwrap(),
        });
    }
    drop(stream);
    assert_eq!(echoes.join().unwrap(), 100);
    end(runtime);
}

#[test]
fn a_stream_outlives_its_runtime_and_goes_on_in_another() {
    let (a, b) = UnixStream::pair().unwrap();
    let first = workers(1);
    let (a, b) = first
        .spawn(move || {
            let (mut a, mut b) = (a, b);
            b.set_read_timeout(Some(SHORT)).unwrap();
            assert!(b.read(&mut [0; 1]).is_err());
            b.set_read_timeout(None).unwrap();
            a.write_all(b"1").unwrap();
            b.read_exact(&mut [0; 1]).unwrap();
            (a, b)
        })
        .join()
        .unwrap();
    end(first);
    let second = workers(1);
    let echoes = second.spawn(move || echo(b));
    let asks = second.spawn(move || {
        let mut a = a;
        a.write_all(b"2").unwrap();
        a.read_exact(&mut [0; 1]).unwrap();
    });
    asks.join().unwrap();
    assert_eq!(echoes.join().unwrap(), 1);
    end(second);
}

#[test]
fn fibers_that_wait_for_sockets_are_unwound_at_the_end() {
    let runtime = workers(2);
    let (listener, _) = listen();
    let listener = Arc::new(listener);
    for _ in 0..10 {
        let listener = listener.clone();
        runtime.spawn(move || listener.accept().map(drop));
    }
    runtime.run(|| daiko::time::sleep(SHORT));
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (10, 0));
}

#[test]
fn a_worker_that_sleeps_for_its_sockets_hears_all_else() {
    let runtime = workers(1);
    let (a, b) = UnixStream::pair().unwrap();
    let reader = runtime.spawn(move || echo(b));
    for _ in 0..20 {
        // The worker is parked by now, or about to be.
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(runtime.spawn(|| 7).join().unwrap(), 7);
    }
    let sleeper = runtime.spawn(|| daiko::time::sleep(SHORT));
    sleeper.join().unwrap();
    drop(a);
    assert_eq!(reader.join().unwrap(), 0);
    end(runtime);
}

#[test]
fn no_descriptor_is_kept() {
    in_child_well("no_descriptor_is_kept", || {
        let runtime = workers(2);
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let round = || {
            runtime.run(|| {
                let (here, there) = connected();
                let echoes = daiko::spawn(move || echo(there));
                let clone = here.try_clone().unwrap();
                (&clone).write_all(b"hop").unwrap();
                (&here).read_exact(&mut [0; 3]).unwrap();
                drop(clone);
                let here = TcpStream::from_std(here.into_std().unwrap()).unwrap();
                here.set_read_timeout(Some(SHORT)).unwrap();
                assert!((&here).read(&mut [0; 1]).is_err());
                drop(here);
                assert_eq!(echoes.join().unwrap(), 1);
            });
        };
        // Both workers have opened their own descriptors.
        (0..20).for_each(|_| round());
        let before = open();
        (0..20).for_each(|_| round());
        assert!(open() <= before + 2, "{} descriptors, {before} before", open());
        end(runtime);
    });
}

#[test]
fn a_server_without_descriptors_stays_up_lets_others_run_and_goes_on() {
    in_child_well("a_server_without_descriptors_stays_up_lets_others_run_and_goes_on", || {
        let runtime = workers(1);
        runtime.run(|| {
            let (listener, address) = listen();
            // The worker's selector has its descriptors by now.
            drop((TcpStream::connect(address).unwrap(), listener.accept().unwrap()));
            daiko::time::timeout(SHORT, || listener.accept().map(drop)).unwrap_err();
            let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
            let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
            // SAFETY: the limit is a live local.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
            let mut fillers: Vec<_> =
                std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
            let (other, runs) = neighbour();
            for _ in 0..5 {
                let before = runs.load(Ordering::Relaxed);
                let error = listener.accept().unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                assert!(runs.load(Ordering::Relaxed) > before, "no other fiber has run");
            }
            other.cancel();
            fillers.truncate(fillers.len() - clients.len());
            let accepted: Vec<_> = clients.iter().map(|_| listener.accept().unwrap()).collect();
            assert_eq!(accepted.len(), 3);
            assert!(other.join().is_err());
        });
        end(runtime);
    });
}

#[test]
fn where_io_uring_is_forbidden_sockets_are_waited_for_by_epoll_unless_it_was_asked_for() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    let name =
        "where_io_uring_is_forbidden_sockets_are_waited_for_by_epoll_unless_it_was_asked_for";
    in_child_well(name, || {
        let two = || Runtime::builder().workers(2);
        let runtime = two().build().unwrap();
        let echoes = || {
            let (mut here, there) = connected();
            let echoes = daiko::spawn(move || echo(there));
            here.write_all(b"hop").unwrap();
            here.read_exact(&mut [0; 3]).unwrap();
            drop(here);
            echoes.join().unwrap()
        };
        let forbids = || forbid(libc::SYS_io_uring_setup, libc::EPERM);
        let on = |worker| Builder::new().on(worker);
        assert_eq!(runtime.spawn_with(on(0), echoes).unwrap().join().unwrap(), 1);
        // A filter for the second worker alone.
        runtime.spawn_with(on(1), forbids).unwrap().join().unwrap();
        assert_eq!(runtime.spawn_with(on(1), echoes).unwrap().join().unwrap(), 1);
        end(runtime);

        forbids();
        let runtime = two().build().unwrap();
        assert_eq!(runtime.run(echoes), 1);
        end(runtime);
        let error = two().selector(Selector::IoUring).build().unwrap_err();
        assert!(matches!(error, BuildError::Selector(_)));
        assert!(error.to_string().contains("seccomp") && !error.to_string().contains('\n'));
        end(two().selector(Selector::Epoll).build().unwrap());
    });
}

#[test]
fn waits_by_io_uring_continue_by_epoll_when_it_is_forbidden() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    in_child_well("waits_by_io_uring_continue_by_epoll_when_it_is_forbidden", || {
        for kind in kinds() {
            // A filter belongs to its thread, and each runtime has threads of its own.
            let runtime = Runtime::builder().workers(1).selector_kind(kind).build().unwrap();
            let waits = runtime.run(|| {
                let (listener, _) = listen();
                let waits = daiko::spawn(move || listener.accept().map(drop));
                let (mut here, there) = connected();
                let echoes = daiko::spawn(move || echo(there));
                daiko::time::sleep(SHORT);
                forbid(libc::SYS_io_uring_enter, libc::EPERM);
                for _ in 0..10 {
                    here.write_all(b"hop").unwrap();
                    here.read_exact(&mut [0; 3]).unwrap();
                }
                drop(here);
                assert_eq!(echoes.join().unwrap(), 10);
                waits
            });
            let parks = || runtime.counters()[0].parks;
            let before = parks();
            thread::sleep(SHORT);
            assert!(parks() < before + 50, "it looks again and again");
            waits.cancel();
            assert!(waits.join().is_err());
            end(runtime);
        }
    });
}

#[test]
fn descriptors_that_cannot_be_waited_for_are_errors() {
    everywhere(|| {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(Async::new(file).unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_name_is_looked_up_while_others_run() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let addresses: Vec<_> = daiko::net::lookup_host("localhost:80").unwrap().collect();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        assert!(!addresses.is_empty());
        assert!(
            daiko::net::lookup_host(("", 1)).is_err() || daiko::net::lookup_host("x y:1").is_err()
        );
    });
    end(runtime);
}

#[test]
fn a_select_serves_connections_and_messages_until_it_is_told_to_stop() {
    const EACH: usize = 10;
    everywhere(|| {
        let (listener, address) = listen();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = datagrams.local_addr().unwrap();
        let (stop, stopped) = oneshot();
        let server = daiko::spawn(move || {
            let mut served = [0; 2];
            loop {
                select! {
                    accept(listener) -> accepted => {
                        served[0] += 1;
                        accepted.unwrap().0.write_all(b"hop").unwrap();
                    }
                    readable(datagrams) -> result => {
                        result.unwrap();
                        let (len, from) = datagrams.recv_from(&mut [0; 8]).unwrap();
                        served[1] += len;
                        datagrams.send_to(b"x", from).unwrap();
                    }
                    recv(stopped) -> word => return word.map(|()| served).unwrap(),
                }
            }
        });
        let asks = daiko::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..EACH {
                socket.send_to(b"abc", to).unwrap();
                assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 1);
            }
        });
        for _ in 0..EACH {
            let mut answer = String::new();
            TcpStream::connect(address).unwrap().read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "hop");
        }
        asks.join().unwrap();
        stop.send(()).unwrap();
        assert_eq!(server.join().unwrap(), [EACH, 3 * EACH]);
    });
}

#[test]
fn a_select_waits_for_room_to_write() {
    everywhere(|| {
        let (here, there) = connected();
        here.set_write_timeout(Some(SHORT)).unwrap();
        while (&here).write(&pattern(1 << 16)).is_ok() {}
        select! {
            writable(here) -> _ => panic!("there is no room"),
            default => {}
        }
        let drains = daiko::spawn(move || {
            let mut all = Vec::new();
            (&there).read_to_end(&mut all).unwrap();
        });
        let event = Event::manual();
        select! {
            writable(here) -> result => result.unwrap(),
            wait(event) => panic!("it is not set"),
        }
        drop(here);
        drains.join().unwrap();
    });
}

#[test]
fn what_one_select_finds_readable_is_readable_for_all() {
    everywhere(|| {
        let (here, mut there) = connected();
        let (here, event) = (Arc::new(here), Arc::new(Event::manual()));
        let selects = || {
            let (here, event) = (here.clone(), event.clone());
            daiko::spawn(move || {
                select! {
                    readable(here) -> result => result.unwrap(),
                    wait(event) => panic!("it is not set"),
                }
            })
        };
        let (cancelled, rest): (Vec<_>, Vec<_>) = (0..4).map(|_| (selects(), selects())).unzip();
        let waits = here.clone();
        let waits = daiko::spawn(move || waits.readable().unwrap());
        daiko::yield_now();
        cancelled.iter().for_each(JoinHandle::cancel);
        there.write_all(b"hop").unwrap();
        rest.into_iter().for_each(|selects| selects.join().unwrap());
        waits.join().unwrap();
        cancelled.into_iter().for_each(|selects| drop(selects.join()));
    });
}

#[test]
fn bytes_of_two_streams_race_with_events_and_timeouts() {
    const BYTES: usize = 200;
    everywhere(|| {
        let [(here, there), (here_too, there_too)] = [connected(), connected()];
        let event = Arc::new(Event::auto());
        let sets = event.clone();
        let writers = [there, there_too].map(|mut stream| {
            let sets = sets.clone();
            daiko::spawn(move || {
                for byte in pattern(BYTES) {
                    stream.write_all(&[byte]).unwrap();
                    sets.set();
                    (0..byte % 4).for_each(|_| daiko::yield_now());
                }
            })
        });
        let (mut received, mut bytes, mut rounds) = ([Vec::<u8>::new(), Vec::new()], [0; 16], 0);
        while received.iter().any(|received| received.len() < BYTES) {
            rounds += 1;
            let patience = Duration::from_nanos(if rounds % 3 == 0 { 1 } else { u64::MAX });
            let which = select! {
                readable(here) -> result => result.map(|()| 0).unwrap(),
                readable(here_too) -> result => result.map(|()| 1).unwrap(),
                wait(event) => continue,
                default(patience) => continue,
            };
            let len = [&here, &here_too][which].read(&mut bytes).unwrap();
            received[which].extend(&bytes[..len]);
            if len == 0 {
                daiko::yield_now();
            }
        }
        assert_eq!(received, [pattern(BYTES), pattern(BYTES)]);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn a_thread_that_would_wait_for_a_socket_in_a_select_panics() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(socket.local_addr().unwrap()).unwrap();
    let event = Event::manual();
    let message = panic_of(|| {
        select! {
            readable(socket) -> _ => {}
            wait(event) => {}
        }
    });
    assert!(message.contains("for fibers"), "{message}");
    socket.send(b"x").unwrap();
    let is_readable = select! {
        readable(socket) -> result => result.is_ok(),
        wait(event) => false,
    };
    assert!(is_readable, "without a wait");
}
