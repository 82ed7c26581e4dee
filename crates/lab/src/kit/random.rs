//! Pseudo-random numbers that are the same on all machines.

/// The generator SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014): one word of state,
/// initialised with the seed.
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws uniformly from above 0 up to 1, so that the logarithm is finite.
    pub(crate) fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1u64 << 53) as f64;
        ((self.next() >> 11) + 1) as f64 / STEPS
    }

    /// Draws a number below `bound`; the bias of the multiplication is below `bound / 2^64`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference implementation for the seed 1234567.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut random = SplitMix64(1234567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!([random.next(), random.next(), random.next()], expected);
    }
}
