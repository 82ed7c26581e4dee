//! A semaphore, step by step.

use std::time::Duration;

use super::library::{Permit, Semaphore};
use crate::plan::{PERMITS, PermitStep, Saw};

pub(crate) fn run(steps: &[PermitStep]) -> Vec<Saw> {
    let (semaphore, mut kept) = (Semaphore::new(PERMITS), Vec::new());
    let mut seen: Vec<_> = steps.iter().map(|&step| take(&semaphore, &mut kept, step)).collect();
    kept.clear();
    seen.push(Saw::Count(semaphore.available_permits()));
    seen
}

fn take<'s>(semaphore: &'s Semaphore, kept: &mut Vec<Permit<'s>>, step: PermitStep) -> Saw {
    match step {
        PermitStep::Try(count) => keep(kept, semaphore.try_acquire(count), Saw::WouldBlock),
        PermitStep::Acquire(count) => {
            let permit = semaphore.acquire_timeout(count, Duration::ZERO);
            keep(kept, permit.ok(), Saw::TimedOut)
        }
        PermitStep::Release(i) => {
            remove(kept, i).map_or(Saw::Nothing, |permit| Saw::Count(permit.count()))
        }
        PermitStep::Forget(i) => {
            remove(kept, i).into_iter().for_each(Permit::forget);
            Saw::Nothing
        }
        PermitStep::Add(count) => {
            semaphore.add_permits(count);
            Saw::Nothing
        }
        PermitStep::Available => Saw::Count(semaphore.available_permits()),
    }
}

fn keep<'s>(kept: &mut Vec<Permit<'s>>, permit: Option<Permit<'s>>, otherwise: Saw) -> Saw {
    let Some(permit) = permit else { return otherwise };
    let count = permit.count();
    kept.push(permit);
    Saw::Count(count)
}

fn remove<'s>(kept: &mut Vec<Permit<'s>>, i: usize) -> Option<Permit<'s>> {
    let i = i.checked_rem(kept.len())?;
    Some(kept.remove(i))
}
