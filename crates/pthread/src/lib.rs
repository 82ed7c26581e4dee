//! The functions of POSIX threads on Daiko's workers: the engine of `daiko run`.
//!
//! The library that `daiko run` preloads (`daiko-preload`) leads a program's calls here: each
//! exported function `daiko_X` takes the place of the C library's `X`. Objects keep the layouts of
//! the C library in the words that other code reads; waiters hang in the unused bytes (`object`). A
//! thread is a real thread of the C library, its *home*, which lends its context to the workers
//! (`home`), and is back at home for all that concerns the kernel thread.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

#[cfg(not(target_arch = "x86_64"))]
compile_error!("daiko-pthread knows the C library of x86-64: it builds for such processors only");

mod atomic;
mod c11;
mod call;
mod cancel;
mod clock;
mod code;
mod deadlock;
mod descriptor;
mod dispatch;
mod door;
mod end;
mod errno;
mod explain;
mod futex;
mod home;
mod identity;
mod interrupt;
mod life;
mod lock;
mod mask;
mod object;
mod own_thread;
mod parking;
mod poke;
mod process;
mod real;
mod runtime;
mod select;
mod signal;
mod stray;
mod thread;
mod waits;

use std::ffi::{c_int, c_void};

/// Makes the engine ready. `create` is the `pthread_create` by which homes are started: that of the
/// C library, or of another preloaded library; `shares_memory` is set before the program shares
/// memory with other processes. Returns 0, or -1 if the program has to run natively;
/// the reason has been told.
///
/// # Safety
///
/// `create` is a function of that type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn daiko_begin(
    create: *mut c_void,
    shares_memory: &'static atomic::AtomicBool,
) -> c_int {
    futex::begin(shares_memory);
    let course = dispatch::Course { call: call::by_number, is_lent: || home::of_lent().is_some() };
    let begin = || -> Result<(), String> {
        object::layout::check()?;
        dispatch::begin(course)?;
        home::begin(home::list::poke_all)?;
        cancel::begin();
        process::begin()
    };
    match begin() {
        Ok(()) => {
            descriptor::own::begin();
            deadlock::begin();
            // SAFETY: by this function's contract.
            unsafe { life::begin(create) };
            0
        }
        Err(reason) => {
            eprintln!("daiko run: {reason}; threads are native");
            -1
        }
    }
}

/// A thread-local of the engine at a fixed distance from the thread pointer: the loader then gives
/// all of them such places. So a new thread finds them without the loader's lock, which the thread
/// that has created it may hold, in a constructor.
#[unsafe(naked)]
extern "C" fn static_thread_local() {
    std::arch::naked_asm!(
        ".pushsection .tbss.daiko_static,\"awT\",@nobits",
        "daiko_static_thread_local: .zero 8",
        ".popsection",
        "mov rax, qword ptr [rip + daiko_static_thread_local@GOTTPOFF]",
        "ret",
    )
}

#[used]
static KEEPS_STATIC_THREAD_LOCAL: extern "C" fn() = static_thread_local;
