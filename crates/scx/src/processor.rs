//! The CPUs of the machine, as the scheduler needs them.

/// A CPU: its siblings, and the CPUs that share a cache with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// A bit for each other CPU of the same core.
    pub siblings: u128,
    /// Number of its domain, less than the number of CPUs. The CPUs of a domain share a cache, and
    /// a queue.
    pub domain: u32,
}

impl Processor {
    /// The value of the kernel's map (`struct processor` in `src/bpf/state.h`).
    #[cfg(any(feature = "bpf", test))]
    pub(crate) fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&(self.siblings as u64).to_ne_bytes());
        bytes[8..16].copy_from_slice(&((self.siblings >> 64) as u64).to_ne_bytes());
        bytes[16..].copy_from_slice(&u64::from(self.domain).to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_scheduler() {
        let bytes = Processor { siblings: 5 | 1 << 127, domain: 3 }.to_bytes();
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|w| u64::from_ne_bytes(*w)).collect();
        assert_eq!(words, [5, 1 << 63, 3]);
    }
}
