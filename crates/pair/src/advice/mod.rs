//! Advice whether a job gains from two threads on a core, and which partner suits it.
//!
//! Advice follows from evidence only: the classes of the job's threads, their number, and a trial
//! ([`SmtTrial`]) of the job with and without siblings. Of the gain of pairs P4 has measured those
//! of a stalling and a computing task alone, so classes alone say nothing about two tasks of one
//! class.

mod trial;

pub use trial::{Gain, Siblings, SmtTrial, run};

use std::fmt;

use crate::class::ClassSource;

/// Largest share of CPU time without a class at which the job has one.
const MOST_UNKNOWN: f64 = 0.5;
/// Least share of one class, of the time with a class, in a job of that class.
const MOSTLY: f64 = 0.75;

/// Shares of a job's CPU time by the class of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassShares {
    /// Threads that stall.
    pub stall: f64,
    /// Threads that compute.
    pub compute: f64,
    /// Threads without a class.
    pub unknown: f64,
}

/// The class of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobClass {
    /// Nearly all of its threads stall.
    Stall,
    /// Nearly all of its threads compute.
    Compute,
    /// It has threads of both classes.
    Mixed,
    /// Too much of its time has no class, or it did not run.
    Unknown,
}

/// The job that should share cores with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// A job that stalls.
    Stall,
    /// A job that computes.
    Compute,
    /// None: its own threads complement each other.
    None,
    /// Not known.
    Unknown,
}

impl fmt::Display for Partner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stall => "stall",
            Self::Compute => "compute",
            Self::None => "none",
            Self::Unknown => "unknown",
        })
    }
}

/// The observation of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobEvidence {
    /// The classes of its threads.
    pub shares: ClassShares,
    /// The sources of these classes.
    pub sources: Vec<ClassSource>,
    /// The reason why the thread without a class that ran for longest has none.
    pub unknown: Option<String>,
    /// The number of threads that run at once.
    pub threads: usize,
    /// The number of cores that it may use.
    pub cores: usize,
    /// The result of a trial, or the reason why there was none.
    pub gain: Result<Gain, String>,
}

/// Advice about a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The class of the job.
    pub class: JobClass,
    /// The partner that suits it best.
    pub partner: Partner,
    /// Slurm's `--threads-per-core`; `None` if the evidence supports neither value.
    pub threads_per_core: Option<u8>,
    /// The reasons, one sentence each.
    pub reasons: Vec<String>,
}

/// Advises by the evidence about a job.
///
/// # Examples
///
/// ```
/// use daiko_pair::advice::{ClassShares, JobEvidence, Partner, advise};
///
/// let shares = ClassShares { stall: 1.0, ..ClassShares::default() };
/// let gain = Err("no core has siblings".to_owned());
/// let evidence =
///     JobEvidence { shares, sources: vec![], unknown: None, threads: 8, cores: 4, gain };
/// let advice = advise(&evidence);
/// assert_eq!((advice.partner, advice.threads_per_core), (Partner::Compute, None));
/// ```
pub fn advise(evidence: &JobEvidence) -> Advice {
    let class = evidence.class();
    let (partner, why) = partner(class, evidence);
    let (threads_per_core, because) = threads_per_core(class, evidence);
    Advice { class, partner, threads_per_core, reasons: vec![why, because] }
}

impl JobEvidence {
    fn class(&self) -> JobClass {
        let ClassShares { stall, compute, unknown } = self.shares;
        let known = stall + compute;
        match (known > 0.0 && unknown <= MOST_UNKNOWN, stall / known) {
            (false, _) => JobClass::Unknown,
            (true, stall) if stall >= MOSTLY => JobClass::Stall,
            (true, stall) if stall <= 1.0 - MOSTLY => JobClass::Compute,
            _ => JobClass::Mixed,
        }
    }
}

fn partner(class: JobClass, evidence: &JobEvidence) -> (Partner, String) {
    let (partner, why) = match class {
        JobClass::Stall => {
            (Partner::Compute, "its threads leave the units of their cores idle while they wait")
        }
        JobClass::Compute => (Partner::Stall, "its threads keep the units of their cores busy"),
        JobClass::Mixed => (Partner::None, "its own threads complement each other"),
        JobClass::Unknown => {
            let why = evidence.unknown.as_deref().unwrap_or("none of its threads has run");
            return (Partner::Unknown, format!("most of its time has no class: {why}"));
        }
    };
    (partner, why.into())
}

fn threads_per_core(class: JobClass, evidence: &JobEvidence) -> (Option<u8>, String) {
    let JobEvidence { threads, cores, ref gain, .. } = *evidence;
    match gain {
        _ if threads == 0 => (None, "it did not run".into()),
        _ if threads <= cores => (
            Some(1),
            format!(
                "it runs {threads} at once, so that each of its threads can have one of {cores} cores"
            ),
        ),
        Ok(gain) if gain.least > 1.0 => (Some(2), format!("two threads on a core gain: {gain}")),
        Ok(gain) if gain.most < 1.0 => (Some(1), format!("two threads on a core lose: {gain}")),
        Ok(gain) => (None, format!("no difference that could be told: {gain}")),
        Err(why) if class == JobClass::Mixed => (
            Some(2),
            format!(
                "pairs of such threads gained in all cases that P4 has measured; not measured here: {why}"
            ),
        ),
        Err(why) => (None, format!("the gain was not measured here: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn evidence(shares: [f64; 3], threads: usize, gain: Option<[f64; 3]>) -> JobEvidence {
        let [stall, compute, unknown] = shares;
        JobEvidence {
            shares: ClassShares { stall, compute, unknown },
            sources: vec![ClassSource::Sampling],
            unknown: Some("no sampling: refused".into()),
            threads,
            cores: 4,
            gain: gain
                .map(|[least, ratio, most]| Gain { least, ratio, most })
                .ok_or_else(|| "no core has siblings".into()),
        }
    }

    #[test]
    fn advice_follows_from_classes_threads_and_the_trial() {
        const STALL: [f64; 3] = [0.9, 0.05, 0.05];
        const COMPUTE: [f64; 3] = [0.1, 0.8, 0.1];
        const MIXED: [f64; 3] = [0.4, 0.5, 0.1];
        const UNKNOWN: [f64; 3] = [0.2, 0.2, 0.6];
        let (gains, loses, either) =
            (Some([1.1, 1.2, 1.3]), Some([0.8, 0.9, 0.99]), Some([0.9, 1.1, 1.2]));
        for (shares, threads, gain, partner, per_core) in [
            (STALL, 8, None, Partner::Compute, None),
            (STALL, 8, gains, Partner::Compute, Some(2)),
            (STALL, 4, gains, Partner::Compute, Some(1)),
            (COMPUTE, 8, None, Partner::Stall, None),
            (COMPUTE, 8, loses, Partner::Stall, Some(1)),
            (COMPUTE, 8, either, Partner::Stall, None),
            (MIXED, 8, None, Partner::None, Some(2)),
            (MIXED, 8, loses, Partner::None, Some(1)),
            (MIXED, 8, either, Partner::None, None),
            (UNKNOWN, 8, None, Partner::Unknown, None),
            (UNKNOWN, 8, gains, Partner::Unknown, Some(2)),
            (UNKNOWN, 2, None, Partner::Unknown, Some(1)),
            ([0.0, 0.0, 1.0], 0, None, Partner::Unknown, None),
            ([0.0; 3], 0, None, Partner::Unknown, None),
        ] {
            let advice = advise(&evidence(shares, threads, gain));
            let told = (advice.partner, advice.threads_per_core);
            assert_eq!(told, (partner, per_core), "{shares:?} {threads} {gain:?}");
        }
    }

    #[test]
    fn missing_evidence_is_told_with_its_reason() {
        let reasons = advise(&evidence([0.0, 0.0, 1.0], 8, None)).reasons.join(". ");
        assert!(reasons.contains("no sampling: refused"), "{reasons}");
        assert!(reasons.contains("not measured here: no core has siblings"), "{reasons}");
        let reasons = advise(&evidence([1.0, 0.0, 0.0], 8, Some([0.9, 1.0, 1.1]))).reasons;
        assert!(reasons[1].contains("no difference that could be told"), "{reasons:?}");
    }

    proptest! {
        #[test]
        fn two_threads_on_a_core_need_evidence_of_a_gain(
            shares in prop::array::uniform3(0.0..1.0_f64), threads in 0..9_usize,
            gain in prop::option::of(prop::array::uniform3(0.5..2.0_f64)),
        ) {
            let sum = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let gain = gain.map(|mut gain| { gain.sort_by(f64::total_cmp); gain });
            let advice = advise(&evidence(shares.map(|share| share / sum), threads, gain));
            let has_gained = gain.is_some_and(|[least, ..]| least > 1.0);
            if advice.threads_per_core == Some(2) {
                prop_assert!(threads > 4);
                prop_assert!(has_gained || gain.is_none() && advice.class == JobClass::Mixed);
            }
        }
    }
}
