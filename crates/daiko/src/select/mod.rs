//! Waiting for the first of several operations: `select!`.
//!
//! Each operation is a `Case`; those of an object stand beside it.

mod case;
mod join;
mod queued;
mod random;

pub(crate) use self::case::{Borrowed, Case, Look};
pub use self::case::{Patience, select};
pub use self::join::SelectJoin;
pub(crate) use self::queued::Selectable;
pub use self::queued::Selected;

/// Waits for the first of several operations, and runs its body.
///
/// An operation is written as the function that it stands for, and gives the result of that
/// function; `-> result` may be left out if there is none.
///
/// | operation | of | waits |
/// |---|---|---|
/// | `recv(receiver) -> message` | [`Receiver`], [`OneshotReceiver`] | for a message, or the end |
/// | | [`shm::Receiver`], [`shm::MpmcReceiver`] | likewise |
/// | `send(sender, value) -> sent` | [`Sender`] | for room, or a receiver |
/// | `join(handle) -> result` | [`JoinHandle`], [`ScopedJoinHandle`] | for the end of a fiber |
/// | `wait(object)` | [`Event`], [`CancelToken`], [`shm::Event`] | until it is set, or cancelled |
/// | `wait(group)` | [`WaitGroup`] | until all other members have left |
/// | `acquire(semaphore) -> permit` | [`Semaphore`] | for a permit |
/// | `acquire_many(semaphore, count) -> permit` | likewise | for so many at once |
/// | `sleep(until)` | `Duration`, `Instant` | as [`time::sleep`](crate::time::sleep) |
/// | `tick(interval) -> missed` | [`Interval`] | for its next tick |
/// | `wait_until(&word, condition) -> value` | a polled [`Word`] | until the condition holds |
/// | `wait_until_notified(&word, condition) -> value` | a notified [`Word`] | likewise |
/// | `readable(io) -> result` | a socket, a listener, [`Async`] | for something to read |
/// | `writable(io) -> result` | likewise | for room to write |
/// | `accept(listener) -> result` | [`TcpListener`], [`UnixListener`] | for a connection |
///
/// - `default => ..` runs if none is possible at once, `default(timeout) => ..` if none is possible
///   within the timeout.
///
/// If several operations are possible, one is taken at random, each with the same probability:
/// all kinds are alike. If none is, the first to become possible is taken. A select with neither an
/// operation nor `default` does not compile.
///
/// - A waiter queues at each of the objects. If it is woken at a channel, but another thread was
///   faster, it becomes the first in line there, and the last at the other objects. Operations on a
///   channel without the other end are possible: they give an error.
/// - The value of a `send` is made before the wait, and dropped if another operation comes first.
/// - Any number of `sleep` may stand in one select; a `Duration` begins with the select. A `tick`
///   that does not come first is due as before.
/// - After `readable` and `writable` another thread may be faster, so that the call waits.
/// - An `acquire` stands in line as any other waiter. A permit that becomes available at the moment
///   when another operation ends the select goes to the next in line.
/// - `wait` for a group borrows the member mutably. The member has left while the select waits, and
///   is back in the group when another operation comes first. Once all have left, it is the one
///   member of a new group.
/// - `join` borrows the handle mutably. Once it has given the result, the handle has none any more:
///   a further join gives [`JoinError::Taken`] at once.
///
/// ```
/// use daiko::sync::channel;
/// use std::time::Duration;
///
/// daiko::run(|| {
///     let (numbers, number) = channel::bounded(1);
///     let (stop, stopped) = channel::oneshot();
///     let counter = daiko::spawn(move || {
///         let mut sum = 0;
///         loop {
///             daiko::select! {
///                 recv(number) -> number => sum += number.unwrap_or(0),
///                 recv(stopped) -> _ => return sum,
///                 default(Duration::from_secs(3600)) => panic!("an hour without a number"),
///             }
///         }
///     });
///     (1..=3).for_each(|number| numbers.send(number).unwrap());
///     while !numbers.is_empty() {
///         daiko::yield_now();
///     }
///     stop.send(()).unwrap();
///     assert_eq!(counter.join().unwrap(), 6);
/// });
/// ```
///
/// Ends of fibers, events, times and channels in one select:
///
/// ```
/// use daiko::sync::{Event, channel};
/// use daiko::time::{self, interval};
/// use std::time::{Duration, Instant};
///
/// daiko::run(|| {
///     let (lines, line) = channel::bounded::<String>(8);
///     let mut worker = daiko::spawn(move || lines.send("done".into()));
///     let (stop, begun) = (Event::manual(), Instant::now());
///     let (mut beat, mut received) = (interval(Duration::from_millis(1)), 0);
///     loop {
///         daiko::select! {
///             recv(line) -> line => received += line.map_or(0, |line| line.len()),
///             join(worker) -> result => { result.unwrap().unwrap(); break }
///             wait(stop) => break,
///             tick(beat) -> _missed => print!("."),
///             sleep(begun + Duration::from_secs(3600)) => panic!("an hour"),
///         }
///     }
///     assert!(received <= 4);
/// });
/// ```
///
/// Permits, and the end of a group of helpers:
///
/// ```
/// use daiko::sync::{Semaphore, WaitGroup, channel};
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let (jobs, job) = channel::unbounded::<u64>();
///     (1..=10).for_each(|number| jobs.send(number).unwrap());
///     let (stop, stopped) = channel::oneshot();
///     let (at_once, mut helpers) = (Arc::new(Semaphore::new(2)), WaitGroup::new());
///     stop.send(()).unwrap();
///     while let Ok(number) = job.try_recv() {
///         daiko::select! {
///             acquire(at_once) -> permit => {
///                 permit.forget();
///                 let (theirs, member) = (at_once.clone(), helpers.clone());
///                 daiko::spawn(move || {
///                     let (_member, _permit) = (member, theirs.adopt(1));
///                     print!("{}", number * number);
///                 });
///             }
///             recv(stopped) -> _ => break,
///         }
///     }
///     daiko::select! {
///         wait(helpers) => assert_eq!(at_once.available_permits(), 2),
///         sleep(std::time::Duration::from_secs(3600)) => panic!("an hour"),
///     }
/// });
/// ```
///
/// # Panics
///
/// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
/// [`Poller`](crate::agent::Poller); or if it would have to wait for a word, a descriptor or
/// an object of a segment, and the caller is not a fiber.
///
/// # Misuse that does not compile
///
/// An operation that is not supported; the message names those that are:
///
/// ```compile_fail
/// let lock = daiko::sync::Mutex::new(1);
/// daiko::select! {
///     lock(lock) -> guard => drop(guard),
/// }
/// ```
///
/// [`Receiver`]: crate::sync::channel::Receiver
/// [`OneshotReceiver`]: crate::sync::channel::OneshotReceiver
/// [`shm::Receiver`]: crate::shm::Receiver
/// [`shm::MpmcReceiver`]: crate::shm::MpmcReceiver
/// [`shm::Event`]: crate::shm::Event
/// [`Sender`]: crate::sync::channel::Sender
/// [`JoinHandle`]: crate::JoinHandle
/// [`ScopedJoinHandle`]: crate::ScopedJoinHandle
/// [`Event`]: crate::sync::Event
/// [`WaitGroup`]: crate::sync::WaitGroup
/// [`Semaphore`]: crate::sync::Semaphore
/// [`CancelToken`]: crate::cancel::CancelToken
/// [`Interval`]: crate::time::Interval
/// [`Word`]: crate::watch::Word
/// [`Async`]: crate::net::Async
/// [`TcpListener`]: crate::net::TcpListener
/// [`UnixListener`]: crate::net::UnixListener
/// [`JoinError::Taken`]: crate::JoinError::Taken
#[macro_export]
macro_rules! select {
    // All cases are present. Each has a name, its constructor, the pattern of its result, and its
    // body.
    (@run [$(($case:ident, $make:expr, $result:pat, $body:expr))+] ($patience:expr) $default:expr) => {{
        // When a body runs, no case is borrowed any more, and unsent messages have been dropped.
        let ($($case,)+) = {
            $(let mut $case = $make;)+
            $crate::select::select([$($case.borrow_case()),+], $patience);
            ($($case.result(),)+)
        };
        $(if let Some(result) = $case {
            let $result = result;
            $body
        } else)+ {
            $default
        }
    }};
    (@case [$($cases:tt)*]) => {
        $crate::select!(@run [$($cases)*] ($crate::select::Patience::Endless)
            unreachable!("daiko: a select ended without a case"))
    };
    (@case [$($cases:tt)*] default => $body:expr $(,)?) => {
        $crate::select!(@run [$($cases)*] ($crate::select::Patience::None) $body)
    };
    (@case [$($cases:tt)*] default($timeout:expr) => $body:expr $(,)?) => {
        $crate::select!(@run [$($cases)*] ($crate::select::Patience::For($timeout)) $body)
    };
    (@case [$($cases:tt)*] $operation:ident ($($of:tt)*) -> $result:pat => $($rest:tt)+) => {
        $crate::select!(@body [$($cases)*]
            (case, $crate::select!(@make $operation $($of)*), $result) $($rest)+)
    };
    // Without a result.
    (@case [$($cases:tt)*] $operation:ident ($($of:tt)*) => $($rest:tt)+) => {
        $crate::select!(@case [$($cases)*] $operation ($($of)*) -> () => $($rest)+)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:block, $($rest:tt)*) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:block $($rest:tt)*) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:expr, $($rest:tt)*) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:expr) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)])
    };
    (@make recv $receiver:expr) => {{ use $crate::shm::SelectRecv as _; $receiver.select_recv() }};
    (@make send $sender:expr, $value:expr) => { $sender.select_send($value) };
    (@make join $handle:expr) => {{ use $crate::select::SelectJoin as _; $handle.select_join() }};
    (@make wait $object:expr) => {{ use $crate::shm::SelectWait as _; $object.select_wait() }};
    (@make acquire $semaphore:expr) => { $semaphore.select_acquire(1) };
    (@make acquire_many $semaphore:expr, $count:expr) => { $semaphore.select_acquire($count) };
    (@make sleep $until:expr) => { $crate::time::select_sleep($until) };
    (@make tick $interval:expr) => { $interval.select_tick() };
    (@make wait_until $word:expr, $until:expr) => {
        $crate::watch::select_wait_until($word, $until)
    };
    (@make wait_until_notified $word:expr, $until:expr) => {
        $crate::watch::select_wait_until_notified($word, $until)
    };
    (@make readable $io:expr) => {{ use $crate::net::SelectReady as _; $io.select_readable() }};
    (@make writable $io:expr) => {{ use $crate::net::SelectReady as _; $io.select_writable() }};
    (@make accept $listener:expr) => { $listener.select_accept() };
    (@ $($other:tt)*) => {
        compile_error!("expected `operation -> pattern => body`, with one of the operations \
            `recv(receiver)`, `send(sender, value)`, `join(handle)`, `wait(event, token or group)`, \
            `acquire(semaphore)`, `acquire_many(semaphore, count)`, \
            `sleep(until)`, `tick(interval)`, `wait_until(word, condition)`, \
            `wait_until_notified(word, condition)`, `readable(io)`, `writable(io)`, \
            `accept(listener)`; or \
            `default => body`, `default(timeout) => body`")
    };
    ($($cases:tt)+) => { $crate::select!(@case [] $($cases)+) };
}
