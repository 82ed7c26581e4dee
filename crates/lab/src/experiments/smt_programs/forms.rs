//! Groups, builds and forms of foreign programs.

use crate::kit::Choice;

/// Programs of one origin that the classifier saw at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Training,
    Looked,
    Test,
    /// Code of other authors, used for training.
    Libraries,
    /// Code of other authors, held out.
    HeldOut,
}

impl Choice for Group {
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Training, "training"),
        (Self::Looked, "looked"),
        (Self::Test, "test"),
        (Self::Libraries, "libraries"),
        (Self::HeldOut, "held-out"),
    ];
}

/// Optimisation of programs. Interpreted programs are optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Optimised,
    Unoptimised,
}

impl Choice for Level {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Optimised, "optimised"), (Self::Unoptimised, "unoptimised")];
}

/// Size of the working set of a program, with flushes if it is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Small,
    Large,
}

impl Choice for Form {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Small, "small"), (Self::Large, "large")];
}
