//! `spin-futex`: both sides look some hundred times, then sleep on a word. What one makes by hand for
//! processes that wait for each other.

use std::{convert::Infallible, io};

use super::{client::Questions, method::Link, sleepers::Sleepers};
use crate::Failure;

/// Some microseconds: longer than an answer takes from another CPU, shorter than a sleep.
const LOOKS: u32 = 300;

pub(super) struct SpinFutex(Sleepers<LOOKS>);

impl Link for SpinFutex {
    const NAME: &'static str = "spin-futex";

    fn open(clients: usize) -> Result<Self, Failure> {
        Sleepers::new(clients).map(Self)
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        self.0.serve::<WORDS>()
    }

    fn ask<const WORDS: usize>(
        &self,
        client: usize,
        questions: Questions<'_, WORDS>,
    ) -> io::Result<()> {
        questions.ask(|message| {
            self.0.call(client, message);
            Ok(())
        })
    }
}
