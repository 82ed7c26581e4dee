//! The coroutines of may.

use std::any::Any;
use std::panic;

use daiko_sys::limits::max_map_count;
use may::coroutine::JoinHandle;

use super::failure::{Failure, Skip, quoted};

/// The name of the method.
pub(crate) const MAY: &str = "may";

/// Mappings of the process that are no stacks.
const OTHER_MAPPINGS: u64 = 2000;

/// Largest number of coroutines that the kernel allows: a stack and its guard are a mapping each.
pub(crate) fn most() -> usize {
    let mappings = max_map_count().unwrap_or(u64::MAX).saturating_sub(OTHER_MAPPINGS);
    usize::try_from(mappings / 2).unwrap_or(usize::MAX)
}

/// Fails with the reason to skip if the kernel does not allow so many coroutines.
pub(crate) fn check(coroutines: usize) -> Result<(), Skip> {
    let most = most();
    if coroutines <= most {
        return Ok(());
    }
    Err(Skip::new(format!(
        "the stacks of at most {most} coroutines are possible; raise vm.max_map_count by sysctl"
    )))
}

/// Sets the number of workers, and of the stacks that they keep; `None` for the usual number of
/// 1000. All of them are there when the first coroutine starts. Has no effect once a coroutine has
/// started, so a sample calls it once.
pub(crate) fn configure(workers: usize, stacks: Option<usize>) {
    may::config().set_workers(workers);
    if let Some(stacks) = stacks {
        may::config().set_pool_capacity(stacks);
    }
}

/// Runs `body` in a coroutine.
pub(crate) fn run<T: Send + 'static>(
    body: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    join(may::go!(body))?
}

/// Waits for the result of a coroutine. The caller is no coroutine, or one that may fail.
pub(crate) fn join<T>(coroutine: JoinHandle<T>) -> Result<T, Failure> {
    coroutine.join().map_err(|payload| failure(&*payload))
}

/// Waits for the result of a coroutine; a panic there continues here.
pub(crate) fn join_or_unwind<T>(coroutine: JoinHandle<T>) -> T {
    coroutine.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
}

/// The failure that a panic of a coroutine means. A coroutine panics if it cannot start another.
fn failure(payload: &(dyn Any + Send)) -> Failure {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref().copied()).unwrap_or("a panic");
    if text.contains("failed to alloc sys stack") {
        return Failure::Limit(
            "the kernel allows no more stacks; raise vm.max_map_count by sysctl".into(),
        );
    }
    Failure::Broken(format!("may: {}", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_coroutines_are_told_with_the_remedy() {
        assert_eq!(check(2), Ok(()));
        let skip = check(usize::MAX).unwrap_err().to_string();
        assert!(skip.ends_with("raise vm.max_map_count by sysctl"), "{skip}");
    }

    #[test]
    fn a_stack_that_is_missing_is_a_limit() {
        let told = "failed to alloc sys stack: IoError(Os { code: 12 })".to_owned();
        assert!(matches!(failure(&told), Failure::Limit(_)));
        assert_eq!(failure(&"else"), Failure::Broken("may: else".into()));
    }
}
