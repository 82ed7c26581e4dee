//! The C library's list of threads on stacks of the program.
//!
//! The loader copies the thread-locals of a library that is loaded later into the blocks of all
//! threads on its lists, and waits for them before it removes one. `fork` takes the calling thread
//! out of its list in the child. So each block is entered there, as that of a thread whose stack
//! the program has chosen (`pthread_attr_setstack`).
//!
//! The lists and their lock are fields of a private variable. The descriptions for debuggers tell
//! where the lists are. The lock follows them: a total of bytes, and a mark of a change in
//! progress, lie in between. The probe compares all of these with the threads that it starts and
//! ends.

use std::ptr;

use daiko_sys::Scope;
use daiko_sys::futex;

use crate::abi::scratch::Scratch;
use crate::abi::symbols::{find, offset};
use crate::abi::{Abi, Unsupported};
use crate::atomic::{AtomicU32, Ordering, fence};

/// An entry of a doubly linked, circular list.
#[repr(C)]
struct Link {
    next: *mut Link,
    prev: *mut Link,
}

/// The fields from the list of threads on the program's stacks on.
#[repr(C)]
struct Lists {
    /// Threads on stacks of the program.
    user: Link,
    /// Stacks of threads that have ended.
    cache: Link,
    /// Bytes of these stacks.
    cached_bytes: usize,
    /// The entry that is being changed, for a child that is forked meanwhile; bit 0: it is added.
    in_flight: usize,
    /// The lock: 0 free, 1 taken, 2 taken and waited for.
    lock: AtomicU32,
}

/// The list of threads on stacks of the program.
pub(crate) struct Stacks(*mut Lists);

// SAFETY: the fields are touched under their lock.
unsafe impl Send for Stacks {}
// SAFETY: as above.
unsafe impl Sync for Stacks {}

impl Stacks {
    /// Finds the list.
    ///
    /// # Errors
    ///
    /// The probe that failed.
    pub(crate) fn probe(abi: &Abi) -> Result<Self, Unsupported> {
        const TRIES: usize = 20;
        let global = find(c"_rtld_global")?.cast::<u8>();
        let user = offset(c"_thread_db_rtld_global__dl_stack_user")?;
        // SAFETY: the description says that the list lies there.
        let stacks = Stacks(unsafe { global.add(user) }.as_ptr().cast());
        // Other threads may start or end in the middle of a try.
        for _ in 0..TRIES {
            if stacks.is_as_known(abi)? {
                return Ok(stacks);
            }
        }
        Err(Unsupported::Layout("the list"))
    }

    /// Compares the fields with threads that it starts and ends.
    fn is_as_known(&self, abi: &Abi) -> Result<bool, Unsupported> {
        let lists = self.0;
        let user = Scratch::on_own_stack()?;
        // SAFETY: the thread sleeps, and has an entry there. The fields are words; the last one
        // has 32 bits.
        let newest = unsafe { (*link_of(abi, user.control_block().addr().get())).prev };
        let given = Scratch::on_given_stack()?;
        let ended = given.control_block().addr().get();
        drop(given);
        // SAFETY: the stack of a thread that has ended is kept, as it is small.
        let cached = unsafe { (*link_of(abi, ended)).prev };
        // SAFETY: only addresses are taken.
        let heads = unsafe { (&raw mut (*lists).user, &raw mut (*lists).cache) };
        if (newest, cached) != heads {
            return Ok(false);
        }
        // SAFETY: as above.
        let lock = unsafe { (*lists).lock.load(Ordering::Relaxed) };
        if lock > 2 {
            return Ok(false);
        }
        let _locked = self.lock();
        // SAFETY: under the lock the list does not change.
        unsafe { Ok((*lists).in_flight == 0 && bytes_in(abi, heads.1) == (*lists).cached_bytes) }
    }

    /// Enters the block at `pointer` as the last one: the loader comes to blocks in the order in
    /// which they were entered.
    ///
    /// # Safety
    ///
    /// It is a block, and in no list. It stays one until it is [removed](Self::remove).
    pub(crate) unsafe fn add(&self, abi: &Abi, pointer: usize) {
        let (lists, link) = (self.0, link_of(abi, pointer));
        let _locked = self.lock();
        // SAFETY: under the lock the list does not change, and the entry is this block's.
        unsafe {
            (*lists).in_flight = link.addr() | 1;
            fence(Ordering::SeqCst);
            let head = &raw mut (*lists).user;
            *link = Link { next: head, prev: (*head).prev };
            fence(Ordering::SeqCst);
            (*(*head).prev).next = link;
            (*head).prev = link;
            fence(Ordering::SeqCst);
            (*lists).in_flight = 0;
        }
    }

    /// Removes the block at `pointer`.
    ///
    /// # Safety
    ///
    /// It was [added](Self::add), and is removed once.
    pub(crate) unsafe fn remove(&self, abi: &Abi, pointer: usize) {
        let (lists, link) = (self.0, link_of(abi, pointer));
        let _locked = self.lock();
        // SAFETY: as in `add`.
        unsafe {
            (*lists).in_flight = link.addr();
            fence(Ordering::SeqCst);
            (*(*link).next).prev = (*link).prev;
            (*(*link).prev).next = (*link).next;
            fence(Ordering::SeqCst);
            (*lists).in_flight = 0;
        }
    }

    fn lock(&self) -> Locked<'_> {
        // SAFETY: the field lies there, and lives as long as the process.
        let lock = unsafe { &(*self.0).lock };
        // Acquire: pairs with the Release in `Locked::drop`, and with the library's.
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while lock.swap(2, Ordering::Acquire) != 0 {
                let _ = futex::wait(lock, 2, None, Scope::Private);
            }
        }
        Locked(lock)
    }
}

/// The lock of the lists, until dropped.
struct Locked<'l>(&'l AtomicU32);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `lock`, and with the library's.
        if self.0.swap(0, Ordering::Release) > 1 {
            futex::wake(self.0, 1, Scope::Private);
        }
    }
}

fn link_of(abi: &Abi, pointer: usize) -> *mut Link {
    ptr::with_exposed_provenance_mut(pointer + abi.list)
}

/// Returns the bytes of all stacks in a list.
///
/// # Safety
///
/// It is a list of threads, and does not change meanwhile.
unsafe fn bytes_in(abi: &Abi, head: *mut Link) -> usize {
    let mut bytes = 0usize;
    // SAFETY: by this function's contract.
    unsafe {
        let mut link = (*head).next;
        while link != head {
            let block = link.cast::<u8>().wrapping_sub(abi.list);
            bytes = bytes.wrapping_add(block.wrapping_add(abi.stack_bytes).cast::<usize>().read());
            link = (*link).next;
        }
    }
    bytes
}
