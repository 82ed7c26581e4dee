//! Helpers of the tests.

/// Returns `n`, or about a 200th of it under Miri, which runs that much slower.
pub(crate) const fn scaled(n: usize) -> usize {
    if cfg!(miri) { n.div_ceil(200) } else { n }
}
