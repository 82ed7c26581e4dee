//! `daiko pair --advise`: observes a job, tries it with and without siblings, and advises.
//!
//! Nothing is placed but during the trial. All threads have their previous affinity again before
//! the advice is printed, which is at the end of a command.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use daiko_pair::{
    Class,
    advice::{self, Advice, ClassShares, Gain, JobClass, JobEvidence},
    class::{ClassSource, Classification},
    machine::ThisMachine,
    progress::Progress,
    session::Session,
    thread::{Thread, ThreadId},
};
use serde_json::{Value, json};

use super::{
    LOOK, Subject,
    commands::Commands,
    end,
    line::AdviceRequest,
    no_siblings,
    table::ThreadTable,
    watch::{Watch, found},
};
use crate::problem::Problem;

/// Duration of a slice of the trial.
const SLICE: Duration = Duration::from_millis(200);
/// A thread runs at once with another one if it has had at least one part in this many of its CPU
/// time, or is ready to run.
const PARTS: u64 = 4;

/// Advises about a job. The exit code is that of its first command that failed.
pub(super) fn advise(request: &AdviceRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let Subject { topology, mut commands, roots, progress, session, stop } =
        Subject::prepare(&request.job)?;
    let cores: BTreeSet<usize> = session.sites().sites().iter().map(|site| site.core).collect();
    let siblings = match session.sites().has_siblings() {
        true => Ok(()),
        false => Err(no_siblings(session.sites(), &topology)),
    };
    let watch = Watch::new(&request.job, session, roots.clone(), BTreeMap::new(), &topology);
    commands.release();
    let mut study = Study { watch, roots, stop: &stop, job: Job::default(), cores: cores.len() };
    let measured = study.run(Duration::from_secs(request.seconds), siblings, progress);
    let Study { watch, job, cores, .. } = study;
    let (gain, failed) = match measured {
        Ok(gain) => (gain, None),
        Err(error) => (Err(error.to_string()), Some(error)),
    };
    let put_back = end(watch, failed);
    wait_for(&mut commands, &stop);
    put_back?;
    let evidence = job.evidence(cores, gain);
    let advice = advice::advise(&evidence);
    match request.json {
        true => writeln!(out, "{}", as_json(&evidence, &advice))?,
        false => writeln!(out, "{}", paragraph(&evidence, &advice))?,
    }
    Ok(commands.exit_code())
}

/// Waits until all commands have ended. An interrupt is passed on to them.
fn wait_for(commands: &mut Commands, stop: &AtomicBool) {
    let mut is_told = false;
    loop {
        commands.reap();
        if commands.have_ended() {
            return;
        }
        if stop.load(Relaxed) && !is_told {
            commands.terminate();
            is_told = true;
        }
        thread::sleep(LOOK);
    }
}

/// The study of a job.
struct Study<'a> {
    watch: Watch,
    roots: Vec<ThreadId>,
    stop: &'a AtomicBool,
    job: Job,
    cores: usize,
}

impl Study<'_> {
    /// Observes the job for some time, then tries it if there are siblings. The inner error is the
    /// reason why the gain is not measured.
    fn run(
        &mut self,
        time: Duration,
        siblings: Result<(), String>,
        progress: BTreeMap<u32, Progress>,
    ) -> io::Result<Result<Gain, String>> {
        // No row of the table is shown, only reasons why evidence is missing.
        let mut table = ThreadTable::new(false);
        let until = Instant::now() + time;
        while Instant::now() < until && self.goes_on() {
            if let Some(ran) = self.watch.look(&mut table)? {
                self.job.add(&ran, self.watch.session());
            }
            self.watch.wait(LOOK);
        }
        match self.sources(siblings, progress) {
            Ok(sources) => self.trial(&sources),
            Err(why) => Ok(Err(why)),
        }
    }

    fn goes_on(&self) -> bool {
        !self.watch.have_ended() && !self.stop.load(Relaxed)
    }

    /// The measures of progress for a trial, or the reason against one.
    fn sources(
        &self,
        siblings: Result<(), String>,
        progress: BTreeMap<u32, Progress>,
    ) -> Result<Vec<Progress>, String> {
        siblings?;
        if !self.goes_on() {
            return Err("the job, or the observation, ended before a trial".into());
        }
        if self.job.at_once() <= self.cores {
            return Err("it runs no more threads at once than there are cores".into());
        }
        if !progress.is_empty() {
            return Ok(progress.into_values().collect());
        }
        let threads = found(&self.roots);
        let count = |thread: &Thread| Progress::instructions(thread.id.tid);
        threads.iter().map(count).collect::<Result<_, _>>().map_err(|error| {
            format!("{error}; or declare a count that the job maintains (--progress)")
        })
    }

    fn trial(&mut self, sources: &[Progress]) -> io::Result<Result<Gain, String>> {
        let Self { watch, roots, stop, .. } = self;
        let lives = || roots.iter().any(ThreadId::process_lives);
        let mut slice = |session: &mut Session<ThisMachine>| {
            session.wait(SLICE);
            !stop.load(Relaxed) && lives()
        };
        advice::run(watch.session(), sources, &mut || found(roots), &mut slice)
    }
}

/// The observed threads of a job.
#[derive(Default)]
struct Job {
    threads: BTreeMap<ThreadId, JobThread>,
    /// The number of threads that ran at once, at each look.
    at_once: Vec<usize>,
}

struct JobThread {
    classification: Classification,
    /// CPU time at the last look, in ticks.
    ticks: u64,
    /// CPU time since the first look, in ticks.
    spent: u64,
}

impl Job {
    /// Adds a look at the threads that have run since the last one.
    fn add(&mut self, ran: &[Thread], session: &Session<ThisMachine>) {
        let note = |thread: &Thread| (thread.id, self.note(thread, session));
        let spent: BTreeMap<ThreadId, u64> = ran.iter().map(note).collect();
        let most = spent.values().max().copied().unwrap_or(0);
        let has_part = |id| spent.get(id).is_some_and(|spent| spent * PARTS >= most);
        // On a busy machine threads run in turns though all of them are ready.
        let at_once = self.threads.keys().filter(|id| has_part(id) || id.is_ready());
        self.at_once.push(at_once.count());
    }

    /// Returns the CPU time of a thread since the last look, or since its start.
    fn note(&mut self, thread: &Thread, session: &Session<ThisMachine>) -> u64 {
        let Some(watched) = session.watched(thread.id) else { return 0 };
        let classification = watched.classification().clone();
        let known = self.threads.get(&thread.id).map(|known| (known.ticks, known.spent));
        let since = thread.ticks.saturating_sub(known.map_or(0, |(ticks, _)| ticks));
        let spent = known.map_or(0, |(_, spent)| spent + since);
        let noted = JobThread { classification, ticks: thread.ticks, spent };
        self.threads.insert(thread.id, noted);
        since
    }

    /// The median number of threads that ran at once.
    fn at_once(&self) -> usize {
        let mut looks = self.at_once.clone();
        looks.sort_unstable();
        looks.get(looks.len() / 2).copied().unwrap_or(0)
    }

    fn evidence(&self, cores: usize, gain: Result<Gain, String>) -> JobEvidence {
        let of = |class| {
            let threads = self.threads.values();
            threads.filter(move |thread| thread.classification.class == class)
        };
        // A thread that was seen only once has run as well.
        let weight = |thread: &JobThread| (thread.spent + 1) as f64;
        let total: f64 = self.threads.values().map(weight).sum::<f64>().max(1.0);
        // The sum of no numbers is -0.
        let share = |class| of(class).map(weight).sum::<f64>().abs() / total;
        let mut sources: Vec<ClassSource> = Vec::new();
        for thread in [Class::Stall, Class::Compute].into_iter().flat_map(of) {
            if !sources.contains(&thread.classification.source) {
                sources.push(thread.classification.source);
            }
        }
        let unknown = of(Class::Unknown).max_by_key(|thread| thread.spent);
        JobEvidence {
            shares: ClassShares {
                stall: share(Class::Stall),
                compute: share(Class::Compute),
                unknown: share(Class::Unknown),
            },
            sources,
            unknown: unknown.map(|thread| thread.classification.why.clone()),
            threads: self.at_once(),
            cores,
            gain,
        }
    }
}

fn paragraph(evidence: &JobEvidence, advice: &Advice) -> String {
    let ClassShares { stall, compute, unknown } = evidence.shares;
    let [stall, compute, unknown] = [stall, compute, unknown].map(|share| share * 100.0);
    let sources: Vec<String> = evidence.sources.iter().map(ToString::to_string).collect();
    let by = match sources.is_empty() {
        true => "no source tells a class".into(),
        false => format!("by {}", sources.join(" and ")),
    };
    let untried = match evidence.sources.contains(&ClassSource::Counters) {
        true => ", of which the rules for counters are untried on hardware",
        false => "",
    };
    let [partner, per_core] = [0, 1].map(|at| advice.reasons.get(at).map_or("", String::as_str));
    let follows = match advice.threads_per_core {
        Some(count) => format!("--threads-per-core={count} follows"),
        None => "no --threads-per-core follows".into(),
    };
    format!(
        "Of the job's CPU time, {stall:.0}% is of threads that stall, {compute:.0}% of threads that compute, and {unknown:.0}% of threads \
         without a class ({by}{untried}). Partner: {} ({partner}). For Slurm, {follows}: {per_core}.",
        advice.partner
    )
}

/// Fields may be added; these keep their names and meanings.
fn as_json(evidence: &JobEvidence, advice: &Advice) -> Value {
    let ClassShares { stall, compute, unknown } = evidence.shares;
    let sources: Vec<String> = evidence.sources.iter().map(ToString::to_string).collect();
    let class = match advice.class {
        JobClass::Stall => "stall",
        JobClass::Compute => "compute",
        JobClass::Mixed => "mixed",
        JobClass::Unknown => "unknown",
    };
    let range = |Gain { least, ratio, most }: &Gain| json!({ "least": least, "ratio": ratio, "most": most });
    json!({
        "sources": sources,
        "class": class,
        "shares": { "stall": stall, "compute": compute, "unknown": unknown },
        "threads": evidence.threads,
        "cores": evidence.cores,
        "partner": advice.partner.to_string(),
        "gain": evidence.gain.as_ref().map_or(Value::Null, range),
        "threads_per_core": advice.threads_per_core,
        "reasons": advice.reasons,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(class: Class, source: ClassSource, spent: u64) -> JobThread {
        let why = format!("{class:?} by {source}");
        let classification = Classification { class, source, confidence: 0.9, why };
        JobThread { classification, ticks: spent, spent }
    }

    /// A job with a stalling, a computing and an unknown thread.
    fn job() -> Job {
        let threads = [
            thread(Class::Stall, ClassSource::Counters, 59),
            thread(Class::Compute, ClassSource::Sampling, 29),
            thread(Class::Unknown, ClassSource::Undetermined, 9),
        ];
        let id = |tid| ThreadId { pid: 1, tid, start: 0 };
        Job { threads: (1..).map(id).zip(threads).collect(), at_once: vec![2, 3, 9] }
    }

    #[test]
    fn shares_are_those_of_cpu_time() {
        let evidence = job().evidence(2, Err("no siblings".into()));
        let shares = ClassShares { stall: 0.6, compute: 0.3, unknown: 0.1 };
        assert_eq!((evidence.shares, evidence.threads), (shares, 3));
        assert_eq!(evidence.sources, [ClassSource::Counters, ClassSource::Sampling]);
        assert_eq!(evidence.unknown.as_deref(), Some("Unknown by -"));
    }

    #[test]
    fn a_job_without_threads_has_no_class() {
        let evidence = Job::default().evidence(2, Err("it ended".into()));
        assert_eq!((evidence.shares, evidence.threads), (ClassShares::default(), 0));
        let told = paragraph(&evidence, &advice::advise(&evidence));
        assert!(told.contains("no --threads-per-core follows: it did not run"), "{told}");
    }

    #[test]
    fn a_paragraph_and_its_json_tell_the_same() {
        let gain = Gain { least: 1.25, ratio: 1.5, most: 2.0 };
        let evidence = job().evidence(2, Ok(gain));
        let advice = advice::advise(&evidence);
        let told = paragraph(&evidence, &advice);
        for wanted in [
            "60% is of threads that stall",
            "by counters and sampling",
            "untried on hardware",
            "Partner: none",
            "--threads-per-core=2 follows",
            "1.50 times",
            "1.25 to 2.00",
        ] {
            assert!(told.contains(wanted), "no '{wanted}' in: {told}");
        }
        assert!(!told.contains('\n'), "one paragraph");
        let told = as_json(&evidence, &advice);
        assert_eq!(told["gain"], json!({ "least": 1.25, "ratio": 1.5, "most": 2.0 }));
        assert_eq!((&told["class"], &told["partner"]), (&json!("mixed"), &json!("none")));
        assert_eq!((&told["threads_per_core"], &told["threads"]), (&json!(2), &json!(3)));
        assert_eq!(told["sources"], json!(["counters", "sampling"]));
        let evidence = job().evidence(4, Err("no siblings".into()));
        let told = as_json(&evidence, &advice::advise(&evidence));
        assert_eq!((&told["gain"], &told["threads_per_core"]), (&Value::Null, &json!(1)));
    }
}
