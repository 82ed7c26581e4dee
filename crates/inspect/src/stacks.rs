//! The stacks of fibers, and fibers with equal stacks.

use std::collections::HashMap;

use daiko_core::inspect::{FiberRow, FiberState, Reader, RuntimeRow, Wait};

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
    /// The fiber ran at each look.
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
            FiberState::Running => {}
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
