//! Fibers that begin anew when they are lost.

use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;

use super::control::{Lost, Vtable};
use super::entry::Functions;
use super::join::{JoinError, JoinOutcome};
use super::spawn::room;
use super::{Builder, Fiber, JoinHandle, SpawnError};
use crate::atomic::{Ordering, compiler_fence};
use crate::call::Call;
use crate::runtime::{self, RuntimeInner};
use crate::worker::{self, Worker};

/// The packet of a fiber that may begin anew: its closure stays in place while it runs.
#[repr(C)]
struct Packet<F, T> {
    /// First, where join handles look.
    outcome: MaybeUninit<JoinOutcome<T>>,
    closure: ManuallyDrop<F>,
}

/// The functions of that packet.
struct Anew<F, T>(PhantomData<(F, T)>);

impl<F: Fn() -> T, T> Anew<F, T> {
    const VTABLE: Vtable = Vtable {
        run: Self::run,
        cancel: Self::cancel,
        drop_result: Functions::<F, T>::VTABLE.drop_result,
        leave: None,
        lost: Lost::BeginsAnew,
    };

    /// The functions once the closure has been dropped, or is about to be.
    const SPENT: Vtable = Vtable { lost: Lost::Ends, ..Self::VTABLE };

    /// Runs the closure in the packet and drops it, and leaves the outcome there.
    ///
    /// # Safety
    ///
    /// `packet` points to a packet with its closure.
    unsafe fn run(packet: NonNull<u8>) {
        let mut packet = packet.cast::<Packet<F, T>>();
        // SAFETY: by this function's contract.
        let closure = unsafe { &*packet.as_ref().closure };
        let outcome = panic::catch_unwind(AssertUnwindSafe(closure));
        // SAFETY: the closure has run to its end.
        let _ = unsafe { Self::drop_closure(packet) }.map_err(mem::forget);
        let outcome = outcome.map_err(JoinError::from_payload);
        // SAFETY: the packet has room for it.
        unsafe { packet.as_mut() }.outcome.write(outcome);
    }

    /// Drops the closure in the packet, and leaves an error there.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn cancel(packet: NonNull<u8>) {
        let mut packet = packet.cast::<Packet<F, T>>();
        // SAFETY: by this function's contract.
        let dropped = unsafe { Self::drop_closure(packet) };
        let error = dropped.map_or_else(JoinError::from_payload, |()| JoinError::Cancelled);
        // SAFETY: the packet has room for it.
        unsafe { packet.as_mut() }.outcome.write(Err(error));
    }

    /// Drops the closure of the calling fiber, which does not begin anew any more.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn drop_closure(mut packet: NonNull<Packet<F, T>>) -> std::thread::Result<()> {
        if let Some((_, fiber)) = worker::try_caller() {
            fiber.vtable.set(&const { Self::SPENT });
        }
        // The successor that finds the fiber lost comes after this process, and sees its stores in
        // program order, if the compiler keeps that order.
        compiler_fence(Ordering::SeqCst);
        panic::catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the closure is there, and not used any more.
            unsafe { ManuallyDrop::drop(&mut packet.as_mut().closure) };
        }))
    }
}

impl Builder {
    /// Spawns a fiber as [`spawn`](Self::spawn) does, which runs `f` at least once. If the fiber is
    /// lost, because its [worker's process](crate::process) is killed, it begins anew in another
    /// process.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let begun = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&begun);
    /// let work = move || {
    ///     count.fetch_add(1, Ordering::Relaxed);
    ///     6 * 7
    /// };
    /// let fiber = daiko::Builder::new().spawn_at_least_once(work).unwrap();
    /// assert_eq!(fiber.join().unwrap(), 42);
    /// assert!(begun.load(Ordering::Relaxed) >= 1);
    /// # });
    /// ```
    ///
    /// It remains the same fiber, for its handles and under its name, and begins anew as often as
    /// it is lost; a cancel ends that. Before it begins anew, the things that it held are
    /// recovered: its locks are poisoned, its permits are given back, and the fibers of its scopes
    /// are cancelled and waited for. All other effects of its code remain, and interrupted
    /// operations remain half done, even in the values that `f` owns; its destructors have not run.
    /// A panic ends the fiber, like any other. If it is lost in a destructor of a value of `f`, it
    /// does not begin anew, as `f` has returned.
    ///
    /// Where workers are threads, no fiber is lost.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    #[track_caller]
    pub fn spawn_at_least_once<F, T>(self, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: Fn() -> T + Send + 'static,
        T: Send + 'static,
    {
        let here = worker::current();
        self.spawn_anew_in(runtime::of(here), here, f)
    }

    /// Spawns the fiber in `runtime`; `here` is the calling worker, if a worker of `runtime` calls.
    #[track_caller]
    pub(crate) fn spawn_anew_in<F, T>(
        self,
        runtime: &RuntimeInner,
        here: Option<&Worker>,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError>
    where
        F: Fn() -> T + Send + 'static,
        T: Send + 'static,
    {
        let call = Call::enter();
        let call = call.token();
        let (functions, room) = (&const { Anew::<F, T>::VTABLE }, const { room::<Packet<F, T>>() });
        let fiber = self.allocate(call, runtime, here, functions, room)?;
        let outcome = MaybeUninit::<JoinOutcome<T>>::uninit();
        // SAFETY: `allocate` made room for the packet, and the functions are for it.
        unsafe {
            let packet = Packet { outcome, closure: ManuallyDrop::new(f) };
            fiber.packet.get().cast().write(packet);
        }
        let handle = JoinHandle::new(Fiber::from_block(NonNull::from(fiber)));
        self.launch(call, runtime, here, fiber);
        Ok(handle)
    }
}
