//! The use that threads make of their cores: [`Evidence`] from several sources, and one place that
//! classifies.
//!
//! 1. A **declared** class is not doubted.
//! 2. **Counters** of the hardware bound the share of cycles in which a thread waits
//!    ([`WaitBounds`]): a stall if that is at least half of them; computation if it is less;
//!    nothing if the bounds are on both sides of one half.
//! 3. **Sampling** shows the work of a thread during an observation ([`Profile`]): a stall if at
//!    least half of its time went into waiting for persistence or far memory; computation if not;
//!    nothing if it slept or spun or its code cannot be read. A thread has no class if counters and
//!    samples contradict each other, or if it spins, which counters do not see.
//! 4. **Mappings** of persistent memory show abilities of a process. They decide, without
//!    certainty, if neither counters nor samples do. A thread that was seen to compute computes,
//!    with any mappings.
//! 5. **Trial** pairing ([`crate::trial`]) needs no class: it serves threads without any other
//!    evidence.

mod code;
mod counters;
mod decode;
mod look;
mod mappings;
mod profile;

use std::fmt;

pub use counters::{CounterTable, WaitBounds};
pub use decode::ReadCode;
pub use look::Look;
pub use mappings::Mappings;
pub use profile::{Profile, Profiler};

use crate::Class;
use counters::STALLS;

/// Least number of samples for a classification.
const ENOUGH_SAMPLES: usize = 20;
/// Least share of time spent waiting for another thread at which a thread has no class.
const SPINS: f64 = 0.5;
/// Upper bound of confidence: samples depend on each other, and the blamed instruction may be an
/// adjacent one.
const SUREST_SAMPLING: f64 = 0.95;
/// Least confidence of a class; below it the thread has none.
const LEAST_SURE: f64 = 0.5;
/// Weight of time that may have been waiting, in the sureness of computing: code that cannot be
/// told in part has hidden more waiting than is seen, in programs of other authors.
const HIDDEN: f64 = 1.5;
/// Confidence of mappings, as mapped memory may never be used.
const MAPPINGS: f64 = 0.5;
/// Largest share of samples that wait for persistence, or might, of a thread that surely does not
/// wait for flushes half of its time.
const FEW_FLUSHES: f64 = 0.2;

/// The source of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClassSource {
    /// The user.
    Declared,
    /// Hardware counters.
    Counters,
    /// The mappings of its process.
    Mappings,
    /// Samples of its instructions.
    Sampling,
    /// The pairing with the most progress.
    Trial,
    /// No source had evidence.
    Undetermined,
}

impl fmt::Display for ClassSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Declared => "declared",
            Self::Counters => "counters",
            Self::Mappings => "mappings",
            Self::Sampling => "sampling",
            Self::Trial => "trial",
            Self::Undetermined => "-",
        })
    }
}

/// Reason why a source has no evidence, in one line with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The evidence about a thread.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Evidence of persistent memory mapped by its process, if there is any.
    pub mappings: Result<Option<String>, Unavailable>,
    /// The result of sampling.
    pub profile: Result<Profile, Unavailable>,
    /// The result of hardware counters.
    pub counters: Result<WaitBounds, Unavailable>,
}

/// The classification of a thread, with its source and confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Classification {
    /// The class of its work.
    pub class: Class,
    /// The deciding source.
    pub source: ClassSource,
    /// Confidence from 0 to 1. For sampling: one minus the chance (by Hoeffding's bound) that as
    /// many samples lie so far on one side of the threshold although the thread belongs to the
    /// other side. For counters: by the distance from the threshold.
    pub confidence: f64,
    /// One line for the user.
    pub why: String,
}

impl Classification {
    /// The class declared by the user.
    pub fn declared(class: Class) -> Self {
        Self { class, source: ClassSource::Declared, confidence: 1.0, why: "as declared".into() }
    }

    /// No class.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self {
            class: Class::Unknown,
            source: ClassSource::Undetermined,
            confidence: 0.0,
            why: why.into(),
        }
    }
}

/// Classifies a thread by its declaration and its evidence.
///
/// # Examples
///
/// ```
/// use daiko_pair::{Class, class::{Evidence, Profile, ClassSource, Unavailable, decide}};
///
/// let profile = Profile { samples: 200, persists: 0.8, far: 0.1, ..Profile::default() };
/// let counters = Err(Unavailable("a virtual machine".into()));
/// let evidence = Evidence { mappings: Ok(None), profile: Ok(profile), counters };
/// let decided = decide(None, &evidence);
/// assert_eq!((decided.class, decided.source), (Class::Stall, ClassSource::Sampling));
/// ```
pub fn decide(declared: Option<Class>, evidence: &Evidence) -> Classification {
    if let Some(class) = declared {
        return Classification::declared(class);
    }
    let profile = evidence.profile.as_ref().map_err(|why| format!("no sampling: {why}"));
    let sampled = profile.and_then(telling).and_then(by_sampling);
    match (sampled, by_counters(evidence)) {
        // It spins.
        (Ok(sampled), _) if sampled.class == Class::Unknown => sampled,
        (Ok(sampled), Ok(counted)) => by_both(&sampled, &counted),
        (Err(_), Ok(counted)) => counted,
        (Ok(sampled), Err(_)) => sampled,
        (Err(why), Err(uncounted)) => {
            by_mappings(&evidence.mappings, format!("{why}; {uncounted}"))
        }
    }
}

fn by_counters(evidence: &Evidence) -> Result<Classification, String> {
    let bounds = evidence.counters.as_ref().map_err(|why| format!("no counters: {why}"))?;
    let shows_none =
        |profile: &Profile| profile.samples >= ENOUGH_SAMPLES && may_persist(profile) < FEW_FLUSHES;
    let (class, confidence) = bounds.class(evidence.profile.as_ref().is_ok_and(shows_none))?;
    let why = bounds.to_string();
    Ok(Classification { class, source: ClassSource::Counters, confidence, why })
}

/// The share of samples that wait for persistence, or might.
fn may_persist(profile: &Profile) -> f64 {
    profile.persists + profile.unread
}

fn by_both(sampled: &Classification, counted: &Classification) -> Classification {
    let why = format!("{}; {}", counted.why, sampled.why);
    match sampled.class == counted.class {
        true => {
            let confidence = counted.confidence.max(sampled.confidence);
            Classification { confidence, why, ..counted.clone() }
        }
        false => Classification::unknown(format!("counters and samples disagree: {why}")),
    }
}

/// The profile if it suffices for a classification, otherwise the reason.
fn telling(profile: &Profile) -> Result<&Profile, String> {
    let Profile { samples, persists, far, untold, unread, .. } = *profile;
    if samples < ENOUGH_SAMPLES {
        return Err(format!(
            "{samples} samples, of {ENOUGH_SAMPLES} that are needed: it sleeps, or is in the kernel"
        ));
    }
    let waits = persists + far;
    if waits < STALLS && waits + untold + unread >= STALLS {
        let remedy = if unread > untold { ": run as root" } else { "" };
        return Err(format!(
            "{samples} samples: {}% wait for memory, {}% at addresses that cannot be told, and the \
             code of {}% cannot be read{remedy}",
            percent(waits),
            percent(untold),
            percent(unread)
        ));
    }
    Ok(profile)
}

/// The classification by samples, or the reason why they are too close to one half.
fn by_sampling(profile: &Profile) -> Result<Classification, String> {
    let Profile { samples, persists, far, spins, untold, unread } = *profile;
    let classification = |class, confidence, why| Classification {
        class,
        source: ClassSource::Sampling,
        confidence,
        why,
    };
    if spins >= SPINS {
        let why = format!(
            "{samples} samples: {}% in a loop that waits for another thread",
            percent(spins)
        );
        return Ok(classification(Class::Unknown, sureness(samples, spins - SPINS), why));
    }
    let why = format!(
        "{samples} samples: {}% wait for persistence, {}% for far memory",
        percent(persists),
        percent(far)
    );
    let waits = persists + far;
    let (class, distance) = match waits >= STALLS {
        true => (Class::Stall, waits - STALLS),
        false => (Class::Compute, STALLS - waits - HIDDEN * (untold + unread)),
    };
    let confidence = sureness(samples, distance);
    match confidence < LEAST_SURE {
        true => Err(format!("{why}: too close to tell")),
        false => Ok(classification(class, confidence, why)),
    }
}

fn percent(share: f64) -> f64 {
    (share * 100.0).round()
}

/// Hoeffding's bound for `samples` with a mean at this distance from the threshold, on its own side
/// of it.
fn sureness(samples: usize, distance: f64) -> f64 {
    let distance = distance.max(0.0);
    (1.0 - (-2.0 * samples as f64 * distance * distance).exp()).min(SUREST_SAMPLING)
}

fn by_mappings(
    mappings: &Result<Option<String>, Unavailable>,
    otherwise: String,
) -> Classification {
    match mappings {
        Ok(Some(mapped)) => Classification {
            class: Class::Stall,
            source: ClassSource::Mappings,
            confidence: MAPPINGS,
            why: format!("{mapped}, so that it can stall ({otherwise})"),
        },
        Ok(None) => Classification::unknown(otherwise),
        Err(unavailable) => {
            Classification::unknown(format!("{otherwise}; no mappings: {unavailable}"))
        }
    }
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
