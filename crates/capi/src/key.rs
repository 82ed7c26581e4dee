//! Keys: a pointer of each fiber, or of each thread that is no fiber.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::answer::answer;
use crate::pointer::{Code, OutPlace};

type Destructor = unsafe extern "C" fn(*mut c_void);

/// `DAIKO_KEYS_MAX`.
const MOST: usize = 1024;

/// A key that exists.
#[derive(Clone, Copy)]
struct Key {
    /// Tells the key from an earlier one at the same place.
    number: u64,
    destructor: Option<Destructor>,
}

/// The keys of the process.
struct Keys {
    /// The number of keys that were ever created.
    created: u64,
    places: Vec<Option<Key>>,
}

static KEYS: Mutex<Keys> = Mutex::new(Keys { created: 0, places: Vec::new() });

/// Uses the keys. No call inside suspends, so a lock of `std` does.
fn with_keys<R>(use_them: impl FnOnce(&mut Keys) -> R) -> R {
    use_them(&mut KEYS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The number of the key at each place; 0: there is none. Written under the lock of `KEYS`.
static NUMBERS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// Returns the number of the key at this place.
fn number(place: u32) -> Option<u64> {
    // Relaxed: by `daiko.h`, a key is passed on to the threads that use it.
    let number = NUMBERS.get(place as usize)?.load(Ordering::Relaxed);
    (number != 0).then_some(number)
}

/// Returns the key at this place.
fn key(place: u32) -> Option<Key> {
    with_keys(|keys| keys.places.get(place as usize).copied().flatten())
}

/// The values of one fiber or thread: at each place, the number of the key and the pointer.
struct Values(RefCell<Vec<(u64, *mut c_void)>>);

daiko::fiber_local! {
    static VALUES: Values = const { Values(RefCell::new(Vec::new())) };
}

impl Drop for Values {
    /// Calls the destructors. They find no values.
    fn drop(&mut self) {
        for (place, (number, value)) in self.0.take().into_iter().enumerate() {
            let key = key(place as u32).filter(|key| key.number == number && !value.is_null());
            if let Some(destructor) = key.and_then(|key| key.destructor) {
                // SAFETY: by `daiko.h`, the function accepts the values of its key.
                unsafe { destructor(value) };
            }
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_key_create(key: OutPlace<u32>, destructor: Option<Destructor>) -> Code {
    answer(|| {
        key.check()?;
        let place = with_keys(|keys| {
            let place = keys.places.iter().position(Option::is_none).unwrap_or(keys.places.len());
            if place == MOST {
                return Err(libc::EAGAIN);
            }
            if place == keys.places.len() {
                keys.places.push(None);
            }
            keys.created += 1;
            keys.places[place] = Some(Key { number: keys.created, destructor });
            NUMBERS[place].store(keys.created, Ordering::Relaxed);
            Ok(place as u32)
        });
        key.put(place?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_key_delete(key: u32) -> Code {
    answer(|| {
        with_keys(|keys| {
            let place = keys.places.get_mut(key as usize).ok_or(libc::EINVAL)?;
            place.take().ok_or(libc::EINVAL)?;
            NUMBERS[key as usize].store(0, Ordering::Relaxed);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_key_get(place: u32) -> *mut c_void {
    let Some(current) = number(place) else { return ptr::null_mut() };
    let find = |values: &Values| values.0.borrow().get(place as usize).copied();
    match VALUES.try_with(find) {
        Ok(Some((number, value))) if number == current => value,
        _ => ptr::null_mut(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_key_set(place: u32, value: *mut c_void) -> Code {
    answer(|| {
        let number = number(place).ok_or(libc::EINVAL)?;
        let put = |values: &Values| {
            let (mut values, place) = (values.0.borrow_mut(), place as usize);
            if values.len() <= place {
                values.resize(place + 1, (0, ptr::null_mut()));
            }
            values[place] = (number, value);
        };
        VALUES.try_with(put).map_err(|_| libc::EPERM)
    })
}
