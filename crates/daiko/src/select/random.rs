//! Random choices among operations that are possible at once.

use std::cell::Cell;
use std::ptr;

use daiko_sys::clock;

thread_local! {
    /// State of the generator of this fiber or thread; 0 until it is first used.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Brings `items` into a random order, each of all orders with the same probability.
#[inline]
pub(super) fn shuffle<T>(items: &mut [T]) {
    STATE.with(|state| {
        for last in (1..items.len()).rev() {
            items.swap(last, below(last + 1, next(state)));
        }
    });
}

/// Returns the number of the generator SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014).
#[inline]
fn next(state: &Cell<u64>) -> u64 {
    let before = if state.get() == 0 { seed(state) } else { state.get() };
    let number = before.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state.set(number);
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// Returns a first state. Those of two fibers differ by their time or their place.
#[cold]
fn seed(state: &Cell<u64>) -> u64 {
    clock::monotonic_ns().rotate_left(32) ^ ptr::from_ref(state).addr() as u64
}

/// Returns a number below `bound`, after D. Lemire, "Fast random integer generation in an
/// interval", 2019; without its rejections, as the bound is that of a slice of cases.
#[inline]
fn below(bound: usize, number: u64) -> usize {
    ((u128::from(number) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The numbers of the state 0 in the reference implementation. The state 0 itself stands
        // for a generator that is not yet used, so the test begins one step later.
        let state = Cell::new(0x9E37_79B9_7F4A_7C15);
        assert_eq!(next(&state), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(next(&state), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn each_order_is_as_frequent_as_the_others() {
        const ROUNDS: u32 = 60_000;
        let mut counts = [0u32; 27];
        for _ in 0..ROUNDS {
            let mut items = [0, 1, 2];
            shuffle(&mut items);
            counts[items[0] * 9 + items[1] * 3 + items[2]] += 1;
        }
        let orders: Vec<_> = counts.into_iter().filter(|&count| count > 0).collect();
        assert_eq!(orders.len(), 6);
        // Six standard deviations.
        let off = |count: u32| f64::from(count.abs_diff(ROUNDS / 6));
        assert!(orders.iter().all(|&count| off(count) < 6.0 * 91.3), "{orders:?}");
    }
}
