//! Random numbers, the same for a seed on all machines.

/// The generator SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws from `least` to `most`.
    pub(crate) fn within(&mut self, least: u32, most: u32) -> u32 {
        let count = u64::from(most - least) + 1;
        least + ((u128::from(self.next()) * u128::from(count)) >> 64) as u32
    }

    /// Draws from 1 to `most`, some numbers far more often than the rest: NURand of TPC-C, 2.1.6.
    pub(crate) fn skewed(&mut self, most: u32) -> u32 {
        let bits = (most / 3).next_power_of_two().min(8192) - 1;
        let (one, other) = (self.within(0, bits), self.within(1, most));
        ((one | other) + 77) % most + 1
    }
}
