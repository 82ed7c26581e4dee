//! Helpers of the tests.

/// Returns `n`, or a 40th of it under Miri, which is slower by more than that.
pub(crate) const fn scaled(n: usize) -> usize {
    if cfg!(miri) { n.div_ceil(40) } else { n }
}
