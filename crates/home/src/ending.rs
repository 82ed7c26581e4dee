//! The end of a context that had a block: what the C library does when a thread ends.

use std::ffi::c_void;
use std::ptr;

use crate::abi::{Abi, KEYS_PER_TABLE, Value, at};

/// Rounds of destructors of keys, as `PTHREAD_DESTRUCTOR_ITERATIONS` has it: a destructor may set
/// values again.
pub(crate) const ROUNDS: usize = 4;

/// Runs the destructors of thread-locals and keys of the calling context, whose thread pointer is
/// `pointer`.
///
/// # Safety
///
/// The context runs with a block at `pointer`. The destructors are code of the program, and may
/// suspend the context.
pub(crate) unsafe fn run_destructors(abi: &Abi, pointer: usize) {
    // SAFETY: the calling context's own list.
    unsafe { (abi.functions.call_tls_dtors)() };
    let has_values = at::<bool>(pointer, abi.has_values as isize);
    // SAFETY: the flag lies in the block.
    if unsafe { has_values.read() } {
        // SAFETY: by this function's contract.
        unsafe { run_destructors_of_keys(abi, pointer, has_values) };
    }
}

#[cold]
unsafe fn run_destructors_of_keys(abi: &Abi, pointer: usize, has_values: *mut bool) {
    for _ in 0..ROUNDS {
        // SAFETY: by this function's contract. A destructor that sets a value sets the flag.
        unsafe {
            has_values.write(false);
            for_each_value(abi, pointer, |key, value| call_destructor(abi, key, value));
            // Thread-locals that a destructor was the first to use.
            (abi.functions.call_tls_dtors)();
            if !has_values.read() {
                return;
            }
        }
    }
    // Values that destructors set again and again are forgotten, as at the end of a thread.
    // SAFETY: as above.
    unsafe {
        for_each_value(abi, pointer, |_, value| (*value).data = ptr::null_mut());
        has_values.write(false);
    }
}

/// Calls `each` with every key that has a value, and the value.
///
/// # Safety
///
/// There is a block at `pointer`, and the calling context runs with it.
unsafe fn for_each_value(abi: &Abi, pointer: usize, mut each: impl FnMut(usize, *mut Value)) {
    for table in 0..KEYS_PER_TABLE {
        let entry = at::<*mut Value>(pointer, (abi.values + table * size_of::<usize>()) as isize);
        // SAFETY: the pointers of all tables lie in the block; a table has so many values.
        let values = unsafe { entry.read() };
        if values.is_null() {
            continue;
        }
        for index in 0..KEYS_PER_TABLE {
            // SAFETY: as above.
            let value = unsafe { values.add(index) };
            // SAFETY: as above.
            if !unsafe { (*value).data }.is_null() {
                each(table * KEYS_PER_TABLE + index, value);
            }
        }
    }
}

fn call_destructor(abi: &Abi, key: usize, value: *mut Value) {
    // SAFETY: `for_each_value` gives a value of the calling context, and the library has as many
    // keys.
    let (data, key, sequence): (*mut c_void, _, _) =
        unsafe { ((*value).data, &*abi.keys.add(key), (*value).sequence) };
    // SAFETY: as above.
    unsafe { (*value).data = ptr::null_mut() };
    // A key may have been deleted, and another one made in its place.
    if let Some(destructor) = key.destructor.filter(|_| key.sequence == sequence) {
        // SAFETY: the key was made with a destructor for its values.
        unsafe { destructor(data) };
    }
}
