//! A worker that sleeps in one bed or the other, senders that wake it, and an edge of the source,
//! which ends the sleep as well; with the real inbox and the real announcement.

use std::ptr::NonNull;

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;

use super::*;
use crate::announce::{Announcement, Flag, LastLook};
use crate::atomic::{AtomicBool, AtomicPtr};
use crate::barrier::Fences;
use crate::fiber::{Addressee, Inbox, Pushed};
use crate::modelled::{bounded, spawn};

#[repr(align(64))]
struct Item(AtomicPtr<Item>);

// SAFETY: the one field, that only the inbox writes.
unsafe impl Addressee for Item {
    unsafe fn mail_link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `mail_link`.
        unsafe { &(*this.as_ptr()).0 }
    }
}

/// A kernel's queue of changes: an edge ends the wait at that time, or the next one.
struct Selector {
    edge: AtomicBool,
    notify: Notify,
}

impl Selector {
    fn ring(&self) {
        // No store, which loom does not order with an exchange at the same time.
        self.edge.swap(true, Ordering::AcqRel);
        self.notify.notify();
    }

    fn wait(&self) {
        while !self.edge.swap(false, Ordering::Acquire) {
            self.notify.wait();
        }
    }
}

struct Sleeping {
    bed: WorkerBed,
    inbox: Inbox<Item>,
    item: Item,
    flag: Flag,
    selector: Selector,
    /// The kernel's wake of the word.
    futex: Notify,
    /// The memory of the source, which a thread that rings reads, and the owner frees.
    memory: UnsafeCell<bool>,
}

// SAFETY: loom checks the accesses to the cell.
unsafe impl Sync for Sleeping {}
// SAFETY: as for Sync.
unsafe impl Send for Sleeping {}

impl Sleeping {
    fn new() -> Arc<Self> {
        Arc::new(Sleeping {
            bed: WorkerBed::new(),
            inbox: Inbox::new(),
            item: Item(AtomicPtr::new(std::ptr::null_mut())),
            flag: Flag::new(),
            selector: Selector { edge: AtomicBool::new(false), notify: Notify::new() },
            futex: Notify::new(),
            memory: UnsafeCell::new(true),
        })
    }

    /// Ends the sleep, as the thread that has taken the mark.
    fn wake(&self) {
        let rung = self.bed.wake(|source| {
            source.inspect(|_| {
                // SAFETY: the source is there until the token comes, which loom checks.
                assert!(self.memory.with(|alive| unsafe { *alive }), "the source is gone");
                self.selector.ring();
            })
        });
        if rung.is_none() {
            self.futex.notify();
        }
    }

    fn send(&self) {
        // SAFETY: in no inbox, and outlives it.
        if unsafe { self.inbox.push(NonNull::from(&self.item)) } == Pushed::OwnerParked {
            self.wake();
        }
    }

    fn announce(&self) {
        self.flag.raise();
        if Announcement::of_changes().finds_parked(&self.inbox) {
            self.wake();
        }
    }

    fn await_token(&self) {
        match self.bed.source() {
            None => self.wait_on_token(),
            Some(_) => {
                while !self.bed.has_token() {
                    thread::yield_now();
                }
            }
        }
    }

    fn wait_on_token(&self) {
        while !self.bed.has_token() {
            self.futex.wait();
        }
    }

    /// Sleeps, unless there is something to do. A sleep that `ends` by itself is over at once.
    fn sleep(&self, source: Option<u32>, ends: bool) {
        let mark = || LastLook::park(&self.inbox, None, &Fences);
        let Some(look) = self.bed.lie_down(source, mark) else { return self.bed.rise() };
        if !ends && !self.flag.is_raised_at(&look) {
            match self.bed.source() {
                Some(_) => self.selector.wait(),
                None => self.wait_on_token(),
            }
        }
        if !self.inbox.unpark() {
            self.await_token();
        }
        self.bed.rise();
    }

    /// Frees the source, as the end of the worker does.
    fn free(&self) {
        // SAFETY: no thread touches it any more, which loom checks.
        self.memory.with_mut(|alive| unsafe { *alive = false });
    }

    fn has_read(&self) -> bool {
        self.inbox.take().count() == 1
    }
}

#[test]
fn a_message_ends_the_sleep_in_either_bed() {
    for source in [None, Some(4)] {
        loom::model(move || {
            let worker = Sleeping::new();
            let sender = spawn(&worker, Sleeping::send);
            worker.sleep(source, false);
            worker.free();
            assert!(worker.has_read(), "the sleep has ended without a message");
            sender.join().unwrap();
        });
    }
}

#[test]
fn a_source_is_not_rung_once_the_worker_is_up() {
    loom::model(|| {
        let worker = Sleeping::new();
        let sender = spawn(&worker, Sleeping::send);
        worker.sleep(Some(4), true);
        worker.free();
        sender.join().unwrap();
        let _ = worker.has_read();
    });
}

/// The edge ends one sleep, the message another, or one of them both.
#[test]
fn neither_an_edge_nor_a_message_is_slept_through() {
    bounded(2, || {
        let worker = Sleeping::new();
        let sender = spawn(&worker, Sleeping::send);
        let kernel = spawn(&worker, |worker| worker.selector.ring());
        // At the second sleep there is a message, an edge, or an edge left by a ring.
        while !worker.has_read() {
            worker.sleep(Some(4), false);
        }
        worker.free();
        sender.join().unwrap();
        kernel.join().unwrap();
    });
}

/// The sleeps follow each other in the bed of the source and on the token.
#[test]
fn two_wakes_meet_the_bed_in_which_the_worker_lies() {
    bounded(2, || {
        let worker = Sleeping::new();
        let sender = spawn(&worker, Sleeping::send);
        let announcer = spawn(&worker, Sleeping::announce);
        let mut done = [false; 2];
        for source in [Some(4), None, Some(4), None] {
            worker.sleep(source, false);
            done[0] |= worker.has_read();
            if worker.flag.is_raised() {
                worker.flag.lower();
                done[1] = true;
            }
            if done == [true; 2] {
                break;
            }
        }
        worker.sleep(Some(4), true);
        worker.free();
        sender.join().unwrap();
        announcer.join().unwrap();
        assert_eq!(done, [true; 2]);
    });
}
