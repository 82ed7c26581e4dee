//! `spin`: a mailbox of one line. Both sides poll the slot until it is their turn; the answer
//! replaces the question. This is the limit of memory alone, where each process has a CPU.

use std::convert::Infallible;
use std::hint::spin_loop;
use std::io;

use super::client::Calls;
use super::method::{IpcSpec, Link};
use super::slot::MessageSlot;
use crate::kit::{Failure, ForkShared};

pub(super) struct Spin(ForkShared<MessageSlot>);

impl Link for Spin {
    const NAME: &'static str = "spin";

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        ForkShared::new(spec.clients).map(Self)
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        serve::<WORDS>(&self.0)
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let slot = &self.0[client];
        calls.make(|message| {
            slot.ask(message);
            while !slot.take_answer(message) {
                spin_loop();
            }
            Ok(())
        })
    }
}

/// Answers all questions in `slots`, without end.
pub(super) fn serve<const WORDS: usize>(slots: &[MessageSlot]) -> io::Result<Infallible> {
    loop {
        let answered = slots.iter().filter(|slot| slot.answer::<WORDS>()).count();
        if answered == 0 {
            spin_loop();
        }
    }
}
