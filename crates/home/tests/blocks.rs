//! A block that is used again is like a new one, and no other context sees its values.

mod context;
#[path = "../../../tests/emulated.rs"]
mod emulated;

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use context::{KIND, KINDS, Stack};
use daiko_context::FpControl;
use daiko_context::seat::Seat;
use daiko_home::{BlockKind, Blocks};
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::memory::page_size;
use emulated::LinuxPart;

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(7) };
}

#[test]
fn a_context_has_thread_locals_of_its_own() {
    NUMBER.set(1);
    for mut stack in KINDS.iter().copied().map(Stack::new) {
        for _ in 0..3 {
            stack.run(|me| {
                assert_eq!(NUMBER.get(), 7);
                NUMBER.set(2);
                me.leave();
                assert_eq!(NUMBER.get(), 2);
            });
        }
    }
    assert_eq!(NUMBER.get(), 1);
}

#[test]
fn two_contexts_alternate() {
    KINDS.iter().copied().for_each(alternate);
}

fn alternate(kind: BlockKind) {
    let (mut one, mut two) = (Stack::new(kind), Stack::new(kind));
    let body = |value| {
        move |me: &context::Inside| {
            for _ in 0..10 {
                NUMBER.set(NUMBER.get() + value);
                me.leave();
            }
            assert_eq!(NUMBER.get(), 7 + 10 * value);
        }
    };
    let (mut one, mut two) = (one.start(body(1)), two.start(body(100)));
    let seat = Seat::take(ptr::dangling()).unwrap();
    loop {
        let ends = [one.resume(seat), two.resume(seat)];
        if ends == [true; 2] {
            break;
        }
    }
    // SAFETY: taken above; the context has been left.
    unsafe { seat.leave() };
}

/// The caches of `malloc` would be lost with each block.
#[test]
fn blocks_that_are_built_and_destroyed_leak_no_memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let allocate = |kind| {
        Stack::new(kind).run(|_| {
            for bytes in (16..1024).step_by(16) {
                drop(std::hint::black_box(vec![1u8; bytes]));
            }
        });
    };
    for &kind in KINDS {
        (0..50).for_each(|_| allocate(kind));
        let before = resident();
        (0..500).for_each(|_| allocate(kind));
        let after = resident();
        assert!(after < before + 500, "{kind:?}: {before} pages have become {after}");
    }
}

/// Values of a key: each sets the next one when it is destroyed, down to 0.
static NOTES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();

unsafe extern "C" fn note(value: *mut c_void) {
    NOTES.lock().unwrap().push(value.addr());
    set_value(value.addr() - 1);
}

fn set_value(value: usize) {
    // SAFETY: the key exists, and its values are numbers.
    unsafe { libc::pthread_setspecific(*KEY.get().unwrap(), ptr::without_provenance(value)) };
}

#[test]
fn destructors_of_keys_run_four_rounds_as_in_a_thread() {
    KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: writes the key to the live local.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(note)) }, 0);
        key
    });
    let notes = || std::mem::take(&mut *NOTES.lock().unwrap());
    for first in [2, 9] {
        thread::spawn(move || set_value(first)).join().unwrap();
        let expected = notes();
        assert_eq!(expected.len(), first.min(4));
        for &kind in KINDS {
            let mut stack = Stack::new(kind);
            let mut context = stack.start(move |_| set_value(first));
            let seat = Seat::take(ptr::dangling()).unwrap();
            while !context.resume(seat) {}
            // They ran in the context, before its block is left.
            assert_eq!(notes(), expected, "{kind:?}");
            // SAFETY: taken above; the context has been left.
            unsafe { seat.leave() };
            drop(context);
            drop(stack);
            assert_eq!(notes(), []);
        }
    }
}

/// Returns the addresses of the calling context's stack, as the library knows them.
fn bounds() -> Option<Range<usize>> {
    let mut attributes = MaybeUninit::uninit();
    let (mut start, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised first and destroyed last, and live locals are written.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut bytes);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
    }
    Some(start.addr()..start.addr() + bytes)
}

/// All signals but SIGKILL and SIGSTOP, which stay, and 33, by which the library changes users.
const SIGNALS_OF_PROGRAMS: u64 = !(1 << 8 | 1 << 18 | 1 << 32);

fn blocked_signals(thread: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

#[test]
fn a_home_is_a_thread_to_the_kernel_and_knows_its_stack() {
    let kernel_thread = Arc::new(AtomicU32::new(0));
    let inside = kernel_thread.clone();
    Stack::new(BlockKind::Home).run(move |_| {
        let here = 0;
        assert!(bounds().unwrap().contains(&ptr::from_ref(&here).addr()));
        // SAFETY: asks for the CPU time of the calling context's own thread.
        let clock = unsafe {
            let mut clock = 0;
            assert_eq!(libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock), 0);
            clock
        };
        // The kernel codes the thread into the number of its clock.
        inside.store((!clock >> 3) as u32, Ordering::Relaxed);
        assert!(daiko_sys::thread::all().unwrap().contains(&inside.load(Ordering::Relaxed)));
        assert_ne!(inside.load(Ordering::Relaxed), daiko_sys::thread::id());
        assert_eq!(blocked_signals(inside.load(Ordering::Relaxed)), SIGNALS_OF_PROGRAMS);
    });
    let ended = kernel_thread.load(Ordering::Relaxed);
    while daiko_sys::thread::all().unwrap().contains(&ended) {
        thread::yield_now();
    }
}

/// The kernel would go on writing the CPU of the home's own thread.
#[test]
fn the_library_asks_the_kernel_for_the_cpu() {
    for mut stack in KINDS.iter().copied().map(Stack::new) {
        stack.run(|_| {
            let allowed = cpu::allowed().unwrap();
            for cpu in allowed.iter() {
                let mut only = CpuSet::new();
                only.insert(cpu);
                cpu::bind_current(&only).unwrap();
                // SAFETY: takes nothing.
                assert_eq!(unsafe { libc::sched_getcpu() }, cpu as i32);
            }
            cpu::bind_current(&allowed).unwrap();
        });
    }
}

#[test]
fn a_robust_lock_that_a_context_leaves_locked_is_reported() {
    if LinuxPart::RobustLists.is_lacking() {
        return;
    }
    let mut stack = Stack::new(BlockKind::Home);
    let lock: &'static mut MaybeUninit<libc::pthread_mutex_t> =
        Box::leak(Box::new(MaybeUninit::uninit()));
    let lock = lock.as_mut_ptr();
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised first, and the lock by them.
    unsafe {
        libc::pthread_mutexattr_init(attributes.as_mut_ptr());
        libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST);
        assert_eq!(libc::pthread_mutex_init(lock, attributes.as_ptr()), 0);
    }
    let theirs = lock.expose_provenance();
    stack.run(move |_| {
        let lock = ptr::with_exposed_provenance_mut(theirs);
        // SAFETY: initialised above, and never freed.
        assert_eq!(unsafe { libc::pthread_mutex_lock(lock) }, 0);
    });
    drop(stack);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::pthread_mutex_lock(lock) }, libc::EOWNERDEAD);
}

#[test]
fn a_home_starts_on_the_least_stack() {
    let least = Blocks::of(BlockKind::Home).unwrap().least_stack();
    let mut stack = Stack::at_line(BlockKind::Home, least.next_multiple_of(page_size()), 0);
    stack.start(|_| ()).forget();
}

unsafe extern "C" {
    /// Sets both control words.
    fn fesetround(mode: i32) -> i32;
}

/// `FE_UPWARD`.
const UPWARD: i32 = if cfg!(target_arch = "x86_64") {
    0x800
} else if cfg!(target_arch = "aarch64") {
    0x40_0000
} else {
    3
};

fn round_up() {
    let before = FpControl::current();
    // SAFETY: changes the rounding of this test, which computes nothing until it is restored.
    assert_eq!(unsafe { fesetround(UPWARD) }, 0);
    assert_ne!(FpControl::current(), before);
}

#[test]
fn the_rounding_mode_ends_with_the_context() {
    let before = FpControl::current();
    let mut home = Stack::new(KIND);
    home.run(|_| round_up());
    assert_eq!(FpControl::current(), before, "left to the resumer");
    home.run(move |_| assert_eq!(FpControl::current(), before));
}

#[test]
fn the_rounding_mode_of_a_suspended_context_does_not_reach_a_new_one() {
    let before = FpControl::current();
    let (mut one, mut two) = (Stack::new(KIND), Stack::new(KIND));
    let mut rounds = one.start(|me| {
        round_up();
        me.leave();
    });
    let mut begins = two.start(move |_| assert_eq!(FpControl::current(), before));
    let seat = Seat::take(ptr::dangling()).unwrap();
    assert!(!rounds.resume(seat));
    assert_ne!(FpControl::current(), before, "a suspension leaves the control words");
    assert!(begins.resume(seat));
    assert!(rounds.resume(seat));
    // SAFETY: taken above; the contexts have been left.
    unsafe { seat.leave() };
    assert_eq!(FpControl::current(), before);
}
