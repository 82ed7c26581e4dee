//! Fibers that begin anew when they are lost.

use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use super::control::{Lost, Vtable};
use super::entry::Functions;
use super::join::{JoinError, Outcome};
use super::{Builder, JoinHandle, SpawnError};
use crate::runtime::{self, Shared};
use crate::worker::{self, Worker, suspend};

/// The packet of such a fiber, whose closure stays in place while it runs.
#[repr(C)]
struct Packet<F, T> {
    /// First, where join handles look.
    outcome: MaybeUninit<Outcome<T>>,
    closure: ManuallyDrop<F>,
}

/// The functions for it.
struct Anew<F, T>(PhantomData<(F, T)>);

impl<F: Fn() -> T, T> Anew<F, T> {
    const VTABLE: Vtable = Vtable {
        run: Self::run,
        cancel: Self::cancel,
        drop_result: Functions::<F, T>::VTABLE.drop_result,
        leave: None,
        lost: Lost::BeginsAnew,
    };

    /// Of one whose closure is dropped, or about to be.
    const SPENT: Vtable = Vtable { lost: Lost::Ends, ..Self::VTABLE };

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
        if let Some((_, fiber)) = suspend::try_caller() {
            fiber.vtable.set(&const { Self::SPENT });
        }
        // Who finds the fiber lost comes after this process, and sees its stores in the order of the program, if the
        // compiler leaves it so.
        compiler_fence(Ordering::SeqCst);
        panic::catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: it is there, and not used any more.
            unsafe { ManuallyDrop::drop(&mut packet.as_mut().closure) };
        }))
    }
}

impl Builder {
    /// Spawns a fiber as [`spawn`](Self::spawn) does, which runs `f` at least once: if it is lost, because its
    /// [worker's process](crate::process) is killed, it begins anew, in another.
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
    /// It remains the same fiber, for its handles and under its name, and begins anew as often as it is lost; a cancel ends that.
    /// What it held is settled before: its locks are poisoned, its permits given back, the fibers of its scopes cancelled and
    /// waited for. What it has done otherwise stays done, and what it was in the middle of half done, also in
    /// what `f` owns; its destructors have not run. A panic is its end, as of any other fiber. Lost in a destructor of what
    /// `f` owns it does not begin anew, as `f` has returned.
    ///
    /// Where workers are threads none is lost.
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

    /// `here` is the worker of `runtime` that calls, if one does.
    #[track_caller]
    pub(crate) fn spawn_anew_in<F, T>(
        self,
        runtime: &Shared,
        here: Option<&Worker>,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError>
    where
        F: Fn() -> T + Send + 'static,
        T: Send + 'static,
    {
        let functions = &const { Anew::<F, T>::VTABLE };
        let packet = || Packet {
            outcome: MaybeUninit::<Outcome<T>>::uninit(),
            closure: ManuallyDrop::new(f),
        };
        // SAFETY: those of that packet, whose outcome comes first.
        unsafe { self.spawn_packet(runtime, here, functions, packet) }
    }
}
