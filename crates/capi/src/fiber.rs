//! Fibers: their handles, which are counted pointers, and their ends.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use daiko::time::Deadline;
use daiko::{Builder, Fiber, JoinError, JoinHandle};
use daiko_core::list::Unlinked;
use daiko_rt::call::{Call, InCall};
use daiko_rt::client;
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::{ControlBlock, Joinable};
use daiko_rt::wait::{Ended, Wait, Waiter};
use libc::timespec;

use crate::answer::{answer, caller, keep_errno, wait};
use crate::attributes::{self, FiberAttributes};
use crate::deadline;
use crate::life::{HeldRuntime, code_of_join, code_of_spawn, with_runtime};
use crate::pointer::{Body, Code, OutPlace, Parcel, Passed};

/// `DAIKO_FIBER_MIGRATABLE`, `DAIKO_FIBER_ON_WORKER`, `DAIKO_FIBER_SPREAD`.
const MIGRATABLE: u32 = 1;
const ON_WORKER: u32 = 2;
const SPREAD: u32 = 4;

/// Calls `use_it` with the handle that `fiber` stands for.
fn with<R>(fiber: &Passed<ControlBlock>, use_it: impl FnOnce(&Fiber) -> R) -> Result<R, Code> {
    let block = fiber.address()?;
    // SAFETY: by `daiko.h`, the pointer is that of a fiber, and stands for a reference.
    Ok(unsafe { Fiber::with_raw(block, use_it) })
}

fn builder(attributes: &Passed<FiberAttributes>) -> Result<Builder, Code> {
    let attributes = attributes::of_caller(attributes)?;
    let mut builder = Builder::new().foreign();
    if attributes.flags & !(MIGRATABLE | ON_WORKER | SPREAD) != 0 {
        return Err(libc::E2BIG);
    }
    if attributes.flags & MIGRATABLE != 0 {
        builder = builder.migratable();
    }
    if attributes.flags & SPREAD != 0 {
        builder = builder.spread();
    }
    if attributes.flags & ON_WORKER != 0 {
        builder = builder.on(attributes.worker as usize);
    }
    if attributes.stack_size != 0 {
        builder = builder.stack_size(attributes.stack_size);
    }
    if !attributes.name.is_null() {
        // SAFETY: by `daiko.h`, a string that ends, and stays during the call.
        let name = unsafe { CStr::from_ptr(attributes.name) };
        builder = builder.name(name.to_string_lossy());
    }
    Ok(builder)
}

fn spawn(
    runtime: &Passed<HeldRuntime>,
    fiber: &OutPlace<NonNull<ControlBlock>>,
    attributes: &Passed<FiberAttributes>,
    body: Option<Body>,
    argument: *mut c_void,
) -> Result<(), Code> {
    let (body, argument) = (body.ok_or(libc::EINVAL)?, Parcel(argument));
    let is_detached = fiber.is_null();
    if !is_detached {
        fiber.check()?;
    }
    let builder = builder(attributes)?;
    let handle = with_runtime(runtime, |inner| {
        // SAFETY: used by this call, on its own thread.
        let here = unsafe { client::current() }.filter(|worker| worker.is_of(inner));
        let spawned = builder.spawn_in(inner, here, move || argument.pass_to(body));
        spawned.map_err(|error| code_of_spawn(&error))
    })?;
    match is_detached {
        true => Ok(()),
        false => fiber.put(handle.into_fiber().into_raw()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_fiber_attr_init(attributes: *mut FiberAttributes, size: usize) -> Code {
    answer(|| attributes::initialise(attributes, size))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_spawn(
    fiber: OutPlace<NonNull<ControlBlock>>,
    attributes: Passed<FiberAttributes>,
    body: Option<Body>,
    argument: *mut c_void,
) -> Code {
    answer(|| spawn(&Passed::none(), &fiber, &attributes, body, argument))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_spawn_on(
    runtime: Passed<HeldRuntime>,
    fiber: OutPlace<NonNull<ControlBlock>>,
    attributes: Passed<FiberAttributes>,
    body: Option<Body>,
    argument: *mut c_void,
) -> Code {
    answer(|| match runtime.is_null() {
        true => Err(libc::EINVAL),
        false => spawn(&runtime, &fiber, &attributes, body, argument),
    })
}

/// The right to join a fiber, for a handle that C has.
struct JoinRight(ManuallyDrop<JoinHandle<Parcel>>);

impl JoinRight {
    fn of(fiber: &Passed<ControlBlock>) -> Result<Self, Code> {
        let block = fiber.address()?;
        // SAFETY: by `daiko.h`, the pointer comes from a spawn, and its fiber has been neither
        // joined nor detached: so 1. `spawn` has taken it out of a handle of this type, 2. the only
        // one. The reference stays a pointer unless it is used up.
        let handle = unsafe { JoinHandle::from_fiber(Fiber::from_raw(block)) };
        Ok(JoinRight(ManuallyDrop::new(handle)))
    }

    /// Gives the right up, and the reference with it.
    fn use_up(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }

    /// Waits for the end. A cancel leaves the right as it is.
    fn await_end(&self, deadline: Deadline) -> Result<(), Code> {
        let call = Call::enter();
        // SAFETY: used by this call, on its own thread.
        let waiter = unsafe { Waiter::caller("daiko_join") };
        let wait = AwaitedEnd { right: self, waiter };
        // SAFETY: the handle is used for no other wait, by `daiko.h`.
        if !unsafe { self.0.wait(waiter.id()) } {
            return Ok(());
        }
        match waiter.wait_for(call.token(), &wait, deadline) {
            Ended::Claimed(_) => Ok(()),
            Ended::TimedOut => Err(libc::ETIMEDOUT),
        }
    }
}

/// The wait for the end of a fiber.
struct AwaitedEnd<'r> {
    right: &'r JoinRight,
    waiter: Waiter,
}

impl Wait for AwaitedEnd<'_> {
    fn leave(&self, _: InCall<'_>) -> Unlinked {
        self.right.0.leave(self.waiter.id())
    }

    fn note(&self) -> u8 {
        0
    }

    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        // The end stays: the next join finds it.
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::of(WaitKind::Join)
    }
}

fn join(
    fiber: &Passed<ControlBlock>,
    deadline: Deadline,
    result: &OutPlace<*mut c_void>,
) -> Result<(), Code> {
    let mut right = JoinRight::of(fiber)?;
    let end = loop {
        match right.0.take_end() {
            Some(end) => break end,
            None => right.await_end(deadline)?,
        }
    };
    if let Err(error @ (JoinError::Itself | JoinError::Forked)) = &end {
        return Err(code_of_join(error));
    }
    right.use_up();
    let Parcel(end) = end.map_err(|error| code_of_join(&error))?;
    result.put_if_wanted(end);
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn daiko_join(fiber: Passed<ControlBlock>, result: OutPlace<*mut c_void>) -> Code {
    wait(|| join(&fiber, Deadline::NEVER, &result))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_join_until(
    fiber: Passed<ControlBlock>,
    result: OutPlace<*mut c_void>,
    until: Passed<timespec>,
) -> Code {
    wait(|| join(&fiber, deadline::named(&until)?, &result))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_detach(fiber: Passed<ControlBlock>) -> Code {
    answer(|| {
        JoinRight::of(&fiber)?.use_up();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_cancel(fiber: Passed<ControlBlock>) -> Code {
    answer(|| with(&fiber, Fiber::cancel_any))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_cancelled() -> c_int {
    c_int::from(daiko::cancel::is_cancelled())
}

#[unsafe(no_mangle)]
extern "C" fn daiko_cancel_clear() -> Code {
    answer(|| {
        let _ = caller().ok_or(libc::EPERM)?.clear_cancel();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_self() -> *const ControlBlock {
    caller().map_or(ptr::null(), ptr::from_ref)
}

#[unsafe(no_mangle)]
extern "C" fn daiko_fiber_retain(fiber: Passed<ControlBlock>) -> Code {
    answer(|| {
        let _ = with(&fiber, Fiber::clone)?.into_raw();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_fiber_release(fiber: Passed<ControlBlock>) -> Code {
    answer(|| {
        let block = fiber.address()?;
        // SAFETY: by `daiko.h`, the pointer stands for a reference, which is not used again.
        drop(unsafe { Fiber::from_raw(block) });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_fiber_name(fiber: Passed<ControlBlock>, to: *mut c_char, size: usize) -> Code {
    answer(|| {
        if to.is_null() || size == 0 {
            return Err(libc::EINVAL);
        }
        with(&fiber, |fiber| {
            let name = fiber.name().unwrap_or("").as_bytes();
            let len = name.len().min(size - 1);
            // SAFETY: by `daiko.h`, so many bytes are at `to`; less than `size` are written, and
            // the name lies in other memory.
            unsafe {
                to.cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), len);
                to.add(len).write(0);
            }
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_unpark(fiber: Passed<ControlBlock>) -> Code {
    // No catch: an unpark has nothing to panic about.
    if fiber.get().is_ok_and(ControlBlock::unpark_here) {
        return 0;
    }
    keep_errno(|| match with(&fiber, Fiber::unpark) {
        Ok(()) => 0,
        Err(code) => code,
    })
}
