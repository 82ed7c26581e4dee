//! `futex`: both sides sleep on a word at once. What a hand-made wait costs without spinning.

use std::{convert::Infallible, io};

use super::{client::Questions, method::Link, sleepers::Sleepers};
use crate::Failure;

/// Neither side looks more than once.
const LOOKS: u32 = 0;

pub(super) struct Futex(Sleepers<LOOKS>);

impl Link for Futex {
    const NAME: &'static str = "futex";

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
