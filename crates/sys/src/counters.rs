//! Hardware counters: cache misses of a process and of all threads that it starts, and the work of
//! a single thread.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use crate::perf::{self, Attributes};

/// A cache miss: in the last data cache, or in the translation caches of data addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// A load that misses the last cache.
    LastCacheLoad,
    /// A store that misses the last cache.
    LastCacheStore,
    /// A load that misses the translation caches.
    TranslationLoad,
    /// A store that misses the translation caches.
    TranslationStore,
}

impl Miss {
    /// All kinds of misses.
    pub const ALL: [Self; 4] =
        [Self::LastCacheLoad, Self::LastCacheStore, Self::TranslationLoad, Self::TranslationStore];

    /// The kernel's encoding: the cache, the operation, and "misses".
    const fn config(self) -> u64 {
        const LAST_CACHE: u64 = 2;
        const TRANSLATIONS: u64 = 3;
        const LOAD: u64 = 0;
        const STORE: u64 = 1;
        const MISSES: u64 = 1;
        let (cache, operation) = match self {
            Self::LastCacheLoad => (LAST_CACHE, LOAD),
            Self::LastCacheStore => (LAST_CACHE, STORE),
            Self::TranslationLoad => (TRANSLATIONS, LOAD),
            Self::TranslationStore => (TRANSLATIONS, STORE),
        };
        cache | operation << 8 | MISSES << 16
    }
}

/// Reason for a missing counter. Its message is one line and names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterError {
    /// The processor has no such counter, or a virtual machine hides it.
    Missing,
    /// The registers of this kind of processor are not known.
    Processor,
    /// The caller may not observe that thread, or the kernel's work for it.
    NotAllowed,
    /// The thread does not exist.
    NoSuchThread,
    /// No more memory may be locked, and samples need locked memory.
    Locked,
    /// The kernel refused for a reason of its own.
    Refused {
        /// The kernel's error number.
        errno: i32,
    },
}

impl fmt::Display for CounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing => f.write_str(
                "the processor shows no such counter: use a machine that is not virtual, or one that passes them on",
            ),
            Self::Processor => f.write_str("registers are sampled on x86-64 only: use such a machine"),
            Self::NotAllowed => {
                f.write_str("counters are not allowed: as root, sysctl kernel.perf_event_paranoid=1")
            }
            Self::NoSuchThread => f.write_str("there is no such thread: it has ended"),
            Self::Locked => f.write_str(
                "no more memory may be locked for samples: raise ulimit -l, or as root sysctl kernel.perf_event_mlock_kb",
            ),
            Self::Refused { errno } => {
                write!(f, "counters are refused: {}", io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for CounterError {}

/// A counter that starts when it is opened and counts in user space and in the kernel.
#[derive(Debug)]
pub struct Counter(File);

/// An event of a hardware counter, in the kernel's encoding.
///
/// # Examples
///
/// ```
/// use daiko_sys::counters::HardwareEvent;
///
/// // CYCLE_ACTIVITY.STALLS_TOTAL: code A3h, mask 4, in cycles with at least 4.
/// const STALLS: HardwareEvent = HardwareEvent::intel(0xa3, 0x04, 4);
/// assert_ne!(STALLS, HardwareEvent::CYCLES);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardwareEvent {
    pub(crate) kind: u32,
    pub(crate) config: u64,
}

impl HardwareEvent {
    /// Cycles, of any length, in which the thread runs.
    pub const CYCLES: Self = Self { kind: perf::HARDWARE, config: 0 };
    /// Completed instructions.
    pub const INSTRUCTIONS: Self = Self { kind: perf::HARDWARE, config: 1 };

    /// Returns the event of a cache miss.
    pub const fn miss(miss: Miss) -> Self {
        Self { kind: perf::CACHE, config: miss.config() }
    }

    /// Returns an event of Intel processors by its code and unit mask. With a counter mask other
    /// than 0, it counts the cycles in which the event occurs at least so often (Intel SDM, volume
    /// 3, 20.2.1.1).
    pub const fn intel(code: u8, mask: u8, counter_mask: u8) -> Self {
        let config = code as u64 | (mask as u64) << 8 | (counter_mask as u64) << 24;
        Self { kind: perf::RAW, config }
    }

    /// Returns an event of AMD processors by its code of 12 bits and its unit mask (AMD APM, volume
    /// 2, 13.2.1).
    ///
    /// # Panics
    ///
    /// If the code is longer.
    pub const fn amd(code: u16, mask: u8) -> Self {
        assert!(code < 1 << 12, "the code of an event has 12 bits");
        let (low, high) = (code as u64 & 0xff, code as u64 >> 8);
        Self { kind: perf::RAW, config: low | (mask as u64) << 8 | high << 32 }
    }
}

impl Counter {
    /// Counts for the process with id `pid` and the threads that it starts from now on. The process
    /// should have one thread.
    ///
    /// # Errors
    ///
    /// [`CounterError::Missing`] on many virtual machines.
    pub fn open(miss: Miss, pid: u32) -> Result<Self, CounterError> {
        Self::open_event(HardwareEvent::miss(miss), perf::INHERIT, pid)
    }

    /// Counts for the thread with id `thread` alone, of any process that the caller may trace, in
    /// user space.
    ///
    /// # Errors
    ///
    /// [`CounterError::Missing`] on many virtual machines.
    pub fn of_thread(event: HardwareEvent, thread: u32) -> Result<Self, CounterError> {
        Self::open_event(event, perf::NOT_KERNEL, thread)
    }

    fn open_event(event: HardwareEvent, flags: u64, pid: u32) -> Result<Self, CounterError> {
        let HardwareEvent { kind, config } = event;
        let attributes = Attributes {
            kind,
            config,
            read_format: perf::TIMES,
            flags: flags | perf::NOT_BELOW,
            ..Attributes::default()
        };
        perf::open(&attributes, pid, None).map(Self)
    }

    /// The number of events. If the kernel shared its counters by time, the count is scaled to the
    /// whole time.
    ///
    /// # Errors
    ///
    /// The error of `read`; `InvalidData` if this counter never ran.
    pub fn count(&self) -> io::Result<f64> {
        let mut bytes = [0; 24];
        (&self.0).read_exact(&mut bytes)?;
        let [value, wanted, counted] = [0, 1, 2].map(|word| {
            let bytes = &bytes[word * 8..][..8];
            u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
        });
        scaled(value, wanted, counted).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn scaled(value: u64, wanted: u64, counted: u64) -> Option<f64> {
    match (wanted, counted) {
        (0, _) => Some(0.0),
        (_, 0) => None,
        _ => Some(value as f64 * wanted as f64 / counted as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_numbered_as_the_kernel_does() {
        let numbers = Miss::ALL.map(Miss::config);
        assert_eq!(numbers, [0x1_0002, 0x1_0102, 0x1_0003, 0x1_0103]);
    }

    #[test]
    fn codes_and_masks_are_placed_as_the_processors_have_them() {
        let stalls = HardwareEvent::intel(0xa3, 0x06, 6);
        assert_eq!((stalls.kind, stalls.config), (4, 0x0600_06a3));
        assert_eq!(HardwareEvent::amd(0xd6, 0xa2).config, 0xa2d6);
        assert_eq!(HardwareEvent::amd(0x1a0, 0x1e).config, 0x1_0000_1ea0);
        assert_eq!(HardwareEvent::miss(Miss::LastCacheLoad).config, 0x1_0002);
    }

    #[test]
    fn counts_of_a_part_of_the_time_are_scaled() {
        assert_eq!(scaled(10, 100, 100), Some(10.0));
        assert_eq!(scaled(10, 100, 25), Some(40.0));
        assert_eq!(scaled(0, 0, 0), Some(0.0));
        assert_eq!(scaled(0, 100, 0), None);
    }

    #[test]
    fn misses_of_this_process_are_counted_or_refused_with_a_remedy() {
        for miss in Miss::ALL {
            match Counter::open(miss, std::process::id()) {
                // Beside busy counters it may never run.
                Ok(counter) => assert!(counter.count().map_or(true, |count| count >= 0.0)),
                Err(error) => {
                    assert!(!matches!(error, CounterError::Refused { .. }), "{miss:?}: {error}");
                    println!("skipped: {miss:?}: {error}");
                }
            }
        }
    }

    /// Uses an event that the kernel counts itself and that exists everywhere: the run time of
    /// threads, in nanoseconds.
    #[test]
    fn the_work_of_later_threads_is_counted_too() {
        const TASK_CLOCK: HardwareEvent = HardwareEvent { kind: perf::SOFTWARE, config: 1 };
        let counter = match Counter::open_event(TASK_CLOCK, perf::INHERIT, crate::thread::id()) {
            Ok(counter) => counter,
            Err(error) => return println!("skipped: {error}"),
        };
        const NS: u64 = 20_000_000;
        let spin = || {
            let start = crate::clock::thread_cpu_ns();
            while crate::clock::thread_cpu_ns() - start < NS {}
        };
        std::thread::spawn(spin).join().unwrap();
        let count = counter.count().unwrap();
        assert!(count >= NS as f64, "{count}");
    }

    #[test]
    fn a_missing_thread_is_an_error() {
        assert!(Counter::open(Miss::LastCacheLoad, i32::MAX as u32).is_err());
        assert!(Counter::of_thread(HardwareEvent::INSTRUCTIONS, i32::MAX as u32).is_err());
    }

    #[test]
    fn instructions_of_this_thread_are_counted_or_refused_with_a_remedy() {
        match Counter::of_thread(HardwareEvent::INSTRUCTIONS, crate::thread::id()) {
            Ok(counter) => {
                let before = counter.count().unwrap();
                (0..1000).for_each(|number| {
                    std::hint::black_box(number);
                });
                assert!(counter.count().unwrap() >= before + 1000.0);
            }
            Err(error) => {
                assert!(!matches!(error, CounterError::Refused { .. }), "{error}");
                println!("skipped: {error}");
            }
        }
    }
}
