//! Parts of a thread that the C library shares with the kernel: the list of robust mutexes, and the
//! area of restartable sequences. In a block they are as in a new thread, and the kernel knows
//! those of the kernel thread only.

mod context;
#[path = "../../../tests/emulated.rs"]
mod emulated;

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::rc::Rc;

use context::{KIND, Stack};
use daiko_context::seat::{Seat, thread_pointer};
use daiko_sys::{cpu, thread};
use emulated::LinuxPart;

/// A robust mutex of the C library.
struct Robust(UnsafeCell<libc::pthread_mutex_t>);

impl Robust {
    fn new() -> Rc<Self> {
        let mutex = Rc::new(Robust(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        // SAFETY: the attribute is a live local; the mutex is not yet in use.
        unsafe {
            let mut attribute = mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&mut attribute), 0);
            let robust = libc::PTHREAD_MUTEX_ROBUST;
            assert_eq!(libc::pthread_mutexattr_setrobust(&mut attribute, robust), 0);
            assert_eq!(libc::pthread_mutex_init(mutex.0.get(), &attribute), 0);
            libc::pthread_mutexattr_destroy(&mut attribute);
        }
        mutex
    }

    fn lock(&self) {
        // SAFETY: `new` has initialised it.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn unlock(&self) {
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

/// Returns the head of the list that the kernel knows for the calling kernel thread.
fn registered_list() -> usize {
    thread::robust_list().unwrap()
}

/// Returns the first entry of the list whose head lies this far from the thread pointer of the
/// calling context, and the head: the same if the list is empty.
fn list(offset: usize) -> (usize, usize) {
    let head = thread_pointer() + offset;
    // SAFETY: inside the control block of the calling context.
    (unsafe { ptr::with_exposed_provenance::<usize>(head).read_volatile() }, head)
}

fn is_empty(offset: usize) -> bool {
    let (first, head) = list(offset);
    first == head
}

#[test]
fn contexts_take_a_robust_mutex_in_turn() {
    if LinuxPart::RobustLists.is_lacking() {
        return;
    }
    let registered = registered_list();
    let offset = registered - thread_pointer();
    let mutex = Robust::new();
    let (mut one, mut two) = (Stack::new(KIND), Stack::new(KIND));
    for _ in 0..3 {
        for home in [&mut one, &mut two] {
            let mutex = Rc::clone(&mutex);
            home.run(move |me| {
                assert!(is_empty(offset), "at the begin");
                mutex.lock();
                assert!(!is_empty(offset), "it is entered in the list of the context");
                me.leave();
                mutex.unlock();
                assert!(is_empty(offset), "after the unlock");
                assert_eq!(registered_list(), registered);
            });
            assert!(is_empty(offset), "that of the kernel thread");
        }
    }
    assert_eq!(registered_list(), registered);
}

/// Otherwise the next lock writes into memory that no longer is a mutex.
#[test]
fn a_mutex_that_a_context_kept_is_not_in_the_list_of_the_next() {
    if LinuxPart::RobustLists.is_lacking() {
        return;
    }
    let offset = registered_list() - thread_pointer();
    let (kept, other) = (Robust::new(), Robust::new());
    let mut home = Stack::new(KIND);
    let first = Rc::clone(&kept);
    home.run(move |_| first.lock());
    home.run(move |_| {
        assert!(is_empty(offset));
        other.lock();
        other.unlock();
        assert!(is_empty(offset));
    });
}

fn bind(cpu: usize) {
    // SAFETY: zero is an empty set, a live local.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

#[test]
fn a_context_knows_its_cpu_wherever_it_runs() {
    let cpus: Vec<_> = cpu::allowed().unwrap().iter().collect();
    let mut home = Stack::new(KIND);
    let expected = cpus.clone();
    let mut context = home.start(move |me| {
        for _ in 0..3 {
            for &cpu in &expected {
                // SAFETY: takes nothing.
                assert_eq!(unsafe { libc::sched_getcpu() }, cpu as c_int);
                me.leave();
            }
        }
    });
    let seat = Seat::take(ptr::dangling()).unwrap();
    for &cpu in cpus.iter().cycle() {
        bind(cpu);
        if context.resume(seat) {
            break;
        }
    }
    // SAFETY: taken above; the context has been left.
    unsafe { seat.leave() };
}

/// Returns the CPU in the area of restartable sequences of the calling context; `None` before
/// version 2.35 of the library, or where it does not register the area.
fn cpu_in_area() -> Option<i32> {
    // SAFETY: looks for symbols by their names.
    let [offset, size] = [c"__rseq_offset", c"__rseq_size"]
        .map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    // SAFETY: null, or the library's static of this type.
    unsafe { size.cast::<u32>().as_ref() }.filter(|&&size| size != 0)?;
    // SAFETY: null, or the library's static of this type.
    let offset = *unsafe { offset.cast::<isize>().as_ref() }?;
    let area = thread_pointer().wrapping_add_signed(offset);
    // SAFETY: the second of the words that lead the area, which every thread and block has.
    Some(unsafe { ptr::with_exposed_provenance::<i32>(area).add(1).read_volatile() })
}

#[test]
fn the_kernel_knows_no_area_of_a_context() {
    /// `RSEQ_CPU_ID_REGISTRATION_FAILED`.
    const FAILED: i32 = -2;
    if cpu_in_area().is_none() {
        return println!("skipped: this C library has no area of restartable sequences");
    }
    let mut home = Stack::new(KIND);
    for _ in 0..2 {
        home.run(|me| {
            assert_eq!(cpu_in_area(), Some(FAILED));
            me.leave();
            assert_eq!(cpu_in_area(), Some(FAILED));
        });
    }
}
