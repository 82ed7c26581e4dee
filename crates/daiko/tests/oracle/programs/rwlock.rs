//! A readers-writer lock, step by step.

use std::sync::{LockResult, PoisonError, TryLockError};

use super::library::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use super::{panic_with, saw};
use crate::plan::{RwStep, Saw};
use crate::support::OnDrop;

pub(crate) fn run(steps: &[RwStep]) -> Vec<Saw> {
    let lock = RwLock::new(0);
    let mut seen: Vec<_> = {
        let mut guards = Guards { lock: &lock, readers: Vec::new(), writer: None };
        steps.iter().map(|&step| guards.step(step)).collect()
    };
    seen.push(saw(&lock.into_inner(), |&value| value));
    seen
}

struct Guards<'l> {
    lock: &'l RwLock<i64>,
    readers: Vec<RwLockReadGuard<'l, i64>>,
    writer: Option<RwLockWriteGuard<'l, i64>>,
}

impl<'l> Guards<'l> {
    fn step(&mut self, step: RwStep) -> Saw {
        match step {
            RwStep::Read if self.writer.is_none() => self.keep_reader(self.lock.read()),
            RwStep::Write if self.are_none() => self.keep_writer(self.lock.write()),
            RwStep::TryRead => match self.lock.try_read() {
                Ok(reader) => self.keep_reader(Ok(reader)),
                Err(TryLockError::Poisoned(error)) => self.keep_reader(Err(error)),
                Err(TryLockError::WouldBlock) => Saw::WouldBlock,
            },
            RwStep::TryWrite => match self.lock.try_write() {
                Ok(writer) => self.keep_writer(Ok(writer)),
                Err(TryLockError::Poisoned(error)) => self.keep_writer(Err(error)),
                Err(TryLockError::WouldBlock) => Saw::WouldBlock,
            },
            RwStep::Read | RwStep::Write => Saw::Nothing,
            _ => {
                self.change(step);
                Saw::Is(self.lock.is_poisoned())
            }
        }
    }

    fn change(&mut self, step: RwStep) {
        match step {
            RwStep::Add(amount) => {
                self.writer.iter_mut().for_each(|writer| **writer += amount);
            }
            RwStep::Downgrade => {
                self.readers.extend(self.writer.take().map(RwLockWriteGuard::downgrade));
            }
            RwStep::EndRead(i) => drop(self.take_reader(i)),
            RwStep::EndWrite => self.writer = None,
            RwStep::PanicReading(i) => panic_with(self.take_reader(i)),
            RwStep::PanicWriting => panic_with(self.writer.take()),
            RwStep::WriteInUnwinding if self.are_none() => {
                panic_with(OnDrop(|| drop(self.lock.write())));
            }
            RwStep::ClearPoison => self.lock.clear_poison(),
            _ => {}
        }
    }

    fn are_none(&self) -> bool {
        self.writer.is_none() && self.readers.is_empty()
    }

    fn take_reader(&mut self, i: usize) -> Option<RwLockReadGuard<'l, i64>> {
        let i = i.checked_rem(self.readers.len())?;
        Some(self.readers.remove(i))
    }

    fn keep_reader(&mut self, locked: LockResult<RwLockReadGuard<'l, i64>>) -> Saw {
        let seen = saw(&locked, |guard| **guard);
        self.readers.push(locked.unwrap_or_else(PoisonError::into_inner));
        seen
    }

    fn keep_writer(&mut self, locked: LockResult<RwLockWriteGuard<'l, i64>>) -> Saw {
        let seen = saw(&locked, |guard| **guard);
        self.writer = Some(locked.unwrap_or_else(PoisonError::into_inner));
        seen
    }
}
