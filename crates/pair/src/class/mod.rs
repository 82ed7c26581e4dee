//! What threads do with their core: [`Evidence`] of several sources, and one place that decides.
//!
//! 1. What was **declared** is not doubted.
//! 2. **Sampling** tells what a thread did while it was looked at ([`Profile`]): a stall if at least half of its time went into
//!    waiting for persistence or far memory, computation if not, nothing if it slept or spun or its code cannot be read. Where
//!    the processor counts the cycles in which it waited, those have to agree.
//! 3. **Mappings** of persistent memory tell what a process can do. They decide, without being sure, where sampling is not to
//!    be had; a thread that was seen to compute does so, whatever its process has mapped.
//! 4. **Trial** pairing ([`crate::trial`]) needs no class: it is for threads of which nothing else is known.

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

/// Samples without which nothing is said.
const ENOUGH_SAMPLES: usize = 20;
/// A thread that waits for at least this share of its time stalls.
const STALLS: f64 = 0.5;
/// A thread that waits for another one for at least this share of its time is of no class.
const SPINS: f64 = 0.5;
/// Samples are not independent of each other, and the one that is blamed may be a neighbour.
const SUREST_SAMPLING: f64 = 0.95;
/// Below, the thread is said to be of no class.
const LEAST_SURE: f64 = 0.5;
/// What is mapped may never be used.
const MAPPINGS: f64 = 0.5;
/// A thread that waits in so few of its cycles does not stall, whatever its code looks like; in so many, and by memory, it does.
const FEW_STALLED: f64 = 0.2;
const MANY_STALLED: f64 = 0.6;
/// As much of its time in waiting for memory has to be seen before counted cycles are taken for it.
const SOME: f64 = 0.3;

/// Who has said which class it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The user.
    Declared,
    /// What its process has mapped.
    Mappings,
    /// Where it was, again and again.
    Sampling,
    /// Which pairing made the most progress.
    Trial,
    /// Nobody: no source had anything to say.
    Nobody,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Declared => "declared",
            Self::Mappings => "mappings",
            Self::Sampling => "sampling",
            Self::Trial => "trial",
            Self::Nobody => "-",
        })
    }
}

/// Why a source has nothing to say, in one line with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the sources have found out about a thread.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// How its process has persistent memory mapped, if it has.
    pub mappings: Result<Option<String>, Unavailable>,
    /// What it was seen to do.
    pub profile: Result<Profile, Unavailable>,
    /// The share of cycles in which it waited; `None` where the processor does not count them.
    pub stalled: Option<f64>,
}

/// What a thread is, who says so, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What it does with its core.
    pub class: Class,
    /// Who decided.
    pub source: Source,
    /// From 0 to 1. Of sampling: one minus the chance (by Hoeffding's bound) that as many samples lie so far on one side of the
    /// threshold though the thread is on the other.
    pub confidence: f64,
    /// One line for the user.
    pub why: String,
}

impl Verdict {
    /// As the user has said.
    pub fn declared(class: Class) -> Self {
        Self { class, source: Source::Declared, confidence: 1.0, why: "as declared".into() }
    }

    /// Nothing is known.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { class: Class::Unknown, source: Source::Nobody, confidence: 0.0, why: why.into() }
    }
}

/// Decides by what was declared and found out.
///
/// # Examples
///
/// ```
/// use daiko_pair::{Class, class::{Evidence, Profile, Source, decide}};
///
/// let profile = Profile { samples: 200, persists: 0.8, far: 0.1, ..Profile::default() };
/// let evidence = Evidence { mappings: Ok(None), profile: Ok(profile), stalled: None };
/// let verdict = decide(None, &evidence);
/// assert_eq!((verdict.class, verdict.source), (Class::Stall, Source::Sampling));
/// ```
pub fn decide(declared: Option<Class>, evidence: &Evidence) -> Verdict {
    if let Some(class) = declared {
        return Verdict::declared(class);
    }
    let profile = evidence.profile.as_ref().map_err(|why| format!("no sampling: {why}"));
    match profile.and_then(telling) {
        Ok(profile) => by_sampling(profile, evidence.stalled),
        Err(why) => by_mappings(&evidence.mappings, why),
    }
}

/// The profile, if it tells enough; else why it does not.
fn telling(profile: &Profile) -> Result<&Profile, String> {
    let Profile { samples, persists, far, unread, .. } = *profile;
    if samples < ENOUGH_SAMPLES {
        return Err(format!(
            "{samples} samples, of {ENOUGH_SAMPLES} that are needed: it sleeps, or is in the kernel"
        ));
    }
    let waits = persists + far;
    if waits < STALLS && waits + unread >= STALLS {
        return Err(format!(
            "{samples} samples: {}% wait for memory, and the code of {}% cannot be read: run as root",
            percent(waits),
            percent(unread)
        ));
    }
    Ok(profile)
}

fn by_sampling(profile: &Profile, stalled: Option<f64>) -> Verdict {
    let Profile { samples, persists, far, spins, unread } = *profile;
    let mut why = format!(
        "{samples} samples: {}% wait for persistence, {}% for far memory",
        percent(persists),
        percent(far)
    );
    let verdict =
        |class, confidence, why| Verdict { class, source: Source::Sampling, confidence, why };
    if spins >= SPINS {
        let why = format!(
            "{samples} samples: {}% in a loop that waits for another thread",
            percent(spins)
        );
        return verdict(Class::Unknown, sureness(samples, spins - SPINS), why);
    }
    let waits = persists + far;
    let (class, confidence) = match stalled {
        Some(stalled) if stalled < FEW_STALLED => (Class::Compute, SUREST_SAMPLING),
        Some(stalled) if stalled > MANY_STALLED && waits >= SOME => (Class::Stall, SUREST_SAMPLING),
        _ if waits >= STALLS => (Class::Stall, sureness(samples, waits - STALLS)),
        _ => (Class::Compute, sureness(samples, STALLS - waits - unread)),
    };
    if let Some(stalled) = stalled {
        why += &format!("; {}% of cycles stalled", percent(stalled));
    }
    match confidence < LEAST_SURE {
        true => verdict(Class::Unknown, confidence, format!("{why}: too close to tell")),
        false => verdict(class, confidence, why),
    }
}

fn percent(share: f64) -> f64 {
    (share * 100.0).round()
}

/// Hoeffding's bound for `samples` whose mean is so far from the threshold.
fn sureness(samples: usize, distance: f64) -> f64 {
    (1.0 - (-2.0 * samples as f64 * distance * distance).exp()).min(SUREST_SAMPLING)
}

fn by_mappings(mappings: &Result<Option<String>, Unavailable>, otherwise: String) -> Verdict {
    match mappings {
        Ok(Some(mapped)) => Verdict {
            class: Class::Stall,
            source: Source::Mappings,
            confidence: MAPPINGS,
            why: format!("{mapped}, so that it can stall ({otherwise})"),
        },
        Ok(None) => Verdict::unknown(otherwise),
        Err(unavailable) => Verdict::unknown(format!("{otherwise}; no mappings: {unavailable}")),
    }
}

#[cfg(test)]
#[path = "class_tests.rs"]
mod tests;
