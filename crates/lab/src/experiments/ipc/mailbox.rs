//! `mailbox`: a mailbox of two lines, as a programmer writes it by hand. The client writes its
//! question to one place, the server writes the answer to another, and each polls the other's.
//!
//! Each message has its flag before it: the number of the question. Only one side ever writes a
//! place, so a message is never overwritten while it is read.
//!
//! Where the server shares the CPU of its clients, a side that finds nothing yields the CPU
//! (`sched_yield`). This suits the method best: the other side runs at once, where a futex needs a
//! system call for the sleep and another for the wake (compare `futex`).

use std::convert::Infallible;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::Ordering;
use std::thread;

use super::client::Calls;
use super::method::{IpcSpec, Link};
use super::slot::MessageSlot;
use crate::kit::{Failure, ForkShared, Zeroed};

/// The places of one client. The state of a slot is the number of the question.
#[repr(C)]
struct Places {
    /// Written by the client.
    question: MessageSlot,
    /// Written by the server.
    answer: MessageSlot,
}

// SAFETY: both fields are `Zeroed`.
unsafe impl Zeroed for Places {}

impl Places {
    /// Answers the question, if there is a new one. Returns whether there was one.
    #[inline]
    fn answer<const WORDS: usize>(&self) -> bool {
        // Acquire: pairs with the Release in `ask`. Relaxed: this side alone writes it.
        let asked = self.question.state.load(Ordering::Acquire);
        let is_new = asked != self.answer.state.load(Ordering::Relaxed);
        if is_new {
            self.answer.answer_from::<WORDS>(&self.question);
            // Pairs with the Acquire in `take_answer`.
            self.answer.state.store(asked, Ordering::Release);
        }
        is_new
    }

    #[inline]
    fn ask<const WORDS: usize>(&self, number: u32, question: &[u64; WORDS]) {
        self.question.write(question);
        // Pairs with the Acquire in `answer`.
        self.question.state.store(number, Ordering::Release);
    }

    /// Copies the answer to question `number` if it is there. Returns whether it is.
    #[inline]
    fn take_answer<const WORDS: usize>(&self, number: u32, message: &mut [u64; WORDS]) -> bool {
        // Pairs with the Release in `answer`.
        let answered = self.answer.state.load(Ordering::Acquire) == number;
        if answered {
            self.answer.read(message);
        }
        answered
    }
}

pub(super) struct Mailbox {
    places: ForkShared<Places>,
    shares_cpu: bool,
}

impl Mailbox {
    #[inline]
    fn pause(&self) {
        pause(self.shares_cpu);
    }
}

/// Lets some time pass between two looks: the other side runs meanwhile, also if it needs this CPU.
#[inline]
pub(super) fn pause(shares_cpu: bool) {
    if shares_cpu { thread::yield_now() } else { spin_loop() }
}

impl Link for Mailbox {
    const NAME: &'static str = "mailbox";

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        Ok(Self { places: ForkShared::new(spec.clients)?, shares_cpu: spec.shares_cpu() })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        loop {
            let answered = self.places.iter().filter(|places| places.answer::<WORDS>()).count();
            if answered == 0 {
                self.pause();
            }
        }
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let (places, mut number) = (&self.places[client], 0u32);
        calls.make(|message| {
            number = number.wrapping_add(1);
            places.ask(number, message);
            while !places.take_answer(number, message) {
                self.pause();
            }
            Ok(())
        })
    }
}
