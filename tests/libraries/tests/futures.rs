//! Futures of tokio in fibers, and fibers that tasks of tokio await.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use daiko::future::with_tokio;
use daiko::net::TcpListener;
use daiko::{Builder, Runtime, block_on};
use daiko_libraries::{FIBERS, everywhere, hundred, hundred_in};
use tokio::runtime::Handle;

const MILLISECOND: Duration = Duration::from_millis(1);

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn timers_tasks_and_channels_of_tokio_are_awaited_in_a_context_per_poll() {
    let tokio = tokio();
    let handle = tokio.handle().clone();
    hundred(move |member| {
        let index = member.index;
        let sum = with_tokio(&handle, async move {
            let (send, receive) = tokio::sync::oneshot::channel();
            let task = tokio::spawn(async move {
                tokio::time::sleep(MILLISECOND).await;
                send.send(index).unwrap();
                1
            });
            tokio::task::yield_now().await;
            tokio::time::sleep(MILLISECOND).await;
            receive.await.unwrap() + task.await.unwrap()
        });
        assert_eq!(block_on(sum), index + 1);
        assert!(Handle::try_current().is_err(), "the context was left");
    });
}

/// A guard over all polls, as fibers have thread-locals of their own.
#[test]
fn timers_and_tasks_of_tokio_are_awaited_in_a_context_for_all_polls() {
    let tokio = tokio();
    let handle = tokio.handle().clone();
    hundred(move |member| {
        let _entered = handle.enter();
        member.meet();
        let fifth = member.index % 5;
        let slept = tokio::time::timeout(Duration::from_secs(3600), async move {
            tokio::time::sleep(MILLISECOND).await;
            tokio::spawn(async move { fifth }).await.unwrap()
        });
        assert_eq!(block_on(slept).unwrap(), fifth);
    });
}

/// Without a context per poll, the guards of two fibers would be left in the wrong order.
#[test]
fn fibers_that_borrow_thread_locals_have_contexts_of_two_runtimes() {
    let runtimes = [tokio(), tokio()];
    let handles = runtimes.each_ref().map(|runtime| runtime.handle().clone());
    // SAFETY: the fibers suspend between polls only, where no reference to a thread-local is held.
    let runtime = unsafe { Runtime::builder().workers(1).borrowed() }.build().unwrap();
    let fibers: Vec<_> = (0..20)
        .map(|i| {
            let handle = handles[i % 2].clone();
            let own = handle.id();
            runtime.spawn(move || {
                block_on(with_tokio(&handle, async move {
                    for _ in 0..10 {
                        assert_eq!(Handle::current().id(), own);
                        tokio::time::sleep(Duration::from_micros(100)).await;
                    }
                }));
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(runtime.shutdown().leaked, 0);
}

/// The future is dropped in the context as well, also by a cancel.
#[test]
fn a_future_is_dropped_in_its_context() {
    struct Spawns(std::sync::mpsc::Sender<()>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let tell = self.0.clone();
            drop(tokio::spawn(async move { tell.send(()).unwrap() }));
        }
    }
    let tokio = tokio();
    let handle = tokio.handle().clone();
    everywhere(|runtime, kind| {
        let (tell, told) = std::sync::mpsc::channel();
        let (began, begun) = std::sync::mpsc::channel();
        let handle = handle.clone();
        let body = move || {
            block_on(with_tokio(&handle, async move {
                let _spawns = Spawns(tell);
                began.send(()).unwrap();
                std::future::pending::<()>().await;
            }));
        };
        let fiber = runtime.spawn_with(kind(), body).unwrap();
        begun.recv().unwrap();
        fiber.cancel();
        assert!(fiber.join().is_err());
        told.recv().unwrap();
    });
}

#[test]
fn a_task_awaits_fibers_and_messages_of_fibers() {
    let tokio = tokio();
    everywhere(|runtime, kind| {
        let (send, receive) = daiko::sync::channel::bounded(2);
        let fibers: Vec<_> = (0..FIBERS)
            .map(|i| {
                let send = send.clone();
                let body = move || {
                    daiko::yield_now();
                    send.send(i).unwrap();
                    i
                };
                runtime.spawn_with(kind(), body).unwrap()
            })
            .collect();
        drop(send);
        let sums = tokio.block_on(async {
            let messages = tokio::spawn(async move {
                let mut sum = 0;
                while let Ok(message) = receive.recv_async().await {
                    sum += message;
                }
                sum
            });
            let mut sum = 0;
            for fiber in fibers {
                sum += fiber.await.unwrap();
            }
            (sum, messages.await.unwrap())
        });
        assert_eq!(sums, (FIBERS * (FIBERS - 1) / 2, FIBERS * (FIBERS - 1) / 2));
    });
}

/// A task that is aborted while it waits leaves its place in the line.
#[test]
fn an_aborted_task_leaves_its_message_to_a_fiber() {
    let tokio = tokio();
    let (send, receive) = daiko::sync::channel::bounded::<u32>(1);
    let theirs = receive.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let task = tokio.spawn(async move {
        let mut receives = std::pin::pin!(theirs.recv_async());
        std::future::poll_fn(move |context| {
            let poll = receives.as_mut().poll(context);
            assert!(poll.is_pending());
            tell.send(()).unwrap();
            std::task::Poll::<()>::Pending
        })
        .await;
    });
    told.recv().unwrap();
    task.abort();
    assert!(tokio.block_on(task).unwrap_err().is_cancelled());
    let fiber = daiko::spawn(move || receive.recv());
    send.send(3).unwrap();
    assert_eq!(fiber.join().unwrap(), Ok(3));
}

/// Answers requests of HTTP, a fiber for each connection, until the listener's fiber is cancelled.
fn serve(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        daiko::spawn(move || {
            let (mut request, mut part) = (Vec::new(), [0; 1024]);
            loop {
                while let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
                    let line = String::from_utf8_lossy(&request[..end]).into_owned();
                    let path = line.split(' ').nth(1).unwrap().to_owned();
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", path.len());
                    stream.write_all((head + &path).as_bytes()).unwrap();
                    request.drain(..end + 4);
                }
                match stream.read(&mut part) {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => request.extend(&part[..bytes]),
                }
            }
        });
    }
}

/// Two descriptors for each of 1,000 connections, and some more.
fn allow_descriptors(count: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is valid for the call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = limit.rlim_cur.max(count.min(limit.rlim_max));
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    limit.rlim_cur >= count
}

#[test]
fn a_thousand_fibers_use_reqwest_at_the_same_time() {
    const REQUESTS: usize = 1000;
    if !allow_descriptors(3 * REQUESTS as u64) {
        return println!("skipped: {REQUESTS} connections: a process may have too few descriptors");
    }
    let (tokio, client) = (tokio(), reqwest::Client::new());
    let handle = tokio.handle().clone();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = runtime.spawn(move || serve(listener));
    let all = Arc::new(daiko::sync::Barrier::new(REQUESTS));
    let fibers: Vec<_> = (0..REQUESTS)
        .map(|i| {
            let (client, handle, all) = (client.clone(), handle.clone(), all.clone());
            let builder = if i % 2 == 0 { Builder::new() } else { Builder::new().migratable() };
            let body = move || {
                all.wait();
                let text = block_on(with_tokio(&handle, async move {
                    let sent = client.get(format!("http://{address}/{i}")).send();
                    sent.await.unwrap().text().await.unwrap()
                }));
                assert_eq!(text, format!("/{i}"));
            };
            runtime.spawn_with(builder, body).unwrap()
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    server.cancel();
    assert!(server.join().is_err());
    drop((client, tokio));
    assert_eq!(runtime.shutdown().leaked, 0);
}

/// The executors of both sides are nested: a fiber in a task in a fiber.
#[test]
fn fibers_and_tasks_await_each_other() {
    let tokio = tokio();
    let handle = tokio.handle().clone();
    everywhere(|runtime, kind| {
        let handle = handle.clone();
        let answers = hundred_in(runtime, kind, move |member| {
            let index = member.index;
            let nested = async move {
                let fiber = daiko::spawn(move || block_on(async move { index }));
                tokio::spawn(async move { fiber.await.unwrap() }).await.unwrap()
            };
            block_on(with_tokio(&handle, nested))
        });
        assert!(answers.into_iter().eq(0..FIBERS));
    });
}
