//! Calls that concern the kernel thread: made at home. Where they change it for good in a way that
//! workers do not have, the context stays there.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use libc::{cpu_set_t, id_t, pid_t, pthread_t, sched_param, sigevent, size_t, stack_t, timer_t};

use crate::door::made_at_home;
use crate::home::{self, Home, errand, for_good, list};
use crate::{errno, mask};

/// # Safety
///
/// As for `gettid`.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn daiko_gettid() -> pid_t {
    home::thread_id() as pid_t
}

/// The program has one real-time signal less: see `poke`.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn daiko___libc_current_sigrtmax() -> c_int {
    mask::POKE - 1
}

/// # Safety
///
/// As for `sigaltstack`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sigaltstack(
    new: *const stack_t,
    old: *mut stack_t,
) -> c_int {
    match home::of_lent() {
        // SAFETY: by this function's contract.
        Some(home) => errno::fail_unless_zero(unsafe { home.alternate_stack(new, old) }),
        // SAFETY: by this function's contract.
        None => unsafe { libc::sigaltstack(new, old) },
    }
}

/// # Safety
///
/// As for `prctl`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    // SAFETY: by this function's contract.
    let call = || unsafe { libc::prctl(option, a, b, c, d) };
    match option {
        libc::PR_SET_NAME | libc::PR_SET_PDEATHSIG => {
            home::note_change();
            errand(call)
        }
        libc::PR_GET_NAME
        | libc::PR_SET_DUMPABLE
        | libc::PR_GET_DUMPABLE
        | libc::PR_GET_PDEATHSIG
        | libc::PR_SET_VMA => errand(call),
        _ => for_good(call),
    }
}

made_at_home! {
    for_good: daiko_setpriority = setpriority(which: c_int, who: id_t, priority: c_int) -> c_int;
    errand: daiko_getpriority = getpriority(which: c_int, who: id_t) -> c_int;
    for_good: daiko_nice = nice(more: c_int) -> c_int;
    for_good: daiko_sched_setscheduler = sched_setscheduler(
        thread: pid_t, policy: c_int, parameters: *const sched_param
    ) -> c_int;
    for_good: daiko_sched_setparam = sched_setparam(
        thread: pid_t, parameters: *const sched_param
    ) -> c_int;
    for_good: daiko_sched_setaffinity = sched_setaffinity(
        thread: pid_t, bytes: size_t, cpus: *const cpu_set_t
    ) -> c_int;
    errand: daiko_sched_getscheduler = sched_getscheduler(thread: pid_t) -> c_int;
    errand: daiko_sched_getparam = sched_getparam(
        thread: pid_t, parameters: *mut sched_param
    ) -> c_int;
    errand: daiko_sched_getaffinity = sched_getaffinity(
        thread: pid_t, bytes: size_t, cpus: *mut cpu_set_t
    ) -> c_int;
    for_good: daiko_unshare = unshare(flags: c_int) -> c_int;
    for_good: daiko_setns = setns(descriptor: c_int, kind: c_int) -> c_int;
    // The C library changes all threads: the calling one by itself.
    errand: daiko_setuid = setuid(user: c_uint) -> c_int;
    errand: daiko_setgid = setgid(group: c_uint) -> c_int;
    errand: daiko_seteuid = seteuid(user: c_uint) -> c_int;
    errand: daiko_setegid = setegid(group: c_uint) -> c_int;
    errand: daiko_setreuid = setreuid(real: c_uint, effective: c_uint) -> c_int;
    errand: daiko_setregid = setregid(real: c_uint, effective: c_uint) -> c_int;
    errand: daiko_setresuid = setresuid(
        real: c_uint, effective: c_uint, saved: c_uint
    ) -> c_int;
    errand: daiko_setresgid = setresgid(
        real: c_uint, effective: c_uint, saved: c_uint
    ) -> c_int;
    errand: daiko_setgroups = setgroups(count: size_t, groups: *const c_uint) -> c_int;
    errand: daiko_initgroups = initgroups(user: *const c_char, group: c_uint) -> c_int;
    for_good: daiko_setfsuid = setfsuid(user: c_uint) -> c_int;
    for_good: daiko_setfsgid = setfsgid(group: c_uint) -> c_int;
    errand: daiko_pthread_getname_np = pthread_getname_np(
        thread: pthread_t, to: *mut c_char, bytes: size_t
    ) -> c_int;
    for_good: daiko_timer_create = timer_create(
        clock: libc::clockid_t, event: *mut sigevent, timer: *mut timer_t
    ) -> c_int;
}

/// Makes a change of another thread's kernel thread. The context goes there to stay.
///
/// # Safety
///
/// As for `pthread_setschedparam`.
unsafe fn change(thread: pthread_t, change: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: it has no argument.
    if thread == unsafe { libc::pthread_self() } {
        return for_good(change);
    }
    // SAFETY: by this function's contract.
    unsafe { list::act_on(thread, libc::ESRCH, change, Home::call_home_to_stay) }
}

/// # Safety
///
/// As for `pthread_setname_np`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_setname_np(
    thread: pthread_t,
    name: *const c_char,
) -> c_int {
    // SAFETY: by this function's contract.
    let call = || unsafe { libc::pthread_setname_np(thread, name) };
    // SAFETY: it has no argument.
    if thread == unsafe { libc::pthread_self() } {
        home::note_change();
        return errand(call);
    }
    // SAFETY: by this function's contract.
    errand(|| unsafe { list::act_on(thread, libc::ESRCH, call, Home::note_change) })
}

/// # Safety
///
/// As for `pthread_setschedparam`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_setschedparam(
    thread: pthread_t,
    policy: c_int,
    parameters: *const sched_param,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { change(thread, || libc::pthread_setschedparam(thread, policy, parameters)) }
}

/// # Safety
///
/// As for `pthread_setschedprio`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_setschedprio(
    thread: pthread_t,
    priority: c_int,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { change(thread, || libc::pthread_setschedprio(thread, priority)) }
}

/// # Safety
///
/// As for `pthread_setaffinity_np`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_setaffinity_np(
    thread: pthread_t,
    bytes: size_t,
    cpus: *const c_void,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { change(thread, || libc::pthread_setaffinity_np(thread, bytes, cpus.cast())) }
}
