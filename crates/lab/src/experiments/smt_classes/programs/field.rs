//! Memory that programs work on.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, PipeWriter, Write};
use std::sync::OnceLock;
use std::time::Duration;

use daiko_sys::Scope;
use daiko_sys::clock::thread_cpu_ns;
use daiko_sys::memory::Mapping;

use crate::kit::{Skip, SplitMix64, free_memory, host};

/// Bytes of data that is written back, or used in order. Fewer in tests, which share the machine
/// with other programs.
pub(super) const LARGE: usize = if cfg!(test) { 64 << 20 } else { 256 << 20 };
/// Bytes within the second-level cache.
pub(super) const NEAR: usize = 256 << 10;
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Bytes of data of which the largest cache holds a third at most: a power of two.
pub(super) fn far() -> usize {
    static FAR: OnceLock<usize> = OnceLock::new();
    *FAR.get_or_init(|| {
        let largest = host::topology().ok().and_then(|machine| machine.largest_cache());
        let beyond = (3 * largest.unwrap_or_default() as usize).next_power_of_two();
        if cfg!(test) { LARGE } else { LARGE.max(beyond) }
    })
}

/// Requires room for [`far`] data, and a quarter more.
///
/// # Errors
/// Fails with the reason if too little memory is free.
pub(super) fn require_far() -> Result<(), Skip> {
    let bytes = far() + far() / 4;
    free_memory::room(1, bytes as u64, free_memory::available_bytes())
}

/// Reports of a task to the process that judges it.
pub(in crate::experiments::smt_classes) struct Reports<'a>(pub &'a PipeWriter);

impl Reports<'_> {
    /// Reports that the task has prepared.
    pub(super) fn prepared(&mut self) {
        self.send("ready");
    }

    fn send(&mut self, line: impl fmt::Display) {
        // Fails if the reader has left, which does not matter.
        let _ = (&mut { self.0 }).write_all(format!("{line}\n").as_bytes());
    }
}

/// Resident words.
pub(super) struct Field(Mapping);

impl Field {
    /// Allocates `bytes`, and writes to each cache line.
    ///
    /// # Errors
    /// Fails if there is no memory left.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let mut field = Self(Mapping::new(bytes, Scope::Private).map_err(io::Error::other)?);
        field.words().iter_mut().step_by(LINE / 8).for_each(|word| *word = 1);
        Ok(field)
    }

    pub(super) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is page-aligned, zeroed, of this length, and borrowed like `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr().cast(), self.0.len() / 8) }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; bytes need no alignment.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr(), self.0.len()) }
    }
}

/// Result of a program: the reason why it could not continue.
pub(super) type Endless = io::Result<Infallible>;

/// Reports that the task has prepared, and repeats `step` until the process is killed. Reports the
/// CPU time of a step in nanoseconds, again and again.
#[inline(always)]
pub(super) fn repeat(reports: &mut Reports<'_>, mut step: impl FnMut()) -> Endless {
    const BATCH: u64 = Duration::from_millis(10).as_nanos() as u64;
    reports.prepared();
    let mut batch = 1_u64;
    loop {
        let start = thread_cpu_ns();
        (0..batch).for_each(|_| step());
        match thread_cpu_ns() - start {
            took if took < BATCH => batch *= 2,
            took => reports.send(took as f64 / batch as f64),
        }
    }
}

/// Repeats `step` on the words or bytes of a field, with a source of random numbers.
#[inline(always)]
pub(super) fn on<T>(
    units: fn(&mut Field) -> &mut [T],
    bytes: usize,
    reports: &mut Reports<'_>,
    mut step: impl FnMut(&mut [T], &mut SplitMix64),
) -> Endless {
    let (mut field, mut random) = (Field::new(bytes)?, SplitMix64(1));
    let units = units(&mut field);
    repeat(reports, || step(units, &mut random))
}
