//! One flow: its messages, and the records that its receiver makes at each wake-up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, mpsc};

use daiko_core::place::Swaps;
use daiko_sys::{clock, cpu, steering};

use super::board::{Board, Wake};

/// Bytes of a message.
pub(super) const BYTES: usize = 1024;
/// Bytes that a receiver reads at once.
const ROOM: usize = 4 * BYTES;

/// Due time and sending time of a message, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
}

/// Builds message number `number` of flow number `flow`.
pub(super) fn message(flow: usize, number: u64, times: Option<Times>) -> [u8; BYTES] {
    let Times { due_ns, sent_ns } = times.unwrap_or(Times { due_ns: 0, sent_ns: 0 });
    let mut bytes = [0; BYTES];
    for (room, word) in bytes.chunks_exact_mut(8).zip([flow as u64, number, due_ns, sent_ns]) {
        room.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Returns the flow, the number and the times of a message.
fn read(message: &[u8]) -> (u64, u64, Option<Times>) {
    let [flow, number, due_ns, sent_ns] = [0, 1, 2, 3]
        .map(|word| u64::from_ne_bytes(message[word * 8..][..8].try_into().expect("eight bytes")));
    (flow, number, (due_ns != 0).then_some(Times { due_ns, sent_ns }))
}

/// Result of one read by a receiver: the number of bytes, 0 at the end, and whether it had to wait
/// for them.
pub(super) type Taken = io::Result<(usize, bool)>;

/// Receives all of the flows by `take` until all have ended. `spawn` starts one body per flow.
///
/// # Errors
/// Returns the error of `spawn`, or of the first flow that fails.
pub(super) fn receive_each<S: AsFd + Send + 'static>(
    flows: Vec<S>,
    board: &Arc<Board>,
    take: fn(&S, &mut [u8]) -> Taken,
    spawn: impl Fn(Box<dyn FnOnce() + Send>) -> io::Result<()>,
) -> io::Result<()> {
    let (tell, ends) = mpsc::channel();
    for stream in flows {
        let (board, tell) = (board.clone(), tell.clone());
        spawn(Box::new(move || {
            // The channel is closed once another flow has failed; the result is then not needed.
            let _ = tell.send(receive(&stream, &board, |bytes| take(&stream, bytes)));
        }))?;
    }
    drop(tell);
    ends.iter().collect()
}

/// Receives a whole flow by `take`.
///
/// # Errors
/// Returns the error of `take`, or `InvalidData` for a message that was not sent.
fn receive(
    socket: &impl AsFd,
    board: &Board,
    mut take: impl FnMut(&mut [u8]) -> Taken,
) -> io::Result<()> {
    let mut receiver = FlowReceiver::new(board);
    let (mut bytes, mut filled, mut waited) = ([0; ROOM], 0, false);
    loop {
        let (taken, had_to_wait) = take(&mut bytes[filled..])?;
        if taken == 0 {
            return Ok(());
        }
        filled += taken;
        waited |= had_to_wait;
        let whole = filled / BYTES * BYTES;
        if whole > 0 {
            receiver.received(&bytes[..whole], waited, socket.as_fd())?;
            bytes.copy_within(whole..filled, 0);
            (filled, waited) = (filled - whole, false);
        }
    }
}

struct FlowReceiver<'a> {
    board: &'a Board,
    /// Number of the next message.
    number: u64,
    path: ReceiverPath,
}

impl<'a> FlowReceiver<'a> {
    fn new(board: &'a Board) -> Self {
        Self { board, number: 0, path: ReceiverPath::default() }
    }

    /// Records whole messages. The work is the same for all methods: two clock readings, the CPU
    /// number, and at a wake-up one call for the CPU of the packet.
    fn received(&mut self, bytes: &[u8], waited: bool, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (now, cpu) = (clock::monotonic_ns(), cpu::current());
        let (flow, _, times) = read(bytes);
        if waited && times.is_some() {
            let waker = steering::incoming_cpu(socket)?.unwrap_or(cpu);
            self.board.note_wake(cpu, self.path.woken(waker as u16, cpu as u16));
        }
        self.path.runs_on(cpu as u16);
        let before = self.number;
        for message in bytes.chunks_exact(BYTES) {
            let (of, number, times) = read(message);
            if of != flow || number != self.number {
                self.board.wrong().note(self.number, number);
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.number += 1;
            if let Some(Times { due_ns, sent_ns }) = times {
                self.board.note_latency(
                    cpu,
                    now.saturating_sub(due_ns),
                    now.saturating_sub(sent_ns),
                );
            }
        }
        self.board.note_received(flow as usize, self.number, self.number - before, cpu);
        Ok(())
    }
}

/// The CPUs on which a receiver has run.
#[derive(Default)]
struct ReceiverPath {
    /// `None` before its first message.
    cpu: Option<u16>,
    swaps: Swaps,
    /// Number of consecutive swaps up to the last wake-up.
    in_a_row: u64,
}

impl ReceiverPath {
    /// Classifies a wake-up by a packet that was processed on `waker`, after which the receiver
    /// runs on `cpu`.
    fn woken(&mut self, waker: u16, cpu: u16) -> Wake {
        let Some(previous) = self.cpu else { return Wake::default() };
        let swaps = self.swaps.is_swap(waker, previous, cpu);
        let settles = (!swaps && self.in_a_row > 0).then_some(self.in_a_row);
        self.in_a_row = if swaps { self.in_a_row + 1 } else { 0 };
        Wake { migrates: cpu != previous, swaps, settles }
    }

    fn runs_on(&mut self, cpu: u16) {
        self.cpu = Some(cpu);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_migration_is_told_from_a_swap_and_swaps_are_counted_until_they_are_over() {
        let mut path = ReceiverPath::default();
        assert_eq!(path.woken(0, 0), Wake::default(), "nowhere before");
        path.runs_on(0);
        let stays = Wake::default();
        let moves = Wake { migrates: true, ..stays };
        let swaps = Wake { swaps: true, ..moves };
        // The paper's figure 2, continued until the interrupt has followed.
        let wakes = [
            (0, 0, stays),
            (0, 1, moves),
            (0, 0, swaps),
            (1, 1, swaps),
            (1, 1, Wake { settles: Some(2), ..stays }),
            (1, 1, stays),
            (1, 0, moves),
            (1, 1, swaps),
            (0, 1, Wake { settles: Some(1), ..stays }),
        ];
        for (at, (waker, cpu, wake)) in wakes.into_iter().enumerate() {
            assert_eq!(path.woken(waker, cpu), wake, "{at}");
            path.runs_on(cpu);
        }
    }

    const NOW: Option<Times> = Some(Times { due_ns: 1, sent_ns: 2 });

    /// Receives `bytes` in pieces of these lengths, repeated cyclically.
    fn in_pieces(mut bytes: &[u8], board: &Board, lengths: &[usize]) -> io::Result<()> {
        let mut lengths = lengths.iter().cycle();
        let socket = std::os::unix::net::UnixStream::pair()?.0;
        receive(&socket, board, |room| {
            let room_len = room.len();
            let read = bytes.read(&mut room[..room_len.min(*lengths.next().expect("a cycle"))])?;
            Ok((read, true))
        })
    }

    proptest! {
        #[test]
        fn messages_are_put_together_from_any_pieces(
            lengths in prop::collection::vec(1usize..3000, 1..20),
            count in 1u64..20,
        ) {
            let cpus = cpu::allowed().unwrap().iter().max().unwrap() + 1;
            let board = Board::new(3, cpus).unwrap();
            let bytes: Vec<u8> = (0..count).flat_map(|number| message(2, number, NOW)).collect();
            in_pieces(&bytes, &board, &lengths).unwrap();
            prop_assert_eq!((board.received(2), board.messages()), (count, count));
            let [of_due, of_sent] = board.latencies();
            prop_assert_eq!((of_due.total(), of_sent.total()), (count, count));
            prop_assert!(of_due.max() > of_sent.max());
            prop_assert!((1..=count).contains(&board.totals().wakes));
            prop_assert_eq!(board.wrong().failure(), None);
        }
    }

    #[test]
    fn a_message_out_of_order_is_reported() {
        let cpus = cpu::allowed().unwrap().iter().max().unwrap() + 1;
        for wrong in [message(0, 2, NOW), message(1, 1, NOW)] {
            let board = Board::new(2, cpus).unwrap();
            let bytes = [message(0, 0, None), wrong].concat();
            let error = in_pieces(&bytes, &board, &[ROOM]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(board.wrong().failure().is_some());
        }
    }
}
