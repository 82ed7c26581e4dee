//! Messages of many senders, and their only receiver.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::library::{self, Receiver, Sender};
use crate::plan::{Receiving, Sending, Stream};

/// The time for which a task waits that soon tries something else.
const A_MOMENT: Duration = Duration::from_micros(20);
/// The number of tries. A sender and a receiver that only try never meet in a channel without
/// capacity.
const TRIES: usize = 8;
/// A number that exceeds the messages of any sender.
const MANY: i64 = 1000;

/// Returns the number of received messages, and the messages of each sender, unless the receiver
/// left before the end.
pub(crate) fn run(stream: &Stream) -> (usize, Option<Vec<Vec<i64>>>) {
    let (sender, receiver) = library::channel(stream.room);
    let sent = Arc::new(AtomicUsize::new(0));
    let senders = stream.senders.iter().zip(0..).map(|((place, how), number)| {
        let (sender, how, sent) = (sender.clone(), how.clone(), sent.clone());
        let task = move || _ = sent.fetch_add(send(&sender, number, &how), Ordering::Relaxed);
        (*place, Box::new(task) as Box<dyn FnOnce() + Send>)
    });
    let mut tasks: Vec<_> = senders.collect();
    drop(sender);
    let received = Arc::new(Mutex::new(Vec::new()));
    let (theirs, most, how) = (received.clone(), stream.most, stream.receiving.clone());
    let receives = move || *theirs.lock().unwrap() = receive(&receiver, most, &how);
    tasks.push((stream.receiver, Box::new(receives)));
    library::together(stream.workers, tasks);
    let received = std::mem::take(&mut *received.lock().unwrap());
    let by_sender = (0..).take(stream.senders.len()).map(|number| by(&received, number)).collect();
    let total = stream.senders.iter().map(|(_, messages)| messages.len()).sum::<usize>();
    if received.len() < total {
        assert!(received.len() == stream.most && sent.load(Ordering::Relaxed) >= stream.most);
        return (received.len(), None);
    }
    (total, Some(by_sender))
}

/// Returns the messages that came from a sender. Checks that they are the first that it sent, in
/// that order.
fn by(received: &[i64], number: i64) -> Vec<i64> {
    let messages: Vec<_> = received.iter().filter(|&&m| m / MANY == number).copied().collect();
    assert!(messages.iter().zip(0..).all(|(&message, index)| message == number * MANY + index));
    messages
}

/// Returns how many messages were sent before the receiver left.
fn send(sender: &Sender, number: i64, how: &[Sending]) -> usize {
    let messages = how.iter().zip(number * MANY..);
    messages.take_while(|&(&how, message)| send_one(sender, how, message)).count()
}

fn send_one(sender: &Sender, how: Sending, message: i64) -> bool {
    match how {
        Sending::Waiting => {}
        Sending::Late => library::pause(),
        Sending::Trying => {
            for _ in 0..TRIES {
                match sender.try_send(message) {
                    Ok(()) => return true,
                    Err(TrySendError::Disconnected(_)) => return false,
                    Err(TrySendError::Full(returned)) => assert_eq!(returned, message),
                }
                library::pause();
            }
        }
    }
    sender.send(message).map_err(|error| assert_eq!(error.0, message)).is_ok()
}

/// Receives at most so many messages, until no senders are left.
fn receive(receiver: &Receiver, most: usize, how: &[Receiving]) -> Vec<i64> {
    let mut received = Vec::new();
    for &how in how.iter().cycle() {
        if received.len() == most {
            break;
        }
        let Some(message) = receive_one(receiver, how) else { break };
        received.extend(message);
    }
    received
}

/// Returns a message; or `Some(None)` if there is none yet; or `None` if there will be none.
fn receive_one(receiver: &Receiver, how: Receiving) -> Option<Option<i64>> {
    match how {
        Receiving::Waiting => {}
        Receiving::Late => library::pause(),
        Receiving::ForAMoment => match receiver.recv_timeout(A_MOMENT) {
            Err(RecvTimeoutError::Timeout) => return Some(None),
            received => return received.ok().map(Some),
        },
        Receiving::Trying => match receiver.try_recv() {
            Err(TryRecvError::Empty) => {
                library::pause();
                return Some(None);
            }
            received => return received.ok().map(Some),
        },
    }
    receiver.recv().ok().map(Some)
}
