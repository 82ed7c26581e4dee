//! The stacks of fibers, and fibers with equal stacks.

use std::collections::HashMap;

use daiko_core::inspect::{FiberRow, FiberState, Reader, RuntimeRow, Wait};

use crate::registers::Registers;
use crate::source::Subject;
use crate::unwind::Backtracer;

/// Number of looks at a fiber that moves meanwhile.
const LOOKS: usize = 3;

/// The stack of a fiber.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// The addresses of its frames, the innermost first.
    Frames(Vec<u64>),
    /// The fiber has not started, or has ended.
    None,
    /// The fiber ran at each look, on a thread with unknown registers.
    Runs,
}

impl Stack {
    /// Returns the addresses of its frames, the innermost first; none if it has no frames.
    pub fn addresses(&self) -> &[u64] {
        match self {
            Stack::Frames(addresses) => addresses,
            Stack::None | Stack::Runs => &[],
        }
    }
}

/// Fibers that do the same.
#[derive(Clone, Debug)]
pub struct Alike {
    /// The fibers, by their positions in the list of rows.
    pub fibers: Vec<usize>,
    /// Their stack.
    pub stack: Stack,
}

/// Returns the stack of a fiber. The row becomes that of the moment of the stack.
pub fn stack_of(
    reader: &Reader<&Subject>,
    runtimes: &[RuntimeRow],
    backtracer: &mut Backtracer,
    fiber: &mut FiberRow,
) -> Stack {
    for _ in 0..LOOKS {
        match fiber.state {
            FiberState::Unstarted | FiberState::Finished => return Stack::None,
            FiberState::Running => {
                if let Some(addresses) = running(reader, runtimes, backtracer, fiber) {
                    return Stack::Frames(addresses);
                }
            }
            FiberState::Runnable | FiberState::Parked | FiberState::Waiting => {
                if let Some((context, stack)) = reader.context(fiber) {
                    return Stack::Frames(backtracer.backtrace(&context, &stack));
                }
            }
        }
        match reader.look_again(fiber, runtimes) {
            Some(again) => *fiber = again,
            None => return Stack::None,
        }
    }
    Stack::Runs
}

/// Returns the frames of a fiber that runs on a thread which stands still.
fn running(
    reader: &Reader<&Subject>,
    runtimes: &[RuntimeRow],
    backtracer: &mut Backtracer,
    fiber: &FiberRow,
) -> Option<Vec<u64>> {
    let mut workers = runtimes.iter().flat_map(|runtime| &runtime.workers);
    let worker = workers.find(|worker| Some(worker.id) == fiber.worker)?;
    let Registers { context, thread_pointer } = reader.memory().registers(worker.thread)?;
    let own = fiber.is_lent.then_some(thread_pointer);
    let stack = reader.stack(fiber, context.stack_pointer, own)?;
    Some(backtracer.backtrace(&context, &stack))
}

/// Groups fibers with equal states, kinds of waits and stacks: the largest group first.
pub fn group(fibers: &[FiberRow], stacks: &[Stack]) -> Vec<Alike> {
    let mut groups: Vec<Alike> = Vec::new();
    let mut known = HashMap::new();
    for (at, (fiber, stack)) in fibers.iter().zip(stacks).enumerate() {
        let kind = fiber.wait.as_ref().map(|Wait { kind, .. }| kind.clone());
        let index = *known.entry((fiber.state, kind, stack)).or_insert_with(|| {
            groups.push(Alike { fibers: Vec::new(), stack: stack.clone() });
            groups.len() - 1
        });
        groups[index].fibers.push(at);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.fibers.len()));
    groups
}
