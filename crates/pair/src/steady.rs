//! A class with hysteresis.

use crate::Class;
use crate::class::{ClassSource, Classification};

/// Number of observations in a row that must agree to change a class.
const AGREE: u32 = 3;

/// The class of a thread on which recent observations agree.
#[derive(Clone, Debug)]
pub struct Steady {
    classification: Classification,
    /// The deviating class of the last observations, and their number.
    other: (Class, u32),
}

impl Steady {
    /// Starts with the first classification.
    pub fn new(classification: Classification) -> Self {
        Self { other: (classification.class, 0), classification }
    }

    /// The current classification.
    pub fn classification(&self) -> &Classification {
        &self.classification
    }

    /// Adds a classification. Returns true if the class has changed.
    ///
    /// A classification without a class changes nothing: a thread that sleeps keeps its class. An
    /// unknown class is replaced by the first known one. A class from a stronger source replaces
    /// one from a weaker source at once, never the reverse. With the same source a new class is
    /// taken from the third observation in a row.
    pub fn look(&mut self, classification: Classification) -> bool {
        if self.classification.class == Class::Unknown {
            let is_taken = classification.class != Class::Unknown;
            // Taken even without a class, as the reason may have changed.
            *self = Self::new(classification);
            return is_taken;
        }
        let (rank, before) = (rank(classification.source), rank(self.classification.source));
        if classification.class == Class::Unknown || rank < before {
            return false;
        }
        if classification.class == self.classification.class {
            self.other.1 = 0;
            self.classification = classification;
            return false;
        }
        let agreed = if self.other.0 == classification.class { self.other.1 } else { 0 };
        self.other = (classification.class, agreed + 1);
        let is_taken = rank > before || self.other.1 >= AGREE;
        if is_taken {
            *self = Self::new(classification);
        }
        is_taken
    }
}

/// Precedence of sources.
fn rank(source: ClassSource) -> u8 {
    match source {
        ClassSource::Undetermined => 0,
        ClassSource::Mappings => 1,
        // Counters and samples replace each other, as counters may be in use at any look.
        ClassSource::Counters | ClassSource::Sampling | ClassSource::Trial => 2,
        ClassSource::Declared => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::{Compute, Stall, Unknown};
    use proptest::prelude::*;

    fn seen(class: Class) -> Classification {
        Classification { class, source: ClassSource::Sampling, confidence: 0.9, why: String::new() }
    }

    fn after(looks: &[Class]) -> Class {
        let mut steady = Steady::new(seen(looks[0]));
        looks[1..].iter().for_each(|class| {
            steady.look(seen(*class));
        });
        steady.classification().class
    }

    #[test]
    fn a_class_changes_when_looks_agree() {
        assert_eq!(after(&[Unknown, Stall]), Stall);
        assert_eq!(after(&[Stall, Compute, Compute]), Stall);
        assert_eq!(after(&[Stall, Compute, Compute, Compute]), Compute);
        assert_eq!(after(&[Stall, Compute, Compute, Stall, Compute]), Stall, "they did not agree");
        assert_eq!(
            after(&[Stall, Compute, Unknown, Compute, Compute]),
            Compute,
            "it slept between"
        );
        assert_eq!(after(&[Stall, Unknown, Unknown, Unknown]), Stall);
    }

    #[test]
    fn a_guess_by_mappings_gives_way_to_an_observation_and_never_the_reverse() {
        let guess =
            || Classification { source: ClassSource::Mappings, confidence: 0.5, ..seen(Stall) };
        let mut steady = Steady::new(guess());
        assert!(steady.look(seen(Compute)), "at once");
        assert!((0..9).all(|_| !steady.look(guess())));
        assert_eq!(steady.classification(), &seen(Compute));
        let mut steady = Steady::new(seen(Stall));
        steady.look(guess());
        assert_eq!(steady.classification(), &seen(Stall), "it is not less sure");
        let mut steady = Steady::new(seen(Unknown));
        assert!(steady.look(guess()), "the class was unknown");
    }

    #[test]
    fn a_late_declaration_is_taken_at_once() {
        let mut steady = Steady::new(seen(Stall));
        assert!(steady.look(Classification::declared(Compute)));
        assert_eq!(steady.classification(), &Classification::declared(Compute));
    }

    #[test]
    fn a_declared_class_stays() {
        let mut steady = Steady::new(Classification::declared(Compute));
        assert!((0..9).all(|_| !steady.look(seen(Stall))));
        assert_eq!(steady.classification(), &Classification::declared(Compute));
    }

    proptest! {
        #[test]
        fn it_changes_no_more_often_than_looks_agree(looks in prop::collection::vec(0..3_usize, 1..60)) {
            let mut steady = Steady::new(seen(Stall));
            let changes = looks.iter().filter(|look| steady.look(seen([Unknown, Compute, Stall][**look])));
            prop_assert!(changes.count() <= looks.len() / AGREE as usize);
        }
    }
}
