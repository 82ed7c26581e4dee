//! Contexts of kernel threads that are no workers, lent to a runtime, which runs them as fibers.

use std::panic::Location;
use std::ptr::{self, NonNull};

use daiko_context::{seat, switch_own};
use daiko_core::loan::PokeWord;
use daiko_sys::{kernel_local, thread};

use super::control::ControlBlock;
use super::lender::Lender;
use super::spawn_error::SpawnError;
use crate::atomic::Ordering;
use crate::call::Call;
use crate::runtime::RuntimeInner;
use crate::worker::{self, suspend};

/// Writes a lender to `lender`. Its kernel thread keeps to the stack below `top` while its context
/// is lent.
///
/// # Safety
///
/// `lender` is writable and stays in place. `top` is a multiple of 16. The stack below it is
/// mapped, writable, unused for as long as the context may be lent, and large enough for the
/// handlers of signals that the kernel thread does not block.
pub unsafe fn init(lender: NonNull<Lender>, top: *mut u8) {
    /// Puts the fiber where workers find it.
    ///
    /// # Safety
    ///
    /// The fiber is in use, and nothing else knows of it.
    unsafe fn publish(fiber: NonNull<()>) {
        // SAFETY: by this function's contract. The runtime outlives its blocks.
        unsafe {
            let fiber = fiber.cast::<ControlBlock>().as_ref();
            fiber.runtime.as_ref().inject_from_home(fiber);
        }
    }
    // SAFETY: by this function's contract.
    unsafe { Lender::write(lender, top, publish) };
}

/// Makes the calling context, which runs on its own kernel thread, a migratable fiber of `runtime`.
/// It goes on on a worker, under the thread pointer that it has.
///
/// # Errors
///
/// There is no memory for a control block. The context stays where it is.
///
/// # Safety
///
/// - The calling thread is no worker, and `lender` is the thread's own. The lender lives as long as
///   the context is lent.
/// - The runtime has threads as workers. It is not shut down while the context is lent.
/// - Neither the caller nor the code that it is inlined into keeps a value that belongs to the
///   kernel thread, other than addresses of thread-locals.
#[track_caller]
#[inline(never)]
pub unsafe fn lend(lender: &Lender, runtime: &RuntimeInner) -> Result<(), SpawnError> {
    let block = {
        let call = Call::enter();
        runtime.pool.take_lent(call.token(), runtime)?
    };
    // SAFETY: no other thread uses the block, which is in use from here on.
    let fiber = unsafe { block.as_ref() };
    fiber.renew_as_lent(Location::caller());
    fiber.packet.set(NonNull::from(lender).cast());
    kernel_local::mark_as_contexts();
    // SAFETY: the thread's own lender, at home.
    let keeper = unsafe { lender.depart(block.cast()) };
    // SAFETY: `keeper` is the other context of this thread, which publishes the fiber once this
    // stack was left. It runs under the same thread pointer, and touches no thread-local.
    unsafe { switch_own(fiber.sp.as_ptr(), keeper, seat::thread_pointer(), 0) };
    suspend::arrive();
    if fiber.has_exec_mode() {
        fiber.exec_mode.resume();
    }
    Ok(())
}

/// Ends the calling fiber; its context goes on on the kernel thread of `lender`, its home.
///
/// # Safety
///
/// The caller is the fiber that `lender` has [lent](lend). The last condition of that function.
///
/// # Panics
///
/// If the caller is no fiber.
#[inline(never)]
pub unsafe fn go_home(lender: &Lender) {
    let (worker, fiber) = worker::caller("go_home");
    if fiber.has_exec_mode() {
        fiber.exec_mode.end();
    }
    // SAFETY: by this function's contract.
    unsafe { suspend::go_home(worker, fiber, NonNull::from(lender)) };
    seat::forget();
    kernel_local::mark_as_threads();
}

/// Sends `signal` to the worker that runs the context of `lender`, if one does at this moment, and
/// no such signal is on its way there: handlers would pile up on the context's stack. Another
/// context may run there when it arrives. The handler calls [`end_poke`]. One caller at a time.
pub fn poke(runtime: &RuntimeInner, lender: &Lender, signal: i32) {
    let runs = |worker: &&worker::Worker| {
        worker.running_block().is_some_and(|fiber| {
            // A field of a block that another fiber may use by now: it is only compared.
            fiber.class_of_stack.is_lent()
                && ptr::eq(fiber.packet_now(), ptr::from_ref(lender).cast())
        })
    };
    if let Some(worker) = runtime.all_workers().iter().find(runs) {
        let thread = worker.thread.load(Ordering::Relaxed);
        worker.poke.poke(thread, || thread::send(thread, signal));
    }
}

/// Lets the calling kernel thread be [poked](poke) again, by the same runtime: its handler has
/// nothing more to do.
///
/// The worker is not asked for at its seat, where none is found in the midst of a switch.
pub fn end_poke(runtime: &RuntimeInner) {
    PokeWord::end(runtime.all_workers().iter().map(|worker| &worker.poke), thread::id());
}

/// Returns the lender of the calling fiber, if its context is lent.
#[inline]
pub fn lender_of_caller() -> Option<NonNull<Lender>> {
    let (_, fiber) = worker::try_caller()?;
    fiber.is_lent().then(|| fiber.packet.get().cast())
}

/// Prepares the calling thread, which is no worker, to lend its context: it may have inherited the
/// seat of a worker that started it.
pub fn prepare_thread() {
    seat::forget();
}

#[cfg(test)]
mod tests {
    use std::alloc::{Layout, alloc};
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;
    use crate::Runtime;
    use crate::atomic::AtomicUsize;

    /// Runs `body`, which gets the lender of the calling thread.
    fn with_lender(body: impl FnOnce(&'static Lender)) {
        const STACK: usize = 64 << 10;
        // SAFETY: allocated with these layouts, and never freed.
        let lender = unsafe {
            let lender = NonNull::new(alloc(Layout::new::<Lender>()).cast::<Lender>()).unwrap();
            let stack = alloc(Layout::from_size_align_unchecked(STACK, 4096));
            init(lender, stack.add(STACK));
            lender.as_ref()
        };
        prepare_thread();
        body(lender);
    }

    /// Fibers that come and go keep their thread-locals, and are threads again at home.
    #[test]
    fn a_context_that_is_lent_is_a_fiber_and_a_thread_again_at_home() {
        let runtime = Box::leak(Box::new(Runtime::builder().workers(2).build().unwrap()));
        let mut key = 0;
        // SAFETY: writes the live local.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, None) }, 0);
        // SAFETY: the key exists; a value is not used as a pointer.
        let set = move |number: usize| unsafe {
            libc::pthread_setspecific(key, ptr::without_provenance(number));
        };
        // SAFETY: as above.
        let own = move || unsafe { libc::pthread_getspecific(key) }.addr();
        let runs = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (1..=8)
            .map(|number| {
                let runs = Arc::clone(&runs);
                let runtime: &'static Runtime = runtime;
                std::thread::spawn(move || {
                    with_lender(|lender| {
                        set(number);
                        let home = thread::id();
                        for _ in 0..100 {
                            // SAFETY: the thread's own lender, which is never freed; the runtime
                            // is never shut down.
                            unsafe { lend(lender, runtime.shared()).unwrap() };
                            assert!(crate::try_current().is_some());
                            for _ in 0..10 {
                                crate::yield_now();
                                assert_eq!(own(), number);
                            }
                            crate::park_timeout(std::time::Duration::from_micros(1));
                            runs.fetch_add(1, Ordering::Relaxed);
                            // SAFETY: lent above.
                            unsafe { go_home(lender) };
                            assert!(crate::try_current().is_none());
                            assert_eq!((own(), thread::id()), (number, home));
                        }
                    });
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(runs.load(Ordering::Relaxed), 800);
    }

    /// A thread that a worker has started inherits the worker's seat.
    #[test]
    fn a_thread_that_a_fiber_starts_lends_its_context() {
        crate::run(|| {
            let thread = std::thread::spawn(|| {
                with_lender(|lender| {
                    let runtime = crate::default_runtime();
                    // SAFETY: as above.
                    unsafe {
                        lend(lender, runtime.shared()).unwrap();
                        assert!(crate::try_current().is_some());
                        go_home(lender);
                    }
                });
            });
            while !thread.is_finished() {
                crate::yield_now();
            }
            thread.join().unwrap();
        });
    }

    /// A worker is not found at its seat in the midst of a switch, as it is not on this thread.
    #[test]
    fn a_poke_ends_where_no_worker_is_found() {
        let runtime = Box::leak(Box::new(Runtime::builder().workers(2).build().unwrap()));
        let word = &runtime.shared().all_workers()[1].poke;
        let pokes = |thread| {
            let sent = Cell::new(false);
            word.poke(thread, || {
                sent.set(true);
                true
            });
            sent.get()
        };
        assert!(worker::current().is_none());
        assert!(pokes(thread::id()));
        assert!(!pokes(thread::id()));
        end_poke(runtime.shared());
        assert!(pokes(thread::id() + 1));
        end_poke(runtime.shared());
        assert!(!pokes(thread::id()), "the handler runs on another thread");
    }
}
