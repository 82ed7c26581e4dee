//! Samples of a running thread: its instruction and registers at regular intervals.
//!
//! The kernel's own clock (`PERF_COUNT_SW_CPU_CLOCK`) exists in virtual machines as well. It runs
//! while the thread runs, and interrupts it: the sample holds the next instruction. Only
//! interruptions of user space are samples.

use std::fs::File;
use std::os::fd::AsFd;

use crate::atomic::{AtomicU64, Ordering};
use crate::counters::CounterError;
use crate::memory::{Mapping, page_size};
use crate::perf::{self, Attributes};

/// Pages of unread samples: a power of two.
const PAGES: usize = 8;
/// `PERF_SAMPLE_IP`, `PERF_SAMPLE_TID`, `PERF_SAMPLE_REGS_USER`.
const SAMPLED: u64 = 1 | 1 << 1 | 1 << 12;
/// The kernel's numbers: ax, bx, cx, dx, si, di, bp, sp, ip; r8 to r15.
const REGISTERS: u64 = 0x1ff | 0xff << 16;
/// Maps the numbers in instruction encodings to the kernel's order, which has ip at 8.
const ORDER: [usize; 16] = [0, 2, 3, 1, 7, 6, 4, 5, 9, 10, 11, 12, 13, 14, 15, 16];
/// Offsets in `perf_event_mmap_page`: the kernel's write position and the reader's position.
pub(crate) const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;
/// Bytes of a sample: header, address, ids, register ABI, the registers.
const SAMPLE_LEN: usize = 8 + 8 + 8 + 8 + 17 * 8;

/// The state of a thread at an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The next instruction.
    pub address: u64,
    /// The registers in the order of instruction encodings: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi,
    /// r8 to r15.
    pub registers: [u64; 16],
    /// The width of its addresses in bits: 64 or 32.
    pub bits: u32,
}

/// Samples of one thread since the sampler was opened.
#[derive(Debug)]
pub struct Sampler {
    ring: Mapping,
    /// Closing it ends the samples.
    _event: File,
}

impl Sampler {
    /// Takes a sample each `period_ns` nanoseconds of run time of the thread with id `thread`. The
    /// thread may belong to any process that the caller may trace.
    ///
    /// # Errors
    ///
    /// [`CounterError::Processor`] on processors other than x86-64;
    /// [`CounterError::NotAllowed`] for threads of another user, and for all threads if
    /// `kernel.perf_event_paranoid` is above 2 or a filter refuses the call;
    /// [`CounterError::Locked`] for too many samplers at the same time.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_sys::{sampling::Sampler, thread};
    ///
    /// if let Ok(mut sampler) = Sampler::open(thread::id(), 1_000_000) {
    ///     sampler.drain(|sample| assert_ne!(sample.address, 0));
    /// }
    /// ```
    pub fn open(thread: u32, period_ns: u64) -> Result<Self, CounterError> {
        const CPU_CLOCK: u64 = 0;
        if !cfg!(target_arch = "x86_64") {
            return Err(CounterError::Processor);
        }
        let attributes = Attributes {
            kind: perf::SOFTWARE,
            config: CPU_CLOCK,
            period: period_ns,
            sample_type: SAMPLED,
            registers: REGISTERS,
            flags: perf::NOT_KERNEL | perf::NOT_BELOW,
            ..Attributes::default()
        };
        let event = perf::open(&attributes, thread, None)?;
        let ring = Mapping::of_file(event.as_fd(), (1 + PAGES) * page_size());
        Ok(Self { ring: ring.map_err(|_| CounterError::Locked)?, _event: event })
    }

    /// Passes all samples since the last call to `each`, oldest first. Samples beyond the ring's
    /// room are lost.
    pub fn drain(&mut self, mut each: impl FnMut(Sample)) {
        // Acquire: pairs with the kernel's barrier between the records and the head.
        let head = control_word(&self.ring, HEAD).load(Ordering::Acquire);
        let mut tail = control_word(&self.ring, TAIL).load(Ordering::Relaxed);
        while tail < head {
            let header = u64::from_ne_bytes(self.read(tail));
            let (kind, len) = (header as u32, header >> 48);
            // A sample of a thread that is about to end has no registers and is shorter.
            if kind == SAMPLE && len as usize == SAMPLE_LEN {
                each(parse(self.read(tail)));
            }
            // A record has at least a header; a length of 0 would never end the loop.
            tail += len.max(8);
        }
        // Release: the kernel reuses these bytes only after they were read.
        control_word(&self.ring, TAIL).store(head, Ordering::Release);
    }

    /// Reads bytes from a position on, wrapping around the end.
    fn read<const LEN: usize>(&self, from: u64) -> [u8; LEN] {
        let size = PAGES * page_size();
        // SAFETY: the records lie behind the control page; the kernel does not write between tail
        // and head.
        let data = unsafe { self.ring.start().as_ptr().add(page_size()) };
        std::array::from_fn(|byte| {
            // SAFETY: the offset is below the size of the records.
            unsafe { data.add((from as usize + byte) % size).read() }
        })
    }
}

/// The word at an offset of `perf_event_mmap_page`, in the ring of an event.
pub(crate) fn control_word(ring: &Mapping, offset: usize) -> &AtomicU64 {
    // SAFETY: the first page of the ring is the kernel's control page; its words are aligned and
    // live as long as the ring.
    unsafe { AtomicU64::from_ptr(ring.start().as_ptr().add(offset).cast()) }
}

fn parse(record: [u8; SAMPLE_LEN]) -> Sample {
    let word = |index: usize| {
        u64::from_ne_bytes(record[index * 8..][..8].try_into().expect("eight bytes"))
    };
    const NARROW: u64 = 1;
    Sample {
        address: word(1),
        registers: ORDER.map(|at| word(4 + at)),
        bits: if word(3) == NARROW { 32 } else { 64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch;
    use crate::thread;

    #[test]
    fn registers_come_in_the_order_of_encodings() {
        let words: [u64; SAMPLE_LEN / 8] = std::array::from_fn(|word| word as u64 + 100);
        let mut record = [0; SAMPLE_LEN];
        for (bytes, word) in record.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        let sample = parse(record);
        assert_eq!(sample.address, 101);
        // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi; the kernel has ax, bx, cx, dx, si, di, bp, sp.
        assert_eq!(sample.registers[..8], [104, 106, 107, 105, 111, 110, 108, 109]);
        assert_eq!(sample.registers[8..], [113, 114, 115, 116, 117, 118, 119, 120]);
    }

    /// The address of the loop is known, and so is the value of one register.
    #[test]
    fn a_thread_is_seen_where_it_runs() {
        let mut sampler = match Sampler::open(thread::id(), 200_000) {
            Ok(sampler) => sampler,
            Err(error) => return println!("skipped: {error}"),
        };
        const COUNT: u64 = 200_000_000;
        let mut seen = 0;
        // The kernel takes fewer samples if its interrupts take long, as on a busy host.
        for _ in 0..100 {
            let code = arch::count_down(COUNT);
            let mut counts = Vec::new();
            sampler.drain(|sample| {
                if code.contains(&sample.address) {
                    assert_eq!(sample.bits, 64);
                    counts.push(sample.registers[13]);
                }
            });
            // Equal if the thread was kept from its CPU until after the time of the next sample.
            assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
            assert!(counts.iter().all(|&count| count <= COUNT), "{counts:?}");
            seen += counts.iter().collect::<std::collections::HashSet<_>>().len();
            sampler.drain(|sample| assert!(!code.contains(&sample.address), "given twice"));
            if seen >= 10 {
                return;
            }
        }
        panic!("{seen} samples");
    }

    #[test]
    fn samples_beyond_the_room_are_lost_and_the_rest_is_whole() {
        let mut sampler = match Sampler::open(thread::id(), 10_000) {
            Ok(sampler) => sampler,
            Err(error) => return println!("skipped: {error}"),
        };
        let room = PAGES * page_size() / SAMPLE_LEN;
        let mut run = || {
            let begin = crate::clock::thread_cpu_ns();
            while crate::clock::thread_cpu_ns() - begin < 20_000 * room as u64 {}
            let mut samples = 0;
            sampler.drain(|sample| {
                assert_eq!(sample.bits, 64);
                samples += 1;
            });
            samples
        };
        for _ in 0..3 {
            let samples = run();
            assert!((1..=room).contains(&samples), "{samples}");
        }
    }

    #[test]
    fn a_thread_that_is_not_there_is_an_error() {
        let error = Sampler::open(i32::MAX as u32, 1_000_000).unwrap_err();
        assert!(!matches!(error, CounterError::Refused { .. }), "{error}");
    }
}
