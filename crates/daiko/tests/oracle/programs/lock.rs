//! Mutexes and a condition variable, step by step.

use std::sync::{LockResult, PoisonError};
use std::time::Duration;

use super::library::{Condvar, Mutex, MutexGuard, TryLockError};
use super::{panic_with, saw};
use crate::plan::{LockStep, MUTEXES, Saw};
use crate::support::OnDrop;

pub(crate) fn run(steps: &[LockStep]) -> Vec<Saw> {
    let mutexes = [const { Mutex::new(0) }; MUTEXES];
    let mut seen = {
        let mut locks =
            Locks { mutexes: &mutexes, condvar: Condvar::new(), guards: [const { None }; MUTEXES] };
        steps.iter().map(|&step| locks.step(step)).collect::<Vec<_>>()
    };
    seen.extend(mutexes.map(|mutex| saw(&mutex.into_inner(), |&value| value)));
    seen
}

struct Locks<'m> {
    mutexes: &'m [Mutex<i64>; MUTEXES],
    condvar: Condvar,
    guards: [Option<MutexGuard<'m, i64>>; MUTEXES],
}

impl<'m> Locks<'m> {
    fn step(&mut self, step: LockStep) -> Saw {
        match step {
            LockStep::Lock(i) => self.lock(i),
            LockStep::TryLock(i) => self.try_lock(i),
            LockStep::Add(i, amount) => {
                self.guards[i].iter_mut().for_each(|guard| **guard += amount);
                Saw::Nothing
            }
            LockStep::Unlock(i) => {
                self.guards[i] = None;
                Saw::Nothing
            }
            LockStep::Panic(i) => {
                panic_with(self.guards[i].take());
                self.is_poisoned(i)
            }
            LockStep::LockInUnwinding(i) => {
                if self.guards[i].is_none() {
                    panic_with(OnDrop(|| drop(self.mutexes[i].lock())));
                }
                self.is_poisoned(i)
            }
            LockStep::PanicWithout => {
                panic_with(());
                Saw::Nothing
            }
            LockStep::IsPoisoned(i) => self.is_poisoned(i),
            LockStep::ClearPoison(i) => {
                self.mutexes[i].clear_poison();
                self.is_poisoned(i)
            }
            LockStep::Wait(i) => self.wait(i, None),
            LockStep::WaitWhileLess(i, least) => self.wait(i, Some(least)),
            LockStep::NotifyOne => {
                self.condvar.notify_one();
                Saw::Nothing
            }
            LockStep::NotifyAll => {
                self.condvar.notify_all();
                Saw::Nothing
            }
        }
    }

    fn is_poisoned(&self, i: usize) -> Saw {
        Saw::Is(self.mutexes[i].is_poisoned())
    }

    fn lock(&mut self, i: usize) -> Saw {
        if self.guards[i].is_some() {
            return Saw::Nothing;
        }
        let locked = self.mutexes[i].lock();
        self.keep(i, locked)
    }

    fn try_lock(&mut self, i: usize) -> Saw {
        match self.mutexes[i].try_lock() {
            Ok(guard) => self.keep(i, Ok(guard)),
            Err(TryLockError::Poisoned(error)) => self.keep(i, Err(error)),
            Err(TryLockError::WouldBlock) => Saw::WouldBlock,
        }
    }

    fn keep(&mut self, i: usize, locked: LockResult<MutexGuard<'m, i64>>) -> Saw {
        let seen = saw(&locked, |guard| **guard);
        self.guards[i] = Some(locked.unwrap_or_else(PoisonError::into_inner));
        seen
    }

    fn wait(&mut self, i: usize, least: Option<i64>) -> Saw {
        let Some(guard) = self.guards[i].take() else { return Saw::Nothing };
        let waited = match least {
            None => self.condvar.wait_timeout(guard, Duration::ZERO),
            Some(least) => {
                self.condvar.wait_timeout_while(guard, Duration::ZERO, |value| *value < least)
            }
        };
        // `std` returns from `wait_timeout_while` without a look at the poison if the time was over
        // before it waited; Daiko waits once.
        let poisoned = least.is_none() && waited.is_err();
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        let (value, timed_out) = (*guard, result.timed_out());
        self.guards[i] = Some(guard);
        Saw::Waited { value, poisoned, timed_out }
    }
}
