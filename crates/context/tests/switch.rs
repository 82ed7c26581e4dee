//! Switching between real stacks.

mod arch;
mod fiber;

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::panic;

use arch::{
    ROUND_UP, TO_NEAREST, clear_aligned, rounding, set_rounding, stack_pointer, with_pattern,
};
use daiko_context::stack::{Slab, StackClass};
use daiko_context::{FpControl, StackPointer, call_on};
use daiko_sys::arena::Arena;
use daiko_sys::memory::GuardKind;
use fiber::{Fiber, Inside};

#[test]
fn two_contexts_alternate() {
    let mut log = Vec::new();
    let steps = Cell::new(0);
    let mut fiber = Fiber::new(|me| {
        for _ in 0..1000 {
            steps.set(steps.get() + 1);
            me.leave();
        }
    });
    while !fiber.is_finished() {
        log.push(steps.get());
        fiber.resume();
    }
    assert!(log.iter().copied().eq(0..=1000));
}

/// A caller in any language finds the callee-saved registers of the ABI unchanged.
#[test]
fn the_registers_of_the_abi_survive() {
    unsafe extern "C" fn leave(inside: *mut u8) {
        // SAFETY: the fiber below passes itself.
        unsafe { &*inside.cast::<Inside>() }.leave();
    }
    unsafe extern "C" fn resume(fiber: *mut u8) {
        // SAFETY: the test below passes its fiber.
        unsafe { &mut *fiber.cast::<Fiber<'_>>() }.resume();
    }
    let inside = Cell::new(u64::MAX);
    let mut fiber = Fiber::new(|me| {
        let me = (&raw const *me).cast_mut().cast();
        // SAFETY: `leave` takes the fiber that it runs in.
        inside.set(unsafe { with_pattern(0x1000, leave, me) });
    });
    // SAFETY: `resume` takes a suspended fiber.
    let outside = unsafe { with_pattern(0x2000, resume, (&raw mut fiber).cast()) };
    fiber.resume();
    assert!(fiber.is_finished());
    drop(fiber);
    assert_eq!((inside.get(), outside), (0, 0));
}

/// Values that the compiler keeps in registers, including floating-point registers, survive on both
/// sides.
#[test]
fn values_in_registers_survive() {
    fn churn(mut seed: u64, mut leave: impl FnMut()) -> u64 {
        let mut values = [0u64; 24];
        for value in &mut values {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *value = seed;
        }
        let mut floats = values.map(|value| value as f64);
        for round in 0..100 {
            leave();
            for (value, float) in values.iter_mut().zip(&mut floats) {
                *value = value.rotate_left(round % 63 + 1) ^ float.to_bits();
                *float += f64::from(round);
            }
        }
        values.into_iter().fold(0, u64::wrapping_add)
    }
    let results = Cell::new((0, 0));
    let mut first = Fiber::new(|me| {
        let sum = churn(1, || me.leave());
        results.set((sum, results.get().1));
    });
    let mut second = Fiber::new(|me| {
        let sum = churn(2, || me.leave());
        results.set((results.get().0, sum));
    });
    let mine = churn(3, || {
        first.resume();
        second.resume();
    });
    first.resume();
    second.resume();
    assert!(first.is_finished() && second.is_finished());
    drop((first, second));
    assert_eq!(results.get(), (churn(1, || ()), churn(2, || ())));
    assert_eq!(mine, churn(3, || ()));
}

/// Bytes that the compiler aligns by its belief about the stack.
#[repr(align(16))]
struct Aligned([u8; 16]);

#[test]
fn a_fresh_stack_is_aligned_for_calls() {
    let aligned = Cell::new(false);
    let mut fiber = Fiber::new(|_| {
        let mut value = Aligned([1; 16]);
        clear_aligned(&mut value.0);
        // The compiler may rely on its belief about the stack, the assembly does not.
        aligned.set(value.0 == [0; 16] && arch::stack_pointer().is_multiple_of(16));
    });
    fiber.resume();
    drop(fiber);
    assert!(aligned.get());
}

#[test]
fn panics_unwind_inside_a_fiber() {
    let caught = Cell::new(None);
    let mut fiber = Fiber::new(|me| {
        let result = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            me.leave();
            panic::resume_unwind(Box::new(7));
        }));
        caught.set(result.unwrap_err().downcast_ref::<i32>().copied());
    });
    fiber.resume();
    fiber.resume();
    drop(fiber);
    assert_eq!(caught.get(), Some(7));
}

#[test]
fn a_backtrace_ends_at_the_entry() {
    let text = Cell::new(String::new());
    let mut fiber = Fiber::new(|_| text.set(Backtrace::force_capture().to_string()));
    fiber.resume();
    drop(fiber);
    let text = text.take();
    let frames: Vec<&str> =
        text.lines().filter(|line| !line.trim_start().starts_with("at ")).collect();
    assert!(frames[frames.len() - 1].ends_with("first_frame"), "{text}");
    assert!(frames[frames.len() - 2].contains("start"), "{text}");
    assert!(text.contains("a_backtrace_ends_at_the_entry"), "{text}");
    assert!(!text.contains("test::run_test"), "it left the fiber: {text}");
}

#[test]
fn control_words_stay_with_their_context() {
    let before = FpControl::current();
    let seen = Cell::new(TO_NEAREST);
    let mut fiber = Fiber::new(|me| {
        set_rounding(ROUND_UP);
        let own = FpControl::current();
        me.leave_fp(&before);
        assert_eq!(FpControl::current(), own);
        seen.set(rounding());
        set_rounding(TO_NEAREST);
    });
    fiber.resume();
    assert_eq!(FpControl::current(), before, "the rest is unchanged");
    fiber.resume();
    drop(fiber);
    assert_eq!(seen.get(), ROUND_UP);
    assert_eq!(FpControl::current(), before);
}

#[test]
fn control_words_are_inherited_by_a_plain_switch() {
    let (before, seen) = (rounding(), Cell::new(TO_NEAREST));
    let mut fiber = Fiber::new(|me| {
        seen.set(rounding());
        me.leave();
    });
    set_rounding(ROUND_UP);
    fiber.resume();
    set_rounding(before);
    fiber.resume();
    drop(fiber);
    assert_eq!(seen.get(), ROUND_UP);
}

#[test]
fn a_context_may_be_resumed_by_another_thread() {
    let steps = Cell::new(0);
    let mut fiber = Fiber::new(|me| {
        for _ in 0..10 {
            steps.set(steps.get() + 1);
            me.leave();
        }
    });
    while !fiber.is_finished() {
        let handed = fiber::Handed(&mut fiber);
        std::thread::scope(|s| s.spawn(move || handed.resume()).join().unwrap());
    }
    drop(fiber);
    assert_eq!(steps.get(), 10);
}

#[test]
fn the_null_pointer_refers_to_nothing() {
    assert_eq!(StackPointer::NULL.addr(), 0);
}

/// A call on another stack, which may leave its context inside.
#[test]
fn a_call_on_another_stack_is_a_call() {
    /// The fiber that calls, the top of the other stack, and the findings there.
    struct Other<'a>(&'a Inside, *mut u8, u64, usize);
    unsafe extern "C" fn on_other(other: *mut u8) {
        // SAFETY: `call` passes it.
        let other = unsafe { &mut *other.cast::<Other<'_>>() };
        let mut value = Aligned([1; 16]);
        clear_aligned(&mut value.0);
        other.3 = stack_pointer();
        other.0.leave();
        other.2 += u64::from(value.0[0] == 0);
    }
    unsafe extern "C" fn call(other: *mut u8) {
        // SAFETY: the test passes it; the stack is its alone.
        unsafe { call_on((*other.cast::<Other<'_>>()).1, on_other, other) };
    }
    let class = StackClass::default();
    let slab = Slab::new(&Arena::private(), class, 3, GuardKind::probe()).unwrap();
    let done = Cell::new((0, 0));
    let mut fiber = Fiber::new(|me| {
        let mut other = Other(me, slab.top(1), 0, 0);
        for _ in 0..10 {
            let outside = stack_pointer();
            // SAFETY: `call` takes it.
            let differ = unsafe { with_pattern(0x3000, call, (&raw mut other).cast()) };
            assert_eq!((differ, stack_pointer()), (0, outside));
            assert_eq!(slab.index_of(other.3), Some(1));
        }
        done.set((other.2, slab.len()));
    });
    (0..=10).for_each(|_| fiber.resume());
    drop(fiber);
    assert_eq!(done.get(), (10, 3));
}
