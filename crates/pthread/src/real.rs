//! Functions of the C library that the crate `libc` lacks, or that may end the calling thread, so
//! that they unwind.

use std::ffi::{c_int, c_void};

use libc::timeval;
use libc::{
    clockid_t, epoll_event, fd_set, nfds_t, pollfd, sigset_t, sockaddr, socklen_t, timespec,
};

/// A cleanup handler, on the C library's list.
#[repr(C)]
pub(crate) struct Cleanup {
    routine: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    cancel_type: c_int,
    previous: *mut Cleanup,
}

unsafe extern "C-unwind" {
    pub(crate) fn _pthread_cleanup_push(
        at: *mut Cleanup,
        routine: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    pub(crate) fn _pthread_cleanup_pop(at: *mut Cleanup, runs: c_int);
    pub(crate) fn pthread_getattr_default_np(attributes: *mut libc::pthread_attr_t) -> c_int;
    pub(crate) fn pthread_attr_getdetachstate(
        attributes: *const libc::pthread_attr_t,
        state: *mut c_int,
    ) -> c_int;
    pub(crate) fn pthread_attr_getsigmask_np(
        attributes: *const libc::pthread_attr_t,
        set: *mut sigset_t,
    ) -> c_int;
    pub(crate) fn pthread_join(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int;
    pub(crate) fn pthread_tryjoin_np(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int;
    pub(crate) fn pthread_clockjoin_np(
        thread: libc::pthread_t,
        value: *mut *mut c_void,
        clock: clockid_t,
        until: *const timespec,
    ) -> c_int;
    pub(crate) fn pthread_rwlockattr_setkind_np(
        attributes: *mut libc::pthread_rwlockattr_t,
        kind: c_int,
    ) -> c_int;
    pub(crate) fn pthread_once(once: *mut libc::pthread_once_t, run: extern "C" fn()) -> c_int;
    pub(crate) fn pthread_exit(value: *mut c_void) -> !;
    pub(crate) fn pthread_testcancel();
    pub(crate) fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    pub(crate) fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    pub(crate) fn pthread_sigqueue(
        thread: libc::pthread_t,
        signal: c_int,
        value: libc::sigval,
    ) -> c_int;
    pub(crate) fn sched_yield() -> c_int;
    pub(crate) fn abort() -> !;
    pub(crate) fn exit(status: c_int) -> !;
    pub(crate) fn clock_nanosleep(
        clock: clockid_t,
        flags: c_int,
        time: *const timespec,
        left: *mut timespec,
    ) -> c_int;
    pub(crate) fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int;
    pub(crate) fn poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    pub(crate) fn ppoll(
        descriptors: *mut pollfd,
        count: nfds_t,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
    pub(crate) fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int;
    pub(crate) fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int;
    pub(crate) fn epoll_wait(
        descriptor: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: c_int,
    ) -> c_int;
    pub(crate) fn epoll_pwait(
        descriptor: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: c_int,
        mask: *const sigset_t,
    ) -> c_int;
    pub(crate) fn clone();
    pub(crate) fn vfork();
    pub(crate) fn execl();
    pub(crate) fn execlp();
    pub(crate) fn execle();
    pub(crate) fn execv();
    pub(crate) fn execve();
    pub(crate) fn execvp();
    pub(crate) fn execvpe();
    pub(crate) fn fexecve();
    pub(crate) fn dlopen();
    pub(crate) fn dlmopen();
    pub(crate) fn dlclose();
}
