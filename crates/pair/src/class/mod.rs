//! The use that threads make of their cores: [`Evidence`] from several sources, and one place that
//! classifies.
//!
//! 1. A **declared** class is not doubted.
//! 2. **Sampling** shows the work of a thread during an observation ([`Profile`]): a stall if at
//!    least half of its time went into waiting for persistence or far memory; computation if not;
//!    nothing if it slept or spun or its code cannot be read. Stalled cycles have to agree if the
//!    processor counts them.
//! 3. **Mappings** of persistent memory show abilities of a process. They decide, without
//!    certainty, if sampling is unavailable. A thread that was seen to compute computes, with any
//!    mappings.
//! 4. **Trial** pairing ([`crate::trial`]) needs no class: it serves threads without any other
//!    evidence.

mod code;
mod decode;
mod look;
mod mappings;
mod profile;

use std::fmt;

pub use decode::ReadCode;
pub use look::Look;
pub use mappings::Mappings;
pub use profile::{Profile, Profiler};

use crate::Class;

/// Least number of samples for a classification.
const ENOUGH_SAMPLES: usize = 20;
/// Least share of waiting time of a stalling thread.
const STALLS: f64 = 0.5;
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
/// Bounds of the share of stalled cycles. Below the first, a thread does not stall, in spite of its
/// code; above the second, it stalls if it waits for memory.
const FEW_STALLED: f64 = 0.2;
const MANY_STALLED: f64 = 0.6;
/// Least share of time spent waiting for memory at which stalled cycles are attributed to it.
const SOME: f64 = 0.3;

/// The source of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClassSource {
    /// The user.
    Declared,
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
    /// The share of stalled cycles; `None` if the processor does not count them.
    pub stalled: Option<f64>,
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
    /// other side.
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
/// use daiko_pair::{Class, class::{Evidence, Profile, ClassSource, decide}};
///
/// let profile = Profile { samples: 200, persists: 0.8, far: 0.1, ..Profile::default() };
/// let evidence = Evidence { mappings: Ok(None), profile: Ok(profile), stalled: None };
/// let decided = decide(None, &evidence);
/// assert_eq!((decided.class, decided.source), (Class::Stall, ClassSource::Sampling));
/// ```
pub fn decide(declared: Option<Class>, evidence: &Evidence) -> Classification {
    if let Some(class) = declared {
        return Classification::declared(class);
    }
    let profile = evidence.profile.as_ref().map_err(|why| format!("no sampling: {why}"));
    match profile.and_then(telling) {
        Ok(profile) => by_sampling(profile, evidence),
        Err(why) => by_mappings(&evidence.mappings, why),
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

fn by_sampling(profile: &Profile, evidence: &Evidence) -> Classification {
    let stalled = evidence.stalled;
    let Profile { samples, persists, far, spins, untold, unread } = *profile;
    let mut why = format!(
        "{samples} samples: {}% wait for persistence, {}% for far memory",
        percent(persists),
        percent(far)
    );
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
        return classification(Class::Unknown, sureness(samples, spins - SPINS), why);
    }
    let waits = persists + far;
    let (class, confidence) = match stalled {
        Some(stalled) if stalled < FEW_STALLED => (Class::Compute, SUREST_SAMPLING),
        Some(stalled) if stalled > MANY_STALLED && waits >= SOME => (Class::Stall, SUREST_SAMPLING),
        _ if waits >= STALLS => (Class::Stall, sureness(samples, waits - STALLS)),
        _ => {
            let hidden = HIDDEN * (untold + unread);
            (Class::Compute, sureness(samples, STALLS - waits - hidden))
        }
    };
    if let Some(stalled) = stalled {
        why += &format!("; {}% of cycles stalled", percent(stalled));
    }
    match confidence < LEAST_SURE {
        true => by_mappings(&evidence.mappings, format!("{why}: too close to tell")),
        false => classification(class, confidence, why),
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
