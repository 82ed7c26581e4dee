//! The library that `daiko run` preloads into a program.
//!
//! It exports the functions that Daiko takes over. Each is a *door*: a jump through a word. At
//! first, the word leads to `open`, which finds the function of the same name behind this library
//! (that of the C library, or of another preloaded library) and, in `libdaiko_pthread.so`, the
//! function that takes its place. From then on a call costs one more jump.
//!
//! The engine is a library of its own because it is loaded with `RTLD_DEEPBIND`: its own calls of
//! `read` or `pthread_create` lead to the C library, not to the doors.

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "daiko-preload leads calls by assembly of x86-64: it builds for such processors only"
);

mod behind;
mod environment;
mod memory;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use self::behind::next;

/// A function that is taken over.
struct Door {
    name: &'static CStr,
    /// The function that a call of the door jumps to.
    word: &'static AtomicPtr<c_void>,
}

/// Declares the doors, and the table of them.
macro_rules! doors {
    ($($name:ident)*) => {
        mod words {
            use super::{AtomicPtr, c_void};
            $(
                #[allow(non_upper_case_globals, reason = "named as its function")]
                pub(super) static $name: AtomicPtr<c_void> =
                    AtomicPtr::new(super::first::$name as *mut c_void);
            )*
        }
        /// The first calls: they open all doors, and go on through their own.
        mod first {
            $(
                #[unsafe(naked)]
                pub(super) unsafe extern "C" fn $name() {
                    std::arch::naked_asm!(
                        "lea rax, [rip + {word}]",
                        "jmp {through}",
                        word = sym super::words::$name,
                        through = sym super::open_and_go_on,
                    )
                }
            )*
        }
        /// The doors, as the program sees them.
        mod exported {
            $(
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $name() {
                    std::arch::naked_asm!(
                        "jmp qword ptr [rip + {word}]",
                        word = sym super::words::$name,
                    )
                }
            )*
        }
        static DOORS: &[Door] = &[$(Door {
            // SAFETY: a literal that ends with its only zero.
            name: unsafe { CStr::from_bytes_with_nul_unchecked(
                concat!(stringify!($name), "\0").as_bytes()) },
            word: &words::$name,
        }),*];
    };
}

doors! {
    pthread_create pthread_exit pthread_join pthread_tryjoin_np pthread_timedjoin_np
    pthread_clockjoin_np pthread_detach pthread_getattr_np pthread_key_create
    pthread_cancel pthread_testcancel pthread_kill pthread_sigqueue
    pthread_sigmask sigprocmask sigaction signal sigwait sigwaitinfo sigtimedwait sigsuspend sigpending pause raise
    abort exit
    pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock
    pthread_mutex_clocklock pthread_mutex_unlock
    pthread_cond_init pthread_cond_destroy pthread_cond_wait pthread_cond_timedwait
    pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast
    pthread_rwlock_init pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_wrlock
    pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_timedrdlock
    pthread_rwlock_timedwrlock pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock
    pthread_rwlock_unlock
    pthread_barrier_init pthread_barrier_destroy pthread_barrier_wait
    pthread_spin_lock pthread_once
    sem_init sem_destroy sem_wait sem_trywait sem_timedwait sem_clockwait sem_post sem_getvalue
    mtx_lock mtx_trylock mtx_timedlock mtx_unlock
    cnd_wait cnd_timedwait cnd_signal cnd_broadcast cnd_destroy call_once
    thrd_create thrd_join thrd_exit thrd_detach thrd_yield thrd_sleep
    nanosleep clock_nanosleep usleep sleep sched_yield pthread_yield
    signalfd read write readv writev recv recvfrom recvmsg recvmmsg send sendto sendmsg
    accept accept4 connect
    poll ppoll select pselect epoll_wait epoll_pwait close close_range closefrom syscall
    gettid __libc_current_sigrtmax sigaltstack prctl setpriority getpriority nice sched_setscheduler
    sched_setparam sched_setaffinity sched_getscheduler sched_getparam sched_getaffinity unshare setns
    setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups
    setfsuid setfsgid pthread_getname_np pthread_setname_np timer_create pthread_setschedparam
    pthread_setschedprio pthread_setaffinity_np
    fork vfork clone execl execlp execle execv execve execvp execvpe fexecve dlopen dlmopen dlclose wait waitpid wait3 wait4 waitid
    system popen pclose posix_spawn posix_spawnp flock lockf semop msgrcv msgsnd getaddrinfo
}

/// Opens all doors, and jumps through the door with the word in RAX. All argument registers are
/// as they were.
#[unsafe(naked)]
unsafe extern "C" fn open_and_go_on() {
    std::arch::naked_asm!(
        "push rax", "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
        "mov rdi, rax",
        "call {open}",
        "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi", "pop rax",
        "jmp qword ptr [rax]",
        open = sym open,
    )
}

/// Opens the doors before `main`, so that no thread does later.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = open_at_load;

extern "C" fn open_at_load() {
    open(ptr::null());
}

/// Leads each door to its function. `called` is the word of the door that is called, if one is.
extern "C" fn open(called: *const AtomicPtr<c_void>) {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    if HAS_BEGUN.swap(true, Ordering::Relaxed) {
        // A door that is called while they are opened: by the loader, or by an allocator.
        let door = DOORS.iter().find(|door| ptr::eq(door.word, called));
        door.inspect(|door| door.word.store(next(door.name), Ordering::Relaxed));
        return;
    }
    // The functions behind the doors come first: the loading of the engine calls some of them.
    for door in DOORS {
        door.word.store(next(door.name), Ordering::Relaxed);
    }
    if let Some(own) = own_path() {
        // SAFETY: no thread was started yet.
        unsafe { environment::leave(own) };
    }
    let Some(engine) = engine() else { return };
    for door in DOORS {
        if let Some(function) = taken_over(engine, door.name) {
            door.word.store(function, Ordering::Relaxed);
        }
    }
}

/// Loads the engine, which lies beside this library. Returns `None` if the program shall run
/// natively; the reason has been told.
fn engine() -> Option<*mut c_void> {
    // SAFETY: the environment is not changed before `main`.
    let mode = unsafe { libc::getenv(c"DAIKO_RUN".as_ptr()) };
    // SAFETY: a value of the environment ends with zero.
    if !mode.is_null() && unsafe { CStr::from_ptr(mode) } == c"native" {
        return None;
    }
    let mut path = [0u8; 4096];
    let own = own_path()?.to_bytes();
    let folder = own.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let name = b"libdaiko_pthread.so\0";
    let Some(place) = path.get_mut(..folder + name.len()) else {
        say(c"daiko run: the path of libdaiko_preload.so is too long; threads are native\n");
        return None;
    };
    place[..folder].copy_from_slice(&own[..folder]);
    place[folder..].copy_from_slice(name);
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | RTLD_DEEPBIND;
    // SAFETY: a string that ends with zero; the engine has no constructor of its own.
    let engine = unsafe { libc::dlopen(path.as_ptr().cast::<c_char>(), flags) };
    if engine.is_null() {
        say(c"daiko run: libdaiko_pthread.so, beside libdaiko_preload.so, cannot be loaded; \
              threads are native\n");
        return None;
    }
    // SAFETY: the function has this type.
    let begin: extern "C" fn(*mut c_void, &'static AtomicBool) -> c_int = unsafe {
        let begin = libc::dlsym(engine, c"daiko_begin".as_ptr());
        if begin.is_null() {
            say(c"daiko run: libdaiko_pthread.so is of another version; threads are native\n");
            return None;
        }
        std::mem::transmute(begin)
    };
    (begin(next(c"pthread_create"), &memory::IS_SHARED) == 0).then_some(engine)
}

const RTLD_DEEPBIND: c_int = 8;

/// Returns the path of this library.
fn own_path() -> Option<&'static CStr> {
    // SAFETY: all zeros are valid; the call writes the live local. The path lives as long as this
    // library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(open as *const c_void, &raw mut info) != 0;
        (found && !info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname))
    }
}

/// Returns the engine's function for the door of this name.
fn taken_over(engine: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    let mut symbol = [0u8; 64];
    let (prefix, name) = (b"daiko_", name.to_bytes_with_nul());
    symbol[..prefix.len()].copy_from_slice(prefix);
    symbol[prefix.len()..prefix.len() + name.len()].copy_from_slice(name);
    // SAFETY: a string that ends with zero.
    let found = unsafe { libc::dlsym(engine, symbol.as_ptr().cast::<c_char>()) };
    (!found.is_null()).then_some(found)
}

fn say(line: &CStr) {
    // SAFETY: the bytes are valid.
    unsafe { libc::write(2, line.as_ptr().cast(), line.to_bytes().len()) };
}
