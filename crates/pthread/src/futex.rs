//! Futexes by `syscall`: waits and wakes on words that are private to the process.
//!
//! A context that waits sleeps in a table, by the address of its word. A wake takes sleepers from
//! there first, and asks the kernel for as many more as the caller wants: threads that make the
//! call by instructions of their own sleep there. Operations with priorities are the kernel's, at
//! home, and so are waits on words without the private flag once the program shares memory, or
//! makes kernel threads by itself, at whose end the kernel wakes.

use std::collections::VecDeque;
use std::ffi::{c_int, c_long};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use daiko_rt::Deadline;

use crate::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::lock::{SignalLock, SignalLocked};
use crate::mask::HeldSignals;
use crate::parking::{self, Outcome, Queue};
use crate::waits::{Target, TargetKind};
use crate::{clock, errno};

/// The arguments of the system call behind its number: `address`, operation, `value`, then a
/// timeout or a number, a second address, and a last number.
pub(crate) type Arguments = [usize; 6];

/// True once words without the private flag may be woken by more than calls of the program: it
/// shares memory, or the kernel wakes at the end of a thread.
static FOREIGN_WAKES: OnceLock<&AtomicBool> = OnceLock::new();

/// Takes note of the word that is set before the program shares memory with other processes.
pub(crate) fn begin(shares_memory: &'static AtomicBool) {
    let _ = FOREIGN_WAKES.set(shares_memory);
}

/// Notes that wakes may come from elsewhere from here on.
pub(crate) fn note_foreign_wakes() {
    FOREIGN_WAKES.get().inspect(|foreign| foreign.store(true, Ordering::SeqCst));
}

/// True once the program has made a kernel thread by itself.
static OWN_THREADS: AtomicBool = AtomicBool::new(false);

/// Notes that the program makes a kernel thread by itself; the kernel wakes at its end.
pub(crate) fn note_own_threads() {
    OWN_THREADS.store(true, Ordering::SeqCst);
    note_foreign_wakes();
}

/// Returns true if the program has made a kernel thread, or a process that shares its memory, by
/// itself.
pub(crate) fn has_own_threads() -> bool {
    OWN_THREADS.load(Ordering::SeqCst)
}

fn has_foreign_wakes() -> bool {
    FOREIGN_WAKES.get().is_none_or(|foreign| foreign.load(Ordering::SeqCst))
}

/// The identity of a futex: the address of its word, and in bit 0 whether the call has no private
/// flag. Such a call does not meet one with the flag, as for the kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key(usize);

impl Key {
    fn new(address: usize, is_private: bool) -> Self {
        Key(address | usize::from(!is_private))
    }

    /// # Safety
    ///
    /// The program passes the address as a futex.
    unsafe fn word<'w>(self) -> &'w AtomicU32 {
        // SAFETY: by this function's contract.
        unsafe { &*ptr::with_exposed_provenance(self.0 & !1) }
    }
}

/// A context that sleeps. It lies in the frame of the waiter, which takes it out of the table.
struct Sleeper {
    /// The key of its futex. Under the lock of its bucket.
    key: AtomicUsize,
    bits: u32,
    /// True once a waker has taken it out of the table. Under the lock of its bucket.
    is_woken: AtomicBool,
    /// The context waits here.
    queue: Queue,
}

/// The sleepers of some words, in the order of their waits.
#[repr(align(64))]
struct Bucket(SignalLock<Sleepers>);

struct Sleepers(VecDeque<NonNull<Sleeper>>);

// SAFETY: sleepers are used under the lock, and are taken out before they go.
unsafe impl Send for Sleepers {}

const BUCKETS: usize = 256;
static TABLE: [Bucket; BUCKETS] =
    [const { Bucket(SignalLock::new(Sleepers(VecDeque::new()))) }; BUCKETS];

type Locked = SignalLocked<'static, Sleepers>;

fn bucket_of(Key(address): Key) -> usize {
    (address >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - BUCKETS.ilog2())
}

fn lock(bucket: usize) -> Locked {
    TABLE[bucket].0.lock()
}

/// Keeps the whole table as it is, for a fork.
pub(crate) fn keep(signals: &HeldSignals) -> Vec<impl Drop + use<>> {
    TABLE.iter().map(|bucket| bucket.0.keep(signals)).collect()
}

/// Forgets the sleepers: the calling thread is the only one of a child that was forked.
pub(crate) fn forget_others(signals: &HeldSignals) {
    TABLE.iter().for_each(|bucket| bucket.0.keep(signals).0.clear());
}

impl Sleeper {
    fn key(&self) -> Key {
        Key(self.key.load(Ordering::Relaxed))
    }

    /// Returns true if a wake of this futex with these bits is for the sleeper.
    fn suits(&self, key: Key, bits: u32) -> bool {
        self.key() == key && self.bits & bits != 0
    }

    /// Wakes the sleeper, which was taken out of the table.
    fn wake(&self) {
        self.is_woken.store(true, Ordering::Relaxed);
        parking::wake_one(&self.queue);
    }

    /// Takes the sleeper out of the table, which no waker knows it in from here on. Returns true if
    /// it was woken.
    fn leave(&self) -> bool {
        loop {
            let key = self.key();
            let mut bucket = lock(bucket_of(key));
            if self.key() == key {
                if self.is_woken.load(Ordering::Relaxed) {
                    return true;
                }
                bucket.0.retain(|sleeper| sleeper.as_ptr().cast_const() != self);
                return false;
            }
        }
    }
}

/// Returns the address of the futex of a sleeper that has noted its target.
///
/// # Safety
///
/// `key` is the address in that target, and the sleeper sleeps.
pub(crate) unsafe fn address_at(key: usize) -> usize {
    // SAFETY: by this function's contract: the key of a `Sleeper`.
    unsafe { &*ptr::with_exposed_provenance::<AtomicUsize>(key) }.load(Ordering::Relaxed) & !1
}

/// The result of the system call, or the error number.
type Answer = Result<c_long, c_int>;

/// Waits while the word has this value.
///
/// # Safety
///
/// The program passes the key's address as a futex.
unsafe fn wait(key: Key, value: u32, bits: u32, deadline: Deadline) -> Answer {
    // SAFETY: by this function's contract.
    let word = unsafe { key.word() };
    let sleeper = Sleeper {
        key: AtomicUsize::new(key.0),
        bits,
        is_woken: AtomicBool::new(false),
        queue: Queue::new(0),
    };
    loop {
        {
            let mut bucket = lock(bucket_of(key));
            sleeper.key.store(key.0, Ordering::Relaxed);
            // SeqCst: as the kernel's.
            if word.load(Ordering::SeqCst) != value {
                return Err(libc::EAGAIN);
            }
            bucket.0.push_back(NonNull::from(&sleeper));
        }
        let sleeps = || !sleeper.is_woken.load(Ordering::Relaxed);
        let target = Target::new(TargetKind::Futex, &raw const sleeper.key);
        let leave = || sleeper.leave();
        let (outcome, is_woken) =
            parking::wait_then(&sleeper.queue, target, deadline, sleeps, leave);
        if is_woken {
            return Ok(0);
        }
        match outcome {
            Outcome::TimedOut => return Err(libc::ETIMEDOUT),
            Outcome::Interrupted(pending) if pending.ends_calls => return Err(libc::EINTR),
            Outcome::Over | Outcome::Interrupted(_) => {}
        }
    }
}

/// Wakes at most `most` sleepers of this futex that have one of `bits`.
fn wake_in(bucket: &mut Locked, key: Key, bits: u32, most: usize) -> usize {
    let (mut woken, mut from) = (0, 0);
    while woken < most {
        let mut rest = bucket.0.range(from..).copied();
        // SAFETY: a sleeper in the table does not go before it has the lock.
        let suits = |sleeper: NonNull<Sleeper>| unsafe { sleeper.as_ref() }.suits(key, bits);
        let Some(found) = rest.position(suits) else { break };
        from += found;
        let sleeper = bucket.0.remove(from).expect("just found");
        // SAFETY: as above.
        unsafe { sleeper.as_ref() }.wake();
        woken += 1;
    }
    woken
}

/// Wakes sleepers of the futex `from`, and lets at most `moved` more wait for `to`.
/// Returns the numbers of both; `None` if the word has not the value that it is compared with.
///
/// # Safety
///
/// The program passes the address of `from` as a futex.
unsafe fn requeue(
    [from, to]: [Key; 2],
    woken: usize,
    moved: usize,
    compared: Option<u32>,
) -> Option<(usize, usize)> {
    let (source, target) = (bucket_of(from), bucket_of(to));
    // In the order of the table.
    let mut first = lock(source.min(target));
    let mut second = (source != target).then(|| lock(source.max(target)));
    // SAFETY: by this function's contract.
    let word = unsafe { from.word() };
    if compared.is_some_and(|value| word.load(Ordering::SeqCst) != value) {
        return None;
    }
    let from_bucket = match &mut second {
        Some(second) if source > target => second,
        _ => &mut first,
    };
    let woken = wake_in(from_bucket, from, u32::MAX, woken);
    let mut taken = Vec::new();
    from_bucket.0.retain(|sleeper| {
        // SAFETY: as in `wake_in`.
        let sleeper_ref = unsafe { sleeper.as_ref() };
        let is_moved = taken.len() < moved && sleeper_ref.key() == from;
        if is_moved {
            sleeper_ref.key.store(to.0, Ordering::Relaxed);
            taken.push(*sleeper);
        }
        !is_moved
    });
    let to_bucket = match &mut second {
        Some(second) if target > source => second,
        _ => &mut first,
    };
    to_bucket.0.extend(&taken);
    Some((woken, taken.len()))
}

/// Makes the change of `FUTEX_WAKE_OP` to `word`. Returns true if the value before compares.
/// `None`: the operation is not known.
fn change(word: &AtomicU32, operation: u32) -> Option<bool> {
    const SHIFT: u32 = 8;
    let sign_extended = |bits: u32| (bits << 20).cast_signed() >> 20;
    let (kind, comparison) = (operation >> 28, operation >> 24 & 15);
    let (mut argument, compared) = (sign_extended(operation >> 12), sign_extended(operation));
    if kind & SHIFT != 0 {
        argument = 1i32.wrapping_shl(argument.cast_unsigned());
    }
    let argument = argument.cast_unsigned();
    let before = match kind & !SHIFT {
        0 => word.swap(argument, Ordering::SeqCst),
        1 => word.fetch_add(argument, Ordering::SeqCst),
        2 => word.fetch_or(argument, Ordering::SeqCst),
        3 => word.fetch_and(!argument, Ordering::SeqCst),
        4 => word.fetch_xor(argument, Ordering::SeqCst),
        _ => return None,
    }
    .cast_signed();
    Some(match comparison {
        0 => before == compared,
        1 => before != compared,
        2 => before < compared,
        3 => before <= compared,
        4 => before > compared,
        5 => before >= compared,
        _ => return None,
    })
}

/// Makes a wake of the kernel for the rest of `wanted`, beyond `own`. Returns the sum.
fn with_kernels(own: usize, wanted: usize, kernel: impl FnOnce(usize) -> c_long) -> Answer {
    let own_result = own as c_long;
    match wanted - own {
        0 => Ok(own_result),
        left => match kernel(left) {
            ..0 if own == 0 => Err(errno::get()),
            others => Ok(own_result + others.max(0)),
        },
    }
}

/// Makes the system call here, if the word is the program's alone and the operation is known.
/// `None`: it is one for the kernel.
///
/// # Safety
///
/// As for the system call.
pub(crate) unsafe fn call(arguments: Arguments) -> Option<c_long> {
    // SAFETY: by this function's contract.
    match errno::keep(|| unsafe { answer(arguments) })? {
        Ok(result) => Some(result),
        Err(error) => Some(c_long::from(errno::fail(error))),
    }
}

/// # Safety
///
/// As for [`call`].
unsafe fn answer([address, operation, value, fourth, other, last]: Arguments) -> Option<Answer> {
    let operation = operation as c_int;
    let is_realtime = operation & libc::FUTEX_CLOCK_REALTIME != 0;
    let command = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    let is_private = operation & libc::FUTEX_PRIVATE_FLAG != 0;
    if !is_word(address) || is_realtime && command != libc::FUTEX_WAIT_BITSET {
        return None;
    }
    let key = |address| Key::new(address, is_private);
    let count = |argument: usize| (argument as c_int).max(0) as usize;
    // SAFETY: by this function's contract.
    let kernel = |address: usize, command: c_int, numbers: [usize; 2], bits: usize| unsafe {
        let operation = command | operation & libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, address, operation, numbers[0], numbers[1], other, bits)
    };
    // The kernel wakes one if the number is not positive.
    let wake = |address, bits: u32, wanted: usize| {
        let wanted = wanted.max(1);
        let own = wake_in(&mut lock(bucket_of(key(address))), key(address), bits, wanted);
        with_kernels(own, wanted, |left| {
            kernel(address, libc::FUTEX_WAKE_BITSET, [left, 0], bits as usize)
        })
    };
    let bits = last as u32;
    let answer = match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if is_private || !has_foreign_wakes() => {
            let is_absolute = command == libc::FUTEX_WAIT_BITSET;
            let bits = if is_absolute { bits } else { u32::MAX };
            // SAFETY: by this function's contract.
            match unsafe { deadline(fourth, is_absolute, is_realtime) } {
                // SAFETY: as above.
                Ok(deadline) if bits != 0 => unsafe {
                    wait(key(address), value as u32, bits, deadline)
                },
                _ => Err(libc::EINVAL),
            }
        }
        libc::FUTEX_WAKE => wake(address, u32::MAX, count(value)),
        libc::FUTEX_WAKE_BITSET if bits != 0 => wake(address, bits, count(value)),
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE if is_word(other) => {
            let compared = (command == libc::FUTEX_CMP_REQUEUE).then_some(bits);
            let [woken, moved] = [count(value), count(fourth)];
            // SAFETY: by this function's contract.
            match unsafe { requeue([key(address), key(other)], woken, moved, compared) } {
                None => Err(libc::EAGAIN),
                // The kernel's sleepers move though the word may have changed since: they look at
                // theirs once they are woken.
                Some(own) => with_kernels(own.0 + own.1, woken + moved, |_| {
                    kernel(address, libc::FUTEX_REQUEUE, [woken - own.0, moved - own.1], 0)
                }),
            }
        }
        libc::FUTEX_WAKE_OP if is_word(other) => {
            // SAFETY: by this function's contract.
            let compares = change(unsafe { key(other).word() }, bits)?;
            wake(address, u32::MAX, count(value)).and_then(|first| {
                let second = if compares { wake(other, u32::MAX, count(fourth)) } else { Ok(0) };
                Ok(first + second?)
            })
        }
        _ => return None,
    };
    Some(answer)
}

/// Returns true if a word of 32 bits may lie there: the kernel reports other addresses.
fn is_word(address: usize) -> bool {
    const FIRST_PAGE: usize = 4096;
    address >= FIRST_PAGE && address.is_multiple_of(align_of::<AtomicU32>())
}

/// Returns the end of a wait with the timeout at `at`, or `EINVAL`.
///
/// # Safety
///
/// `at` is 0, or the address of a time.
unsafe fn deadline(at: usize, is_absolute: bool, is_realtime: bool) -> Result<Deadline, c_int> {
    let at = ptr::with_exposed_provenance::<libc::timespec>(at);
    // SAFETY: by this function's contract.
    let Some(time) = (unsafe { at.as_ref() }) else { return Ok(Deadline::NEVER) };
    if time.tv_sec < 0 {
        return Err(libc::EINVAL);
    }
    let clock = if is_realtime { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    // SAFETY: as above.
    unsafe { if is_absolute { clock::deadline(clock, time) } else { clock::after(time) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_those_of_the_manual_page() {
        const fn operation(kind: u32, argument: u32, comparison: u32, compared: u32) -> u32 {
            kind << 28 | comparison << 24 | argument << 12 | compared
        }
        // Minus 1 in 12 bits.
        const MINUS: u32 = 0xfff;
        for (operation, before, after, compares) in [
            (operation(0, 7, 0, 3), 3, 7, true),
            (operation(1, MINUS, 1, 3), 3, 2, false),
            (operation(2, 8, 2, 4), 3, 11, true),
            (operation(3, 1, 3, 3), 3, 2, true),
            (operation(4, 6, 4, 3), 3, 5, false),
            (operation(8 | 2, 4, 5, 3), 3, 19, true),
            (operation(1, 0, 4, MINUS), 3, 3, true),
        ] {
            let word = AtomicU32::new(before);
            assert_eq!(change(&word, operation), Some(compares), "{operation:x}");
            assert_eq!(word.load(Ordering::Relaxed), after, "{operation:x}");
        }
        assert_eq!(change(&AtomicU32::new(0), operation(5, 0, 0, 0)), None);
    }

    #[test]
    fn addresses_fall_into_all_buckets() {
        let seen: std::collections::BTreeSet<_> =
            (0..16384).map(|i| bucket_of(Key(i * 64))).collect();
        assert_eq!(seen.len(), BUCKETS);
    }
}
