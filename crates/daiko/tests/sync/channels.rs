//! Channels between fibers, migratable fibers and threads, and selects among several channels.

use std::cell::Cell;
use std::panic::{self, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::waits::{LONG, SHORT, everywhere_numbered, on_one_worker, waiting};
use crate::support::{self, Drops, Token, end, panic_of, workers, yield_until};
use daiko::sync::channel::{
    self, Receiver, RecvError, RecvTimeoutError, SendError, SendTimeoutError, Sender, TryRecvError,
    TrySendError,
};
use daiko::{Builder, JoinError, JoinHandle, select};

type Ends<T> = (Sender<T>, Receiver<T>);

/// Returns channels of every kind, and of several sizes.
fn kinds<T>() -> Vec<Ends<T>> {
    vec![
        channel::rendezvous(),
        channel::bounded(1),
        channel::bounded(3),
        channel::bounded(128),
        channel::unbounded(),
    ]
}

#[test]
fn every_message_arrives_once_and_in_the_order_of_its_sender() {
    const EACH: u64 = 400;
    for (sender, receiver) in kinds::<(usize, u64)>() {
        let received = Arc::new(AtomicU64::new(0));
        let total = received.clone();
        // Every third thread or fiber receives, which makes one receiver of each kind.
        everywhere_numbered(3, move |number| {
            if number % 3 != 0 {
                (0..EACH).for_each(|message| sender.send((number, message)).unwrap());
                return;
            }
            let mut next = [0; 9];
            for _ in 0..2 * EACH {
                let (from, message) = receiver.recv().unwrap();
                assert!(message >= next[from], "{message} of {from} came late");
                next[from] = message + 1;
                total.fetch_add(message, Ordering::Relaxed);
            }
        });
        assert_eq!(received.load(Ordering::Relaxed), 4 * 6 * (EACH * (EACH - 1) / 2));
    }
}

#[test]
fn receivers_get_the_remaining_messages_and_then_the_end() {
    for (sender, receiver) in kinds() {
        let waits = receiver.clone();
        let other = sender.clone();
        let sends = thread::spawn(move || [1, 2].map(|message| sender.send(message).unwrap()));
        assert_eq!([receiver.recv(), receiver.recv()], [Ok(1), Ok(2)]);
        sends.join().unwrap();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert!(!receiver.is_disconnected());
        let waits = thread::spawn(move || waits.recv());
        drop(other);
        assert_eq!(waits.join().unwrap(), Err(RecvError));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
        assert!(receiver.is_disconnected());
    }
}

#[test]
fn a_receiver_is_iterated_to_the_end() {
    let (sender, receiver) = channel::unbounded();
    (1..=4).for_each(|message| sender.send(message).unwrap());
    drop(sender);
    let mut received = Vec::new();
    for message in &receiver {
        received.push(message);
        if message == 2 {
            break;
        }
    }
    received.extend(receiver);
    assert_eq!(received, [1, 2, 3, 4]);
}

#[test]
fn senders_get_their_messages_back_without_a_receiver() {
    for (sender, receiver) in kinds::<Box<i32>>() {
        let room = sender.capacity().unwrap_or(5);
        (0..room).for_each(|number| sender.send(Box::new(number as i32)).unwrap());
        let waits = sender.clone();
        let waits = thread::spawn(move || waits.send_timeout(Box::new(-1), LONG));
        if sender.capacity().is_some() {
            support::until("the wait", || sender.len() == room);
        }
        drop(receiver);
        let sent = waits.join().unwrap();
        assert!(
            sent == Ok(()) && sender.capacity().is_none()
                || sent == Err(SendTimeoutError::Disconnected(Box::new(-1)))
        );
        assert_eq!(sender.send(Box::new(7)), Err(SendError(Box::new(7))));
        assert_eq!(sender.try_send(Box::new(7)), Err(TrySendError::Disconnected(Box::new(7))));
        assert!(sender.is_disconnected() && sender.is_empty());
    }
}

#[test]
fn waits_end_by_their_timeouts() {
    let asks = |sender: Sender<i32>, receiver: Receiver<i32>| {
        let room = sender.capacity().unwrap();
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            assert_eq!(receiver.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
        }
        assert_eq!(receiver.recv_timeout(Instant::now()), Err(RecvTimeoutError::Timeout));
        (0..room).for_each(|_| sender.try_send(1).unwrap());
        for timeout in [Duration::ZERO, SHORT, Duration::from_millis(1)] {
            assert_eq!(sender.send_timeout(2, timeout), Err(SendTimeoutError::Timeout(2)));
        }
        assert_eq!(sender.send_timeout(2, Instant::now()), Err(SendTimeoutError::Timeout(2)));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receiver.try_iter().count(), room);
    };
    let runtime = workers(2);
    for (sender, receiver) in kinds().into_iter().filter(|(sender, _)| sender.capacity().is_some())
    {
        let (theirs, others) = (sender.clone(), receiver.clone());
        runtime.run(move || asks(theirs, others));
        asks(sender, receiver);
    }
    end(runtime);
}

#[test]
fn unreceived_messages_are_dropped_once() {
    for (sender, receiver) in kinds() {
        let drops = Drops::default();
        let room = sender.capacity().unwrap_or(100);
        (0..room).for_each(|_| sender.send(drops.token()).unwrap());
        (0..room / 2).for_each(|_| drop(receiver.recv().unwrap()));
        assert_eq!(drops.dropped(), room / 2);
        assert_eq!(sender.len(), room - room / 2);
        drop(receiver);
        assert_eq!(drops.dropped(), room);
        assert!(sender.send(drops.token()).is_err());
        drop(sender);
        drops.assert_all();
    }
}

#[test]
fn a_cancelled_receiver_takes_no_message_along() {
    for (sender, receiver) in kinds::<i32>() {
        on_one_worker(move || {
            for cancels_first in [true, false] {
                let (taken, rest) = (receiver.clone(), receiver.clone());
                let [cancelled, other] =
                    [taken, rest].map(|receiver| waiting(move || receiver.recv()));
                if cancels_first {
                    cancelled.cancel();
                }
                sender.send(1).unwrap();
                cancelled.cancel();
                match cancelled.join() {
                    Ok(received) => {
                        assert_eq!(received, Ok(1));
                        sender.send(2).unwrap();
                        assert_eq!(other.join().unwrap(), Ok(2));
                    }
                    Err(error) => {
                        assert!(matches!(error, JoinError::Cancelled));
                        assert_eq!(other.join().unwrap(), Ok(1));
                    }
                }
            }
            assert!(receiver.is_empty());
        });
    }
}

#[test]
fn a_cancelled_sender_makes_way_for_the_next() {
    for (sender, receiver) in kinds::<i32>().into_iter().filter(|ends| ends.0.capacity().is_some())
    {
        on_one_worker(move || {
            let room = sender.capacity().unwrap();
            (0..room).for_each(|_| sender.send(0).unwrap());
            let [cancelled, other] = [1, 2].map(|message| {
                let sender = sender.clone();
                waiting(move || sender.send(message))
            });
            cancelled.cancel();
            assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
            assert_eq!((0..room).map(|_| receiver.recv().unwrap()).sum::<i32>(), 0);
            assert_eq!(receiver.recv(), Ok(2));
            assert_eq!(other.join().unwrap(), Ok(()));
        });
    }
}

#[test]
fn one_message_is_sent_received_or_handed_back() {
    let (sender, receiver) = channel::oneshot();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receiver.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
    let waits = thread::spawn(move || receiver.recv());
    sender.send(Box::new(7)).unwrap();
    assert_eq!(waits.join().unwrap(), Ok(Box::new(7)));

    let (sender, receiver) = channel::oneshot::<i32>();
    on_one_worker(move || {
        let waits = waiting(move || receiver.recv());
        drop(sender);
        assert_eq!(waits.join().unwrap(), Err(RecvError));
    });

    let (sender, receiver) = channel::oneshot();
    drop(receiver);
    assert!(sender.is_disconnected());
    assert_eq!(sender.send(7), Err(SendError(7)));

    let drops = Drops::default();
    let (sender, receiver) = channel::oneshot();
    sender.send(drops.token()).unwrap();
    drop(receiver);
    drops.assert_all();

    let (sender, receiver) = channel::oneshot();
    sender.send(1).unwrap();
    assert_eq!(receiver.recv_timeout(Instant::now()), Ok(1));
    assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn waits_inside_no_suspend_panic() {
    on_one_worker(|| {
        let (_sender, receiver) = channel::bounded::<i32>(1);
        let message = panic_of(|| daiko::no_suspend(|| receiver.recv()));
        assert!(message.contains("no_suspend"), "{message}");
        let message = panic_of(|| {
            daiko::no_suspend(|| {
                select! {
                    recv(receiver) -> _ => {}
                }
            });
        });
        assert!(message.contains("no_suspend"), "{message}");
    });
}

#[test]
fn sends_and_receives_without_a_wait_are_allowed_inside_no_suspend() {
    for (sender, receiver) in kinds::<i32>() {
        on_one_worker(move || {
            let (sends, receives) = (sender.clone(), receiver.clone());
            let receives = waiting(move || receives.recv());
            daiko::no_suspend(|| sender.send(1)).unwrap();
            assert_eq!(receives.join().unwrap(), Ok(1));
            let sends = waiting(move || sends.send(2));
            assert_eq!(daiko::no_suspend(|| receiver.recv()), Ok(2));
            assert_eq!(sends.join().unwrap(), Ok(()));
            drop(receiver);
            assert_eq!(daiko::no_suspend(|| sender.send(3)), Err(SendError(3)));
        });
    }
}

/// Panics where it is dropped, if `panics` is set.
struct MayPanic {
    panics: bool,
    _token: Token,
}

impl Drop for MayPanic {
    fn drop(&mut self) {
        if self.panics {
            panic::resume_unwind(Box::new(()));
        }
    }
}

#[test]
fn remaining_messages_are_dropped_though_one_panics() {
    for (sender, receiver) in kinds() {
        let (drops, room) = (Drops::default(), sender.capacity().unwrap_or(100));
        for i in 0..room {
            let message = MayPanic { panics: i == 0, _token: drops.token() };
            assert!(sender.send(message).is_ok());
        }
        let dropped = panic::catch_unwind(|| drop(receiver));
        assert_eq!(dropped.is_err(), room > 0);
        // One sender still exists.
        drops.assert_all();
        assert!(sender.is_disconnected());
    }
}

#[test]
fn ends_may_be_used_where_unwinding_is_caught() {
    fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>(_: &T) {}
    let (sender, receiver) = channel::bounded::<Cell<u8>>(1);
    let (once, at_last) = channel::oneshot::<Cell<u8>>();
    is_unwind_safe(&(sender, receiver, once, at_last));
}

#[test]
fn a_select_takes_a_possible_operation() {
    let (numbers, number) = channel::bounded::<i32>(1);
    let (words, word) = channel::rendezvous::<&str>();
    let choose = || {
        select! {
            recv(number) -> number => number.unwrap(),
            recv(word) -> word => word.unwrap().len() as i32,
            default => -1,
        }
    };
    assert_eq!(choose(), -1);
    numbers.send(5).unwrap();
    assert_eq!(choose(), 5);
    let sends = thread::spawn(move || words.send("four"));
    support::until("the offer", || choose() == 4);
    sends.join().unwrap().unwrap();
    let begun = Instant::now();
    let timed_out = select! {
        recv(number) -> _ => false,
        default(Duration::from_millis(1)) => true,
    };
    assert!(timed_out && begun.elapsed() >= Duration::from_millis(1));
    // Without a sender a receive is possible: it fails.
    assert_eq!(word.recv(), Err(RecvError));
    select! {
        recv(word) -> word => assert_eq!(word, Err(RecvError)),
        recv(number) -> _ => panic!("no number was sent"),
    }
}

#[test]
fn of_several_that_are_possible_each_is_taken_at_times() {
    let ends = [channel::unbounded(), channel::unbounded(), channel::unbounded()];
    let taken = [0; 3].map(AtomicUsize::new);
    for (sender, _) in &ends {
        (0..3000).for_each(|number| sender.send(number).unwrap());
    }
    for _ in 0..3000 {
        let which = select! {
            recv(ends[0].1) -> _ => 0,
            recv(ends[1].1) -> _ => 1,
            recv(ends[2].1) -> _ => 2,
        };
        taken[which].fetch_add(1, Ordering::Relaxed);
    }
    assert!(taken.iter().all(|taken| taken.load(Ordering::Relaxed) > 300), "{taken:?}");
}

/// Checks that the first of two waiters stays first. It is woken by `bring`, but `snatch` is faster
/// than it. The next `bring` is for the first waiter, though the second has queued before the first
/// queued again.
fn the_first_stays_first(
    [first, second]: [JoinHandle<()>; 2],
    bring: impl Fn(),
    snatch: impl Fn(),
) {
    bring();
    snatch();
    daiko::yield_now();
    assert!(!first.is_finished() && !second.is_finished());
    bring();
    yield_until("one of them", || first.is_finished() || second.is_finished());
    assert!(first.is_finished() && !second.is_finished());
    bring();
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn a_select_that_was_woken_in_vain_receives_the_next_message() {
    for (sender, receiver) in [channel::bounded(3), channel::unbounded()] {
        on_one_worker(move || {
            let (_silent, never) = channel::bounded::<()>(1);
            let [selects, waits] = [(); 2].map(|()| receiver.clone());
            let selects = waiting(move || {
                select! {
                    recv(never) -> _ => unreachable!("there is no sender"),
                    recv(selects) -> message => message.unwrap(),
                }
            });
            let waits = waiting(move || waits.recv().unwrap());
            let (bring, snatch) = (|| sender.send(()).unwrap(), || receiver.try_recv().unwrap());
            the_first_stays_first([selects, waits], bring, snatch);
        });
    }
}

#[test]
fn a_select_that_was_woken_in_vain_sends_into_the_next_room() {
    on_one_worker(|| {
        let (_silent, never) = channel::bounded::<()>(1);
        let (sender, receiver) = channel::bounded(1);
        sender.send(()).unwrap();
        let [selects, waits] = [(); 2].map(|()| sender.clone());
        let selects = waiting(move || {
            select! {
                recv(never) -> _ => unreachable!("there is no sender"),
                send(selects, ()) -> sent => sent.unwrap(),
            }
        });
        let waits = waiting(move || waits.send(()).unwrap());
        let (bring, snatch) = (|| receiver.try_recv().unwrap(), || sender.try_send(()).unwrap());
        the_first_stays_first([selects, waits], bring, snatch);
    });
}

#[test]
fn a_select_can_be_left_and_repeated() {
    let (sender, receiver) = channel::bounded(4);
    (1..=4).for_each(|number| sender.send(number).unwrap());
    drop(sender);
    let sum = || -> Result<i32, RecvError> {
        let mut sum = 0;
        loop {
            select! {
                recv(receiver) -> number => {
                    let number = number?;
                    if number == 2 {
                        continue;
                    }
                    sum += number;
                    if number == 3 {
                        break;
                    }
                }
            }
        }
        Ok(sum)
    };
    assert_eq!(sum(), Ok(4));
    assert_eq!(receiver.recv(), Ok(4));
    assert_eq!(sum(), Err(RecvError));
}

/// Counts and sums of the messages that selects sent and received.
#[derive(Default)]
struct Exchanged {
    messages: [AtomicU64; 2],
    sums: [AtomicU64; 2],
}

impl Exchanged {
    fn count(&self, which: usize, message: u64) {
        self.sums[which].fetch_add(message, Ordering::Relaxed);
        self.messages[which].fetch_add(1, Ordering::Relaxed);
    }

    fn messages(&self, which: usize) -> u64 {
        self.messages[which].load(Ordering::Relaxed)
    }
}

/// Sends `each` messages and receives some, and then receives until all of `together` are there.
fn exchange(ends: &[Ends<u64>; 2], exchanged: &Exchanged, number: u64, each: u64, together: u64) {
    let [(first, from_first), (second, from_second)] = ends;
    let has_sent = |message| exchanged.count(0, message);
    let has_received = |message: Result<u64, RecvError>| exchanged.count(1, message.unwrap());
    let mut sent = 0;
    while sent < each {
        let message = number * 1000 + sent;
        select! {
            send(first, message) -> result => { result.unwrap(); has_sent(message); sent += 1; }
            recv(from_first) -> message => has_received(message),
            send(second, message) -> result => { result.unwrap(); has_sent(message); sent += 1; }
            recv(from_second) -> message => has_received(message),
        }
    }
    let last = exchanged.messages(0).next_multiple_of(together);
    while exchanged.messages(1) < last {
        select! {
            recv(from_first) -> message => has_received(message),
            recv(from_second) -> message => has_received(message),
            default(Duration::from_millis(1)) => {}
        }
    }
}

#[test]
fn selects_on_both_sides_of_the_same_channels_find_each_other() {
    let all: [fn() -> Ends<u64>; 3] =
        [channel::rendezvous, || channel::bounded(1), channel::unbounded];
    for (first, second) in all.iter().flat_map(|first| all.map(|second| (first, second))) {
        let shared = Arc::new(([first(), second()], Exchanged::default()));
        let theirs = shared.clone();
        everywhere_numbered(2, move |number| {
            let (ends, exchanged) = &*theirs;
            exchange(ends, exchanged, number as u64 + 1, 60, 6 * 60);
        });
        let (ends, Exchanged { messages, sums }) = &*shared;
        assert_eq!(messages.each_ref().map(|count| count.load(Ordering::Relaxed)), [4 * 6 * 60; 2]);
        assert_eq!(sums[0].load(Ordering::Relaxed), sums[1].load(Ordering::Relaxed));
        assert!(ends.iter().all(|(sender, _)| sender.is_empty()));
    }
}

#[test]
fn a_select_that_is_cancelled_or_times_out_takes_nothing_along() {
    for (sender, receiver) in kinds::<i32>() {
        on_one_worker(move || {
            let (_never, nothing) = channel::rendezvous::<i32>();
            let (other_sender, selecting) = (sender.clone(), receiver.clone());
            let choice = move |patience: Duration| {
                select! {
                    recv(selecting) -> message => message.unwrap(),
                    recv(nothing) -> _ => panic!("no message was sent"),
                    default(patience) => -1,
                }
            };
            assert_eq!(choice(SHORT), -1);
            let cancelled = waiting(move || choice(LONG));
            let waits = waiting(move || receiver.recv());
            cancelled.cancel();
            other_sender.send(1).unwrap();
            match cancelled.join() {
                Ok(message) => {
                    assert_eq!(message, 1);
                    sender.send(2).unwrap();
                    assert_eq!(waits.join().unwrap(), Ok(2));
                }
                Err(error) => {
                    assert!(matches!(error, JoinError::Cancelled));
                    assert_eq!(waits.join().unwrap(), Ok(1));
                }
            }
        });
    }
}

#[test]
fn a_oneshot_can_be_chosen() {
    on_one_worker(|| {
        let (stop, stopped) = channel::oneshot();
        let (_sender, receiver) = channel::bounded::<i32>(1);
        let waits = waiting(move || {
            select! {
                recv(receiver) -> _ => None,
                recv(stopped) -> word => word.ok(),
            }
        });
        stop.send("stop").unwrap();
        assert_eq!(waits.join().unwrap(), Some("stop"));
        let (stop, stopped) = channel::oneshot::<()>();
        drop(stop);
        let ended = select! {
            recv(stopped) -> result => result.is_err(),
            default(LONG) => false,
        };
        assert!(ended);
    });
}

#[test]
fn a_value_that_was_not_chosen_is_dropped_once() {
    let drops = Drops::default();
    let (sender, _receiver) = channel::rendezvous();
    select! {
        send(sender, drops.token()) -> _ => panic!("there is no receiver"),
        default => {}
    }
    select! {
        send(sender, drops.token()) -> _ => panic!("there is no receiver"),
        default(SHORT) => {}
    }
    drops.assert_all();
}

#[test]
fn unchosen_operations_are_gone_when_the_chosen_arm_runs() {
    let (drops, (sender, receiver)) = (Drops::default(), channel::rendezvous());
    let (numbers, number) = channel::bounded(1);
    numbers.send(7).unwrap();
    select! {
        send(sender, drops.token()) -> _ => panic!("there is no receiver"),
        recv(number) -> received => {
            assert_eq!(received, Ok(7));
            drops.assert_all();
            // Nothing is borrowed: the ends may be dropped.
            drop((sender, receiver, number));
        }
    }
    assert!(numbers.is_disconnected());
}

#[test]
fn a_channel_grows_under_its_users() {
    let (sender, receiver) = channel::unbounded();
    on_one_worker(move || {
        let receiving = daiko::spawn(move || receiver.iter().sum::<u64>());
        for burst in 0..100u64 {
            (0..burst * 10).for_each(|_| sender.send(1).unwrap());
            yield_until("the receiver", || sender.is_empty());
        }
        drop(sender);
        assert_eq!(receiving.join().unwrap(), 10 * 99 * 100 / 2);
    });
}

/// The timers of the receiver and of the sender are due in the same round of the agent. So the
/// sender often meets a receiver after its deadline, but before it has run again.
#[test]
fn a_message_that_a_receiver_is_given_at_its_deadline_is_not_lost() {
    on_one_worker(|| {
        for _ in 0..200 {
            let (sender, receiver) = channel::rendezvous();
            let due = Instant::now() + Duration::from_micros(200);
            let sent = daiko::spawn(move || {
                daiko::sleep(due);
                sender.try_send(7).is_ok()
            });
            daiko::yield_now();
            let received = receiver.recv_timeout(due);
            assert_eq!(sent.join().unwrap(), received.is_ok(), "{received:?}");
        }
    });
}

/// On two workers, parties that have a worker each meet without a suspension, most of the time.
#[test]
fn two_parties_that_meet_again_and_again_leave_timers_their_turn() {
    let runtime = workers(2);
    let started = runtime.spawn(|| {
        let (sender, receiver) = channel::rendezvous();
        let receiving = Builder::new().on(0).spawn(move || receiver.iter().count()).unwrap();
        let fired = Arc::new(AtomicBool::new(false));
        let sets = Arc::clone(&fired);
        let sleeper = Builder::new().on(1).spawn(move || {
            daiko::sleep(Duration::from_millis(1));
            sets.store(true, Ordering::Relaxed);
        });
        let sending = Builder::new().on(1).spawn(move || {
            let goes_on = |number: &usize| *number == 0 || !fired.load(Ordering::Relaxed);
            (0..).take_while(goes_on).for_each(|number| sender.send(number).unwrap());
        });
        sending.unwrap().join().unwrap();
        sleeper.unwrap().join().unwrap();
        receiving.join().unwrap()
    });
    assert!(started.join().unwrap() > 0);
}

#[test]
fn the_end_reaches_every_waiter() {
    for (sender, receiver) in kinds::<u8>() {
        on_one_worker(move || {
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let receiver = receiver.clone();
                    waiting(move || receiver.recv())
                })
                .collect();
            drop(sender);
            receivers.into_iter().for_each(|end| assert_eq!(end.join().unwrap(), Err(RecvError)));
        });
    }
    for (sender, receiver) in [channel::rendezvous(), channel::bounded(1)] {
        on_one_worker(move || {
            let _fills_a_buffer = sender.try_send(0);
            let senders: Vec<_> = (0..3)
                .map(|_| {
                    let sender = sender.clone();
                    waiting(move || sender.send(1))
                })
                .collect();
            drop(receiver);
            senders.into_iter().for_each(|end| assert_eq!(end.join().unwrap(), Err(SendError(1))));
        });
    }
}

/// Returns the number of the case that a select among four receivers takes.
fn choose([one, two, three, four]: &[Receiver<()>; 4]) -> usize {
    select! {
        recv(one) -> _ => 0,
        recv(two) -> _ => 1,
        recv(three) -> _ => 2,
        recv(four) -> _ => 3,
    }
}

/// Asserts that `choose` takes each possible case as often as the others, for all sets of them.
fn takes_each_as_often(choose: impl Fn(&Arc<[Receiver<()>; 4]>) -> usize) {
    const ROUNDS: usize = 2_000;
    for possible in 1..16usize {
        let is_possible = |case: usize| possible & 1 << case != 0;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::unbounded()).unzip();
        for (case, sender) in senders.iter().enumerate().filter(|(case, _)| is_possible(*case)) {
            (0..ROUNDS).for_each(|_| sender.send(()).unwrap_or_else(|_| panic!("{case} is open")));
        }
        let receivers = Arc::new(<[_; 4]>::try_from(receivers).unwrap());
        let mut taken = [0u32; 4];
        (0..ROUNDS).for_each(|_| taken[choose(&receivers)] += 1);
        let share = 1.0 / f64::from(possible.count_ones());
        let most_off = 6.0 * (ROUNDS as f64 * share * (1.0 - share)).sqrt();
        for (case, taken) in taken.into_iter().enumerate() {
            let expected = if is_possible(case) { ROUNDS as f64 * share } else { 0.0 };
            let off = (f64::from(taken) - expected).abs();
            assert!(off <= most_off, "case {case} of {possible:04b}: {taken}, not {expected}");
        }
    }
}

#[test]
fn a_select_takes_each_possible_operation_as_often_as_the_others() {
    takes_each_as_often(|receivers| choose(receivers));
}

#[test]
fn the_first_selects_of_many_fibers_take_each_operation_as_often_as_the_others() {
    on_one_worker(|| {
        takes_each_as_often(|receivers| {
            let receivers = Arc::clone(receivers);
            daiko::spawn(move || choose(&receivers)).join().unwrap()
        })
    });
}
