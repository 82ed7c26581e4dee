//! P4's CPU tasks of set 1, in the order of increasing memory accesses.

use std::arch::asm;
use std::hint::black_box;
use std::iter;

use crate::kit::Choice;

/// A CPU task and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComputeKernel {
    pub(super) kind: ComputeKind,
    /// Number of divisions, or side of the matrices.
    pub(super) size: u64,
}

/// The work of a CPU task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComputeKind {
    /// 64-bit divisions, each of the previous result, without memory accesses.
    Idiv,
    /// The product of two square matrices, row by column.
    Product,
    /// The sum of two square matrices.
    Sum,
}

impl Choice for ComputeKind {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Idiv, "idiv"), (Self::Product, "product"), (Self::Sum, "sum")];
}

impl ComputeKind {
    /// Sizes to measure. P4's figures have an axis of sizes, but its text does not state them.
    pub(super) fn sizes(self, quick: bool) -> &'static [u64] {
        match (self, quick) {
            (Self::Idiv, false) => &[100_000, 1_000_000, 10_000_000],
            (Self::Idiv, true) => &[1_000_000],
            (Self::Product, false) => &[64, 128, 256, 512],
            (Self::Product, true) => &[128, 256],
            (Self::Sum, false) => &[500, 1000, 2000, 4000],
            (Self::Sum, true) => &[1000, 2000],
        }
    }

    /// Largest size. Beyond it, a task takes minutes, or its matrices take gigabytes.
    pub(super) fn most(self) -> u64 {
        match self {
            Self::Idiv => 1_000_000_000,
            Self::Product => 2048,
            Self::Sum => 8192,
        }
    }
}

impl ComputeKernel {
    /// Allocates the matrices. Each call of the returned function does the work once.
    pub(super) fn prepare(self) -> Box<dyn FnMut()> {
        let side = self.size as usize;
        match self.kind {
            ComputeKind::Idiv => Box::new(move || {
                black_box(divide(black_box(DIVIDEND), black_box(1), self.size));
            }),
            ComputeKind::Product => on_matrices(side, product),
            ComputeKind::Sum => on_matrices(side, |_, a, b, c| sum(a, b, c)),
        }
    }
}

/// A dividend so long that no processor has a shortcut for its division by one.
const DIVIDEND: i64 = i64::MAX / 3;

/// Divides `count` times, at least once. Returns the last quotient.
pub(super) fn divide(dividend: i64, divisor: i64, count: u64) -> i64 {
    let mut left = dividend;
    // SAFETY: the assembly uses registers only, all of which are named. In this module the divisor
    // is not 0, and it is not -1 together with the least dividend.
    unsafe {
        asm!(
            "2:",
            // Extends the sign of rax into rdx: both are divided.
            "cqo",
            "idiv {divisor}",
            "dec {count}",
            "jnz 2b",
            divisor = in(reg) divisor,
            count = inout(reg) count.max(1) => _,
            inout("rax") left,
            out("rdx") _,
            options(nomem, nostack),
        );
    }
    left
}

type OnMatrices = fn(usize, &[f64], &[f64], &mut [f64]);

fn on_matrices(side: usize, work: OnMatrices) -> Box<dyn FnMut()> {
    let matrix = |first: f64| -> Vec<f64> {
        (0..side * side).map(|index| first + (index % 7) as f64).collect()
    };
    let (a, b, mut c) = (matrix(1.0), matrix(2.0), matrix(0.0));
    Box::new(move || {
        work(side, black_box(&a), black_box(&b), &mut c);
        black_box(&c);
    })
}

/// The textbook algorithm: no blocks and no other order, so that columns are read across cache
/// lines.
pub(super) fn product(side: usize, a: &[f64], b: &[f64], c: &mut [f64]) {
    for (row, results) in iter::zip(a.chunks_exact(side), c.chunks_exact_mut(side)) {
        for (column, result) in results.iter_mut().enumerate() {
            let column = b[column..].iter().step_by(side);
            *result = iter::zip(row, column).map(|(one, other)| one * other).sum();
        }
    }
}

pub(super) fn sum(a: &[f64], b: &[f64], c: &mut [f64]) {
    for (result, (one, other)) in iter::zip(c, iter::zip(a, b)) {
        *result = one + other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_have_the_requested_count_and_each_divides_the_last_result() {
        for count in [1, 2, 10, 39] {
            assert_eq!(divide(1 << 40, 2, count), 1 << (40 - count));
        }
        assert_eq!(divide(-1 << 40, 2, 3), -1 << 37);
        assert_eq!(divide(DIVIDEND, 1, 1000), DIVIDEND);
    }

    #[test]
    fn matrices_are_multiplied_and_added() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        let mut c = [0.0; 4];
        product(2, &a, &b, &mut c);
        assert_eq!(c, [19.0, 22.0, 43.0, 50.0]);
        sum(&a, &b, &mut c);
        assert_eq!(c, [6.0, 8.0, 10.0, 12.0]);
    }

    #[test]
    fn every_task_can_be_done_again() {
        for kind in ComputeKind::all() {
            let mut work = ComputeKernel { kind, size: 3 }.prepare();
            work();
            work();
            assert_eq!(ComputeKind::from_name(kind.name()), Some(kind));
            assert!(kind.sizes(false).iter().all(|&size| size <= kind.most()));
            assert!(kind.sizes(true).iter().all(|size| kind.sizes(false).contains(size)));
        }
    }
}
