//! A fiber finds the state of a new thread, whatever the fiber before it has left in its block.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::net::ToSocketAddrs;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use daiko_libraries::{FIBERS, everywhere, hundred, hundred_in};

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn __h_errno_location() -> *mut c_int;
}

/// The locale of the process, as `locale.h` names it.
const LC_GLOBAL_LOCALE: libc::locale_t = ptr::without_provenance_mut(usize::MAX);

type Log = Arc<Mutex<Vec<&'static str>>>;

/// Writes its name to a log when it is dropped, and suspends.
struct Logs(&'static str, Log);

impl Drop for Logs {
    fn drop(&mut self) {
        if daiko::try_current().is_some() {
            daiko::yield_now();
        }
        self.1.lock().unwrap().push(self.0);
    }
}

/// Uses another thread-local for the first time when it is dropped.
struct Late(Log);

impl Drop for Late {
    fn drop(&mut self) {
        self.0.lock().unwrap().push("late");
        let log = self.0.clone();
        LAST.with(|last| last.borrow_mut().push(Logs("last", log)));
    }
}

thread_local! {
    static FIRST: RefCell<Vec<Logs>> = const { RefCell::new(Vec::new()) };
    static SECOND: RefCell<Vec<Logs>> = RefCell::new(Vec::with_capacity(1));
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    static LAST: RefCell<Vec<Logs>> = const { RefCell::new(Vec::new()) };
}

/// Leaves values that log when they are dropped.
fn fill_thread_locals(log: &Log) {
    LATE.with(|late| assert!(late.borrow_mut().replace(Late(log.clone())).is_none()));
    FIRST.with(|first| {
        assert!(first.borrow().is_empty());
        first.borrow_mut().extend(["a", "b"].map(|name| Logs(name, log.clone())));
    });
    SECOND.with(|second| {
        assert!(second.borrow().is_empty());
        second.borrow_mut().push(Logs("second", log.clone()));
    });
}

#[test]
fn thread_locals_are_dropped_in_the_order_of_a_thread() {
    let log = Log::default();
    thread::scope(|scope| scope.spawn(|| fill_thread_locals(&log)).join().unwrap());
    let expected = log.lock().unwrap().clone();
    assert_eq!(expected.len(), 5, "{expected:?}");
    hundred_logs(fill_thread_locals, &expected);
}

fn hundred_logs(body: fn(&Log), expected: &[&'static str]) {
    everywhere(|runtime, kind| {
        for _ in 0..2 {
            let logs = hundred_in(runtime, kind, move |member| {
                let log = Log::default();
                member.meet();
                body(&log);
                member.meet();
                assert!(log.lock().unwrap().is_empty());
                log
            });
            // The fibers have ended, since they were joined.
            for log in logs {
                assert_eq!(*log.lock().unwrap(), expected);
            }
        }
    });
}

#[test]
fn errno_and_h_errno_are_zero_at_first_and_the_fibers_own() {
    hundred(|member| {
        // SAFETY: both return the address of a variable of the calling thread.
        let variables = || unsafe { [libc::__errno_location(), __h_errno_location()] };
        let before = variables();
        // SAFETY: as above.
        let values = before.map(|variable| unsafe { variable.replace(member.index as c_int + 1) });
        assert_eq!(values, [0; 2]);
        member.meet();
        // The fiber's own, as the library's calls in between have left them.
        assert_eq!(variables(), before);
        // SAFETY: as above.
        assert_eq!(unsafe { before[1].read() }, member.index as c_int + 1);
    });
}

#[test]
fn the_locale_is_that_of_the_process_at_first_and_the_fibers_own() {
    hundred(|member| {
        // SAFETY: a null locale asks; the new one is used by this fiber alone, and freed when it
        // has ceased to be in use.
        unsafe {
            assert_eq!(libc::uselocale(ptr::null_mut()), LC_GLOBAL_LOCALE);
            let own = libc::newlocale(libc::LC_ALL_MASK, c"C".as_ptr(), ptr::null_mut());
            libc::uselocale(own);
            member.meet();
            assert_eq!(libc::uselocale(ptr::null_mut()), own);
            if member.index % 2 == 0 {
                libc::uselocale(LC_GLOBAL_LOCALE);
                libc::freelocale(own);
            }
        }
    });
}

#[test]
fn cancellation_is_enabled_and_deferred_at_first() {
    const DISABLED_OR_ASYNCHRONOUS: c_int = 1;
    hundred(|member| {
        let (mut state, mut kind) = (-1, -1);
        // SAFETY: the results go to live locals; no thread is cancelled.
        unsafe {
            pthread_setcancelstate(DISABLED_OR_ASYNCHRONOUS, &mut state);
            pthread_setcanceltype(DISABLED_OR_ASYNCHRONOUS, &mut kind);
            assert_eq!((state, kind), (0, 0));
            member.meet();
            pthread_setcancelstate(DISABLED_OR_ASYNCHRONOUS, &mut state);
            pthread_setcanceltype(DISABLED_OR_ASYNCHRONOUS, &mut kind);
        }
        assert_eq!((state, kind), (1, 1));
    });
}

static KEYS: OnceLock<Vec<libc::pthread_key_t>> = OnceLock::new();
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Sets its key again, until its value is 1.
unsafe extern "C" fn count_down(value: *mut c_void) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    daiko::yield_now();
    let rest = ptr::without_provenance(value.addr() - 1);
    // SAFETY: a key that lives as long as the program.
    unsafe { libc::pthread_setspecific(KEYS.get().unwrap()[0], rest) };
}

/// More keys than one table has, the first with a destructor that sets its value again.
#[test]
fn keys_have_no_values_at_first_and_their_destructors_run_four_times_at_most() {
    let key = |index| {
        let (mut key, destructor) = (0, (index == 0).then_some(count_down as _));
        // SAFETY: the result goes to a live local.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, destructor) }, 0);
        key
    };
    KEYS.set((0..80).map(key).collect()).unwrap();
    everywhere(|runtime, kind| {
        for (first, calls) in [(3, 3), (100, 4), (1, 1)] {
            let before = CALLS.load(Ordering::Relaxed);
            hundred_in(runtime, kind, move |member| {
                let value = |index| if index == 0 { first } else { member.index + 1 };
                for (index, &key) in KEYS.get().unwrap().iter().enumerate() {
                    // SAFETY: a key that lives as long as the program.
                    unsafe {
                        assert!(libc::pthread_getspecific(key).is_null());
                        libc::pthread_setspecific(key, ptr::without_provenance(value(index)));
                    }
                }
                member.meet();
                for (index, &key) in KEYS.get().unwrap().iter().enumerate() {
                    // SAFETY: as above.
                    assert_eq!(unsafe { libc::pthread_getspecific(key) }.addr(), value(index));
                }
            });
            assert_eq!(CALLS.load(Ordering::Relaxed) - before, calls * FIBERS);
        }
    });
}

/// The library knows the owner of such a lock by its thread's id.
#[test]
fn locks_of_c_belong_to_the_fiber_and_not_to_its_worker() {
    for kind_of_lock in [libc::PTHREAD_MUTEX_ERRORCHECK, libc::PTHREAD_MUTEX_RECURSIVE] {
        hundred_with_a_lock(kind_of_lock);
    }
}

fn hundred_with_a_lock(kind_of_lock: c_int) {
    let lock = new_lock(kind_of_lock).expose_provenance();
    let lock = move || ptr::with_exposed_provenance_mut::<libc::pthread_mutex_t>(lock);
    everywhere(|runtime, kind| {
        let holders = Arc::new(AtomicU32::new(0));
        let counts = holders.clone();
        hundred_in(runtime, kind, move |member| {
            // SAFETY: the lock is initialized, and never freed.
            let taken = unsafe { libc::pthread_mutex_trylock(lock()) } == 0;
            counts.fetch_add(u32::from(taken), Ordering::Relaxed);
            member.meet();
            // SAFETY: as above. A lock of either kind refuses a release by another thread.
            let result = unsafe { libc::pthread_mutex_unlock(lock()) };
            assert_eq!(result, if taken { 0 } else { libc::EPERM });
            member.meet();
        });
        assert_eq!(holders.load(Ordering::Relaxed), 1);
    });
}

fn new_lock(kind: c_int) -> *mut libc::pthread_mutex_t {
    // SAFETY: zeros are valid for both, which are initialized before their use. The lock is
    // leaked.
    unsafe {
        let mut attributes = std::mem::zeroed();
        libc::pthread_mutexattr_init(&mut attributes);
        assert_eq!(libc::pthread_mutexattr_settype(&mut attributes, kind), 0);
        let lock: &mut libc::pthread_mutex_t = Box::leak(Box::new(std::mem::zeroed()));
        assert_eq!(libc::pthread_mutex_init(lock, &attributes), 0);
        ptr::from_mut(lock)
    }
}

#[test]
fn each_fiber_is_a_thread_of_c() {
    everywhere(|runtime, kind| {
        let threads = hundred_in(runtime, kind, |member| {
            // SAFETY: returns a number.
            let thread = unsafe { libc::pthread_self() };
            member.meet();
            // SAFETY: as above.
            assert_eq!(unsafe { libc::pthread_self() }, thread);
            thread
        });
        assert_eq!(HashSet::<_>::from_iter(threads).len(), FIBERS);
    });
}

/// A documented limit: the C library asks the kernel for the affinity of the thread as well, by the
/// block's id, which no kernel thread has.
#[test]
fn the_attributes_of_a_fiber_are_refused_in_words() {
    hundred(|_| {
        // SAFETY: the result goes to a live local, which the library initializes.
        let error = unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_getattr_np(libc::pthread_self(), &mut attributes)
        };
        assert_eq!(error, libc::ESRCH);
    });
}

/// The resolver keeps its state for a thread.
#[test]
fn each_fiber_looks_up_names() {
    hundred(|member| {
        member.meet();
        let addresses: Vec<_> = ("localhost", 80).to_socket_addrs().unwrap().collect();
        assert!(addresses.iter().all(|address| address.ip().is_loopback()));
    });
}

/// Memory that one fiber allocates, another one frees.
#[test]
fn memory_passes_between_the_caches_of_fibers() {
    hundred(|member| {
        let own: Vec<Vec<u8>> = (1..50).map(|bytes| vec![member.index as u8; bytes * 20]).collect();
        member.meet();
        let (send, receive) = std::sync::mpsc::channel();
        let fiber = daiko::spawn(move || {
            let sum: usize = own.iter().flatten().map(|&byte| usize::from(byte)).sum();
            drop(own);
            send.send(sum).unwrap();
        });
        fiber.join().unwrap();
        assert_eq!(receive.recv().unwrap(), member.index * (1..50).sum::<usize>() * 20);
    });
}
