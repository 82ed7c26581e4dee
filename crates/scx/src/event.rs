//! A wake-up that `daiko follow record` gets from the scheduler.

/// One wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeEvent {
    /// Nanoseconds since the machine was started.
    pub time_ns: u64,
    /// The thread's number.
    pub task: u32,
    /// The CPU that processed the wake-up.
    pub waker: u16,
    /// The CPU on which the task last ran.
    pub previous: u16,
    /// A bit for each idle CPU that the task may use.
    pub idle: u128,
    /// The CPU chosen by the policy.
    pub chosen: u16,
}

impl WakeEvent {
    /// Parses `struct event` of `src/bpf/state.h`; `None` if it is too short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let half = |at| word(bytes, at).map(u16::from_ne_bytes);
        let long = |at| word(bytes, at).map(u64::from_ne_bytes);
        Some(WakeEvent {
            time_ns: long(0)?,
            task: word(bytes, 8).map(u32::from_ne_bytes)?,
            waker: half(12)?,
            previous: half(14)?,
            chosen: half(16)?,
            idle: u128::from(long(24)?) | u128::from(long(32)?) << 64,
        })
    }
}

/// The bytes from `at` on.
pub(crate) fn word<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<[u8; BYTES]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_the_scheduler_writes_it() {
        let mut bytes = Vec::new();
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(1234u32.to_ne_bytes());
        for half in [1u16, 2, 3, 9, 9, 9] {
            bytes.extend(half.to_ne_bytes());
        }
        bytes.extend([0xau64, 1 << 63].iter().flat_map(|word| word.to_ne_bytes()));
        let event = WakeEvent {
            time_ns: 7,
            task: 1234,
            waker: 1,
            previous: 2,
            idle: 0xa | 1 << 127,
            chosen: 3,
        };
        assert_eq!(WakeEvent::read(&bytes), Some(event));
        assert_eq!(WakeEvent::read(&bytes[..39]), None);
    }
}
