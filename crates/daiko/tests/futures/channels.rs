//! Futures at the ends of channels, beside fibers and threads.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use daiko::block_on;
use daiko::sync::channel::{self, Receiver, RecvError, SendError, Sender};

use crate::support::waits::{everywhere_numbered, waiting};
use crate::support::{Drops, end, everywhere, workers};

/// Makes a channel of each kind.
fn kinds<T>() -> [(Sender<T>, Receiver<T>); 4] {
    [channel::bounded(1), channel::bounded(3), channel::unbounded(), channel::rendezvous()]
}

/// Counts its wakes.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task of the tests: polls by hand.
#[derive(Clone, Default)]
struct Task(Arc<Counter>);

impl Task {
    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(self.0.clone())))
    }

    fn wakes(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }

    /// The number of its wakers that are left.
    fn wakers(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

#[test]
fn each_message_arrives_once_between_futures_fibers_and_threads() {
    const EACH: usize = 40;
    for kind in 0..4 {
        let ends = kinds::<usize>().into_iter().nth(kind).unwrap();
        let ends = Arc::new(std::sync::Mutex::new(Some(ends)));
        let sum = Arc::new(AtomicUsize::new(0));
        let (theirs, sums) = (ends.clone(), sum.clone());
        everywhere_numbered(4, move |number| {
            let (sender, receiver) = theirs.lock().unwrap().clone().unwrap();
            for message in 0..EACH {
                match number % 4 {
                    0 => sender.send(message).unwrap(),
                    1 => block_on(sender.send_async(message)).unwrap(),
                    2 => _ = sums.fetch_add(receiver.recv().unwrap(), Ordering::Relaxed),
                    _ => {
                        let message = block_on(receiver.recv_async()).unwrap();
                        sums.fetch_add(message, Ordering::Relaxed);
                    }
                }
            }
        });
        let (_, receiver) = ends.lock().unwrap().take().unwrap();
        assert!(receiver.try_recv().is_err());
        let senders = 4 * 12 / 2;
        assert_eq!(sum.load(Ordering::Relaxed), senders * EACH * (EACH - 1) / 2);
    }
}

#[test]
fn a_task_awaits_both_ends_of_each_channel() {
    everywhere(|| {
        for (sender, receiver) in kinds() {
            let mut send = pin!(sender.send_async(7));
            let mut recv = pin!(receiver.recv_async());
            let (mut sent, mut received) = (None, None);
            block_on(std::future::poll_fn(|context| {
                if received.is_none()
                    && let Poll::Ready(message) = recv.as_mut().poll(context)
                {
                    received = Some(message);
                }
                if sent.is_none()
                    && let Poll::Ready(result) = send.as_mut().poll(context)
                {
                    sent = Some(result);
                }
                if sent.is_some() && received.is_some() { Poll::Ready(()) } else { Poll::Pending }
            }));
            assert_eq!((sent, received), (Some(Ok(())), Some(Ok(7))));
        }
    });
}

#[test]
fn futures_are_served_in_turn_and_keep_their_places() {
    for (sender, receiver) in kinds() {
        let [first, second, other] = [(); 3].map(|()| Task::default());
        let (mut one, mut two) = (pin!(receiver.recv_async()), pin!(receiver.recv_async()));
        assert!(first.poll(one.as_mut()).is_pending() && second.poll(two.as_mut()).is_pending());
        // The same task keeps its place; another one queues anew.
        assert!(first.poll(one.as_mut()).is_pending());
        sender.try_send(1).unwrap();
        assert_eq!((first.wakes(), second.wakes()), (1, 0));
        assert_eq!(first.poll(one.as_mut()), Poll::Ready(Ok(1)));
        assert!(other.poll(two.as_mut()).is_pending());
        assert_eq!(second.wakers(), 0, "dropped as its task changed");
        sender.try_send(2).unwrap();
        assert_eq!((second.wakes(), other.wakes()), (0, 1));
        assert_eq!(other.poll(two.as_mut()), Poll::Ready(Ok(2)));
        assert_eq!(first.wakers() + second.wakers() + other.wakers(), 0);
    }
}

/// The wake of a future that is dropped goes to the next in line, as that of a fiber does.
#[test]
fn a_future_that_is_dropped_leaves_its_message_to_others() {
    let runtime = workers(1);
    runtime.run(|| {
        for (sender, receiver) in kinds().into_iter().take(3) {
            for woken in [false, true] {
                let task = Task::default();
                let theirs = receiver.clone();
                let mut recv = Box::pin(receiver.recv_async());
                assert!(task.poll(recv.as_mut()).is_pending());
                let fiber = waiting(move || theirs.recv());
                if woken {
                    sender.try_send(5).unwrap();
                    daiko::yield_now();
                    assert!(!fiber.is_finished() && task.wakes() == 1);
                    drop(recv);
                } else {
                    drop(recv);
                    sender.try_send(5).unwrap();
                }
                assert_eq!(fiber.join().unwrap(), Ok(5));
                assert_eq!(task.wakers(), 0);
            }
        }
    });
    end(runtime);
}

#[test]
fn the_message_of_a_send_that_is_dropped_is_sent_or_dropped() {
    for (sender, receiver) in kinds() {
        let (drops, task) = (Drops::default(), Task::default());
        while sender.capacity().is_some_and(|room| sender.len() < room) {
            sender.try_send(drops.token()).unwrap();
        }
        let mut send = Box::pin(sender.send_async(drops.token()));
        assert_eq!(task.poll(send.as_mut()).is_pending(), sender.capacity().is_some());
        drop(send);
        assert_eq!(task.wakers(), 0);
        while receiver.try_recv().is_ok() {}
        drops.assert_all();
    }
    // Met, and dropped before the task knew.
    let (sender, receiver) = channel::rendezvous();
    let (drops, task) = (Drops::default(), Task::default());
    let mut send = Box::pin(sender.send_async(drops.token()));
    assert!(task.poll(send.as_mut()).is_pending());
    drop(receiver.try_recv().unwrap());
    assert_eq!(task.wakes(), 1);
    drop(send);
    let mut recv = Box::pin(receiver.recv_async());
    assert!(task.poll(recv.as_mut()).is_pending());
    sender.try_send(drops.token()).unwrap();
    drop(recv);
    drops.assert_all();
}

#[test]
fn the_end_of_the_other_side_is_awaited() {
    for (sender, receiver) in kinds::<u32>() {
        let task = Task::default();
        let mut recv = pin!(receiver.recv_async());
        assert!(task.poll(recv.as_mut()).is_pending());
        drop(sender);
        assert_eq!(task.wakes(), 1);
        assert_eq!(task.poll(recv.as_mut()), Poll::Ready(Err(RecvError)));
    }
    for (sender, receiver) in kinds() {
        let task = Task::default();
        while sender.capacity().is_some_and(|room| sender.len() < room) {
            sender.try_send(1).unwrap();
        }
        let mut send = pin!(sender.send_async(2));
        let polled = task.poll(send.as_mut());
        drop(receiver);
        if polled.is_pending() {
            assert_eq!(task.wakes(), 1);
            assert_eq!(task.poll(send.as_mut()), Poll::Ready(Err(SendError(2))));
        }
        assert_eq!(block_on(sender.send_async(3)), Err(SendError(3)));
    }
}

#[test]
#[should_panic(expected = "polled after it was ready")]
fn a_send_that_was_ready_is_not_polled_again() {
    let (sender, receiver) = channel::rendezvous();
    let task = Task::default();
    let mut send = pin!(sender.send_async(1));
    assert!(task.poll(send.as_mut()).is_pending());
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(task.poll(send.as_mut()).is_ready());
    let _ = task.poll(send.as_mut());
}

/// Futures are polled by changing tasks, and dropped, while a thread sends: no message is lost.
#[test]
fn sends_meet_polls_and_drops() {
    const MESSAGES: usize = 500;
    for (sender, receiver) in kinds().into_iter().take(3) {
        let tasks = [(); 2].map(|()| Task::default());
        let sends = thread::spawn(move || (0..MESSAGES).for_each(|i| sender.send(i).unwrap()));
        let mut received = Vec::new();
        let mut round = 0;
        while received.len() < MESSAGES {
            let mut recv = Box::pin(receiver.recv_async());
            for task in &tasks {
                if let Poll::Ready(message) = task.poll(recv.as_mut()) {
                    received.push(message.unwrap());
                    break;
                }
                round += 1;
                if round % 3 == 0 {
                    break;
                }
            }
        }
        sends.join().unwrap();
        assert!(received.into_iter().eq(0..MESSAGES));
        assert_eq!(tasks.each_ref().map(Task::wakers), [0; 2]);
    }
}

#[test]
fn the_one_message_is_awaited() {
    everywhere(|| {
        let (sender, receiver) = channel::oneshot();
        sender.send(1).unwrap();
        assert_eq!(block_on(receiver), Ok(1));

        let (sender, receiver) = channel::oneshot();
        let sends = thread::spawn(move || sender.send(2));
        assert_eq!(block_on(receiver), Ok(2));
        sends.join().unwrap().unwrap();

        let (sender, receiver) = channel::oneshot::<u32>();
        let tasks = [(); 2].map(|()| Task::default());
        let mut recv = pin!(receiver.into_future());
        for task in [&tasks[0], &tasks[1], &tasks[1]] {
            assert!(task.poll(recv.as_mut()).is_pending());
        }
        drop(sender);
        assert_eq!(tasks.each_ref().map(Task::wakes), [0, 1]);
        assert_eq!(tasks[0].poll(recv.as_mut()), Poll::Ready(Err(RecvError)));
        assert_eq!(tasks[0].poll(recv.as_mut()), Poll::Ready(Err(RecvError)));

        let (drops, task) = (Drops::default(), Task::default());
        let (sender, receiver) = channel::oneshot();
        let mut recv = Box::pin(receiver.into_future());
        assert!(task.poll(recv.as_mut()).is_pending());
        sender.send(drops.token()).unwrap();
        drop(recv);
        drops.assert_all();
        assert_eq!((task.wakes(), task.wakers()), (1, 0));
        let (sender, receiver) = channel::oneshot();
        drop(receiver.into_future());
        assert!(sender.send(3).is_err());
    });
}

#[test]
fn the_futures_of_a_channel_may_be_sent() {
    fn is_send<T: Send>(_: &T) {}
    let (sender, receiver) = channel::bounded::<std::cell::Cell<u8>>(1);
    is_send(&sender.send_async(std::cell::Cell::new(1)));
    is_send(&receiver.recv_async());
    is_send(&channel::oneshot::<u8>().1.into_future());
    is_send(&daiko::spawn(|| 1).into_future());
}

/// The wakes come in the middle of a send, and the sender goes on as if they had done nothing.
#[test]
fn a_waker_that_panics_or_would_wait_does_no_harm_to_a_sender() {
    struct Parks;
    impl Wake for Parks {
        fn wake(self: Arc<Self>) {
            daiko::park();
        }
    }
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    everywhere(|| {
        for (sender, receiver) in kinds() {
            for waker in [Waker::from(Arc::new(Parks)), Waker::from(Arc::new(Panics))] {
                let mut recv = pin!(receiver.recv_async());
                assert!(recv.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                sender.send(4).unwrap();
                daiko::yield_now();
                assert_eq!(block_on(recv), Ok(4));
                let fiber = daiko::spawn(daiko::yield_now);
                fiber.join().unwrap();
            }
        }
    });
}
