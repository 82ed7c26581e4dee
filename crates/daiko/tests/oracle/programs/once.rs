//! A `Once` and a `OnceLock`, step by step.

use super::library::{Once, OnceLock};
use super::{catch, panic};
use crate::plan::{OnceStep, Saw};

pub(crate) fn run(steps: &[OnceStep]) -> Vec<Saw> {
    let mut all = All { once: Once::new(), poisoned: false, done: 0, value: OnceLock::new() };
    let mut seen: Vec<_> = steps.iter().map(|&step| all.step(step)).collect();
    seen.extend([Saw::Count(all.done), Saw::Maybe(all.value.into_inner())]);
    seen
}

struct All {
    once: Once,
    /// A closure has panicked, and none has completed since.
    poisoned: bool,
    /// The number of completions.
    done: u32,
    value: OnceLock<i64>,
}

impl All {
    fn step(&mut self, step: OnceStep) -> Saw {
        match step {
            OnceStep::Call { panics } => self.call(panics),
            OnceStep::Force { panics } => self.force(panics),
            OnceStep::Wait if self.once.is_completed() => {
                self.once.wait();
                Saw::Count(self.done)
            }
            OnceStep::Wait | OnceStep::IsCompleted => Saw::Is(self.once.is_completed()),
            OnceStep::Get => Saw::Maybe(self.value.get().copied()),
            OnceStep::Set(value) => Saw::Maybe(self.value.set(value).err()),
            OnceStep::GetOrInit(value) => Saw::Maybe(Some(*self.value.get_or_init(|| value))),
            OnceStep::PanicInInit => {
                if self.value.get().is_none() {
                    catch(|| *self.value.get_or_init(|| panic()));
                }
                Saw::Maybe(self.value.get().copied())
            }
            OnceStep::Take => Saw::Maybe(self.value.take()),
        }
    }

    /// Does nothing after a panic: the call would panic, and the hook would print that.
    fn call(&mut self, panics: bool) -> Saw {
        if self.poisoned {
            return Saw::Nothing;
        }
        if panics && !self.once.is_completed() {
            catch(|| self.once.call_once(|| panic()));
            self.poisoned = true;
        } else {
            self.once.call_once(|| self.done += 1);
        }
        Saw::Is(self.once.is_completed())
    }

    fn force(&mut self, panics: bool) -> Saw {
        let mut seen = Saw::Nothing;
        if panics && !self.once.is_completed() {
            catch(|| {
                self.once.call_once_force(|state| {
                    seen = Saw::Is(state.is_poisoned());
                    panic()
                });
            });
            self.poisoned = true;
        } else {
            self.once.call_once_force(|state| {
                seen = Saw::Is(state.is_poisoned());
                self.done += 1;
            });
            self.poisoned = false;
        }
        seen
    }
}
