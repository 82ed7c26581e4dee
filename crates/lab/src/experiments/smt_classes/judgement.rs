//! One verdict of the classifier.

use std::thread;
use std::time::Duration;

use daiko_pair::Class;
use daiko_pair::class::{Classification, Evidence, Look, Unavailable, decide};
use daiko_sys::clock::thread_cpu_ns;

use super::figures::CLASSES;
use super::run::Running;
use crate::kit::{Failure, Reading, Sample, Unit, host};

/// The classifier's verdict on a program.
pub(in crate::experiments) struct Judgement {
    pub(in crate::experiments) classification: Classification,
    /// The ratio that decides the label, if it was measured.
    pub(in crate::experiments) ratio: Option<f64>,
    /// CPU time of the look in nanoseconds.
    pub(in crate::experiments) look_ns: u64,
}

/// Takes one look at the thread that works. Returns the CPU time of the look in nanoseconds as
/// well.
pub(in crate::experiments) fn look(running: &Running) -> Result<(Evidence, u64), Failure> {
    let (machine, thread) = (host::topology()?, running.busiest_thread());
    let before = thread_cpu_ns();
    let evidence =
        Look::here(Some(&machine)).at(&[(running.pid(), thread)], &mut thread::sleep).remove(0);
    let look_ns = thread_cpu_ns() - before;
    running.check_running()?;
    Ok((evidence, look_ns))
}

/// Classifies by samples.
///
/// # Errors
/// Fails with the reason if sampling is unavailable.
pub(in crate::experiments) fn by_sampling(evidence: &Evidence) -> Result<Classification, Failure> {
    match &evidence.profile {
        Err(Unavailable(why)) => Err(Failure::Unavailable(why.clone())),
        Ok(_) => Ok(decide(None, evidence)),
    }
}

impl Judgement {
    pub(in crate::experiments) fn sample(&self) -> Result<Sample, Failure> {
        let elapsed = Duration::from_nanos(self.look_ns);
        Ok(Sample { rounds: 1, elapsed, readings: self.readings() })
    }

    fn readings(&self) -> Vec<Reading> {
        let Classification { class, confidence, .. } = self.classification;
        let said = |(known, name): (Class, &str)| {
            let is = f64::from(u8::from(class == known));
            Reading::stat(Unit::Count, &format!("said-{name}"), is)
        };
        let ratio = self.ratio.map(|ratio| Reading::stat(Unit::Ratio, "ratio", ratio));
        let sure = Reading::stat(Unit::Ratio, "sure", confidence);
        let look = Reading::stat(Unit::Nanoseconds, "look", self.look_ns as f64);
        CLASSES.map(said).into_iter().chain(ratio).chain([sure, look]).collect()
    }
}
