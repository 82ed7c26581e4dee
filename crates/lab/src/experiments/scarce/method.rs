//! The methods.

use std::fs::File;
use std::time::Duration;

use super::point::ScarceSpec;
use super::{fibers, goroutines};
use crate::kit::ring::part::{Leader, START};
use crate::kit::ring::program::GO;
use crate::kit::ring::tasks::{self, TaskRing};
use crate::kit::tasks::TokioKind;
use crate::kit::{Failure, Order, RingOutcome, Skip};

/// All methods, in the order of tables.
pub(super) const METHODS: [Method; 4] = [
    Method { name: "daiko", waiters: Waiters::Fibers { migratable: false } },
    Method { name: "daiko-own-mover", waiters: Waiters::Fibers { migratable: true } },
    Method { name: "tokio", waiters: Waiters::Tasks },
    Method { name: "go", waiters: Waiters::Goroutines },
];

/// A library with waiters that wake each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Method {
    /// Name in the command line and in results.
    pub(super) name: &'static str,
    waiters: Waiters,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Waiters {
    Fibers { migratable: bool },
    Tasks,
    Goroutines,
}

/// The body of the process under test. If it is another program, that program writes its answer to
/// the file.
pub(super) type Body = Box<dyn FnOnce(&File) -> Result<RingOutcome, Failure>>;

impl Method {
    /// Whether the library has Daiko's presets.
    pub(super) fn has_presets(&self) -> bool {
        matches!(self.waiters, Waiters::Fibers { .. })
    }

    /// Checks that it can be run here, without compiling.
    pub(super) fn supports(&self) -> Result<(), Skip> {
        match self.waiters {
            Waiters::Goroutines => GO.supports(),
            Waiters::Fibers { .. } | Waiters::Tasks => Ok(()),
        }
    }

    /// Prepares a ring that runs for `length`, and for `limit` at most. Long work, as to compile a
    /// program, is done here, before the process under test exists.
    pub(super) fn prepare(
        &self,
        spec: &ScarceSpec,
        length: Duration,
        limit: Duration,
    ) -> Result<Body, Failure> {
        let (spec, successors) = (*spec, Order::Shuffled.successors(spec.threads));
        Ok(match self.waiters {
            Waiters::Fibers { migratable } => Box::new(move |_| {
                fibers::run(&spec, migratable, successors, Leader::for_time(length), limit)
            }),
            Waiters::Tasks => Box::new(move |_| {
                let (runtime, leader) = (
                    tasks::runtime(TokioKind::MultiThread, spec.workers)?,
                    Leader::for_time(length),
                );
                TaskRing::new(successors).run(&runtime, leader, limit, START)
            }),
            Waiters::Goroutines => Box::new(goroutines::prepare(&spec, &successors, length)?),
        })
    }
}
