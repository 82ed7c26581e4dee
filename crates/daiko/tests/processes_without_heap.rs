//! A program that does not share its heap cannot have processes as workers. The test runs without
//! libtest, which has threads.

use daiko::process::{self, ProcessError};
use daiko::{BuildError, Runtime};

fn main() {
    // SAFETY: no process is forked.
    let error = unsafe { Runtime::builder().process_workers(2) }.build().unwrap_err();
    assert!(matches!(error, BuildError::Process(ProcessError::NoSharedHeap)), "{error:?}");
    assert!(error.to_string().contains("#[global_allocator] static HEAP"), "{error}");
    assert!(!process::is_shared(&*Box::new(7)));
    let threads = Runtime::builder().workers(1).build().unwrap();
    assert_eq!(threads.run(|| 7), 7);
    println!("test a_heap_of_one_process_is_an_error ... ok");
}
