//! Descriptors that any worker opens are waited for in all of them.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daiko::net::{TcpListener, TcpStream};

use super::{can_trace, cross, end, processes, run_on_first, run_on_two};
use crate::End;

super::cases! {
    connections_are_served_by_all_workers End::Well,
    a_stream_is_waited_for_in_any_process End::Well,
    a_wait_for_a_socket_survives_the_worker_that_looks_for_it End::Well,
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes).unwrap() {
            0 => return,
            len => stream.write_all(&bytes[..len]).unwrap(),
        }
    }
}

fn ask(stream: &mut TcpStream) {
    stream.write_all(b"hop").unwrap();
    let mut answer = [0; 3];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hop");
}

fn connections_are_served_by_all_workers() {
    run_on_two(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = daiko::spawn(move || {
            let streams = listener.incoming().take(20);
            let fibers: Vec<_> =
                streams.map(|stream| daiko::spawn(move || echo(stream.unwrap()))).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        let clients: Vec<_> = (0..20)
            .map(|_| {
                daiko::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    (0..50).for_each(|_| ask(&mut stream));
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    });
}

fn a_stream_is_waited_for_in_any_process() {
    run_on_first(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = daiko::spawn(move || echo(listener.accept().unwrap().0));
        let mut stream = TcpStream::connect(address).unwrap();
        ask(&mut stream);
        cross(0);
        ask(&mut stream);
        drop(stream);
        server.join().unwrap();
    });
}

fn a_wait_for_a_socket_survives_the_worker_that_looks_for_it() {
    if !can_trace("a wait for a socket survives the worker that looks for it") {
        return;
    }
    let runtime = processes(1).build().unwrap();
    let begun = Arc::new(AtomicBool::new(false));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let (seen, fd) = (begun.clone(), std::os::fd::OwnedFd::from(accepted));
    let server = runtime.spawn(move || {
        let stream = TcpStream::from_std(fd.into()).unwrap();
        seen.store(true, Ordering::Release);
        echo(stream);
    });
    while !begun.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    for _ in 0..5 {
        client.write_all(b"hop").unwrap();
        client.read_exact(&mut [0; 3]).unwrap();
        let process = runtime.spawn(std::process::id).join().unwrap();
        // SAFETY: it takes plain integers. The worker is in its selector, or on the way there.
        assert_eq!(unsafe { libc::kill(process as i32, libc::SIGKILL) }, 0);
    }
    client.write_all(b"hop").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    drop(client);
    server.join().unwrap();
    end(runtime);
}
