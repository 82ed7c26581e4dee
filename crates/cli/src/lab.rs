//! `daiko lab`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{self, BufReader, Write},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use daiko_inspect::{InspectError, Traced, trace};
use daiko_lab::{
    experiments::{
        self, apps,
        follow_sim::{replay, trace::Reader},
    },
    kit::{
        Case, Experiment, List, Options, Planned, RunStop,
        conditions::MachineWatch,
        host::Host,
        processes,
        results::{Results, distinct, write_whole},
    },
    report::{self, compare, table},
    runner::{
        self, Measured, Observer, Sampler, Schedule, Series,
        child::{self, ChildSampler},
        progress,
    },
};

use crate::{
    args::Request,
    interrupts::{INTERRUPTED, at_interrupt},
    problem::Problem,
};

/// Time limit for programs named by the user, far longer than a benchmark of SPEC CPU.
const MOST_OF_PROGRAMS: Duration = Duration::from_secs(12 * 3600);

/// Least time between two writes of the results while samples are taken.
const KEEP_EVERY: Duration = Duration::from_secs(10);

/// Lists the experiments.
pub(crate) fn list(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    for experiment in experiments::ALL {
        writeln!(out, "{}: {}", experiment.name, experiment.about)?;
        writeln!(out, "    {}", (experiment.methods)().join(", "))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes one sample for a runner.
pub(crate) fn sample(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    child::serve(io::stdin(), out).map_err(|error| {
        Problem::usage(format!("no sample: {error}; `daiko lab run` asks for samples"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Replays a trace of wake-ups.
pub(crate) fn replay(file: &Path, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let name = file.display();
    let open = || match fs::File::open(file) {
        Ok(opened) if opened.metadata().is_ok_and(|data| !data.file_type().is_fifo()) => Ok(opened),
        Ok(_) => Err(Problem::usage(format!("{name} is a pipe; name a file, which is read twice"))),
        Err(error) => {
            Err(Problem::usage(format!("cannot read {name}: {error}; name a recorded trace")))
        }
    };
    let [first, again] = [open()?, open()?].map(|opened| Reader::new(BufReader::new(opened)));
    let replay = first.and_then(|mut first| replay::replay(&mut first, &mut again?));
    let replay =
        replay.map_err(|error| Problem::usage(format!("cannot replay {name}: {error}")))?;
    writeln!(out, "{replay}")?;
    Ok(ExitCode::SUCCESS)
}

/// Shows two runs side by side.
pub(crate) fn compare(files: &[PathBuf; 2], out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let [one, other] = [read(&files[0])?, read(&files[1])?];
    for (file, run) in files.iter().zip([&one, &other]) {
        if run.measured().next().is_none() {
            return Err(Problem::usage(format!(
                "{}: the run ended without a measured point; measure again",
                file.display()
            )));
        }
    }
    let compared = compare::compare(&one, &other);
    if compared.rows.is_empty() {
        return Err(Problem::usage(
            "the two runs have no point in common; measure the same experiments in both",
        ));
    }
    for (name, file, run) in [("A", &files[0], &one), ("B", &files[1], &other)] {
        let line = format!("{name}: {}, {}, {}", file.display(), run.host.date, run.host.cpu);
        writeln!(out, "{}", printable(&line))?;
    }
    write!(out, "{}", printable(&compared.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// The lines of `text` without control characters, which a file of another origin may have.
fn printable(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && letter != '\n', "\u{fffd}")
}

/// Reads a file of results, or that of a folder.
fn read(path: &Path) -> Result<Results, Problem> {
    let file = if path.is_dir() { path.join("results.json") } else { path.into() };
    let text = fs::read(&file).map_err(|error| {
        let file = file.display();
        Problem::usage(format!("cannot read {file}: {error}; name the results.json of a run"))
    })?;
    Results::parse(&text).map_err(|reason| Problem::usage(format!("{}: {reason}", file.display())))
}

/// Runs the requested measurements.
pub(crate) fn run(request: &Request, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let plan = plan(request)?;
    probe(&request.out)?;
    let stop = Arc::new(RunStop::default());
    let requested = Arc::clone(&stop);
    at_interrupt(move || requested.request())?;
    let schedule = if request.quick { Schedule::QUICK } else { Schedule::FULL };
    let mut keeper = Keeper {
        machine: MachineWatch::begin(),
        shown: progress::on_stderr(),
        host: Host::detect(),
        schedule,
        folder: &request.out,
        last: None,
    };
    let mut sampler = sampler(request.cpu_tasks.is_some(), &stop)?;
    let measured = runner::run(plan, schedule, &mut sampler, &mut keeper, &stop);
    let results = keeper.results(&measured);
    let report = save(&results, &request.out)?;
    print(&results, &measured, &report, out)?;
    if request.trace {
        record_traces(&measured, request, &stop, out)?;
    }
    Ok(exit_code(&measured))
}

/// The plan of all requested experiments. Reports all errors before the first run.
fn plan(request: &Request) -> Result<Vec<Planned>, Problem> {
    let experiments: Vec<_> =
        request.experiments.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    check_methods(request, &experiments)?;
    check_lists(request, &experiments)?;
    check_apps(request)?;
    let options = Options {
        threads: request.threads.clone(),
        methods: request.methods.clone(),
        workers: request.workers.clone(),
        cpu_tasks: request.cpu_tasks.clone(),
        pmem: request.pmem.as_deref().map(existing_folder).transpose()?,
        apps: request.apps.clone(),
        quick: request.quick,
    };
    let plan: Vec<Planned> =
        experiments.iter().flat_map(|experiment| experiment.plan(&options)).collect();
    if plan.is_empty() {
        return Err(Problem::usage("nothing to measure: no method is left; see daiko lab list"));
    }
    Ok(plan)
}

/// The absolute path of a folder, which results name.
fn existing_folder(folder: &Path) -> Result<PathBuf, Problem> {
    let found = fs::canonicalize(folder).and_then(|found| match found.is_dir() {
        true => Ok(found),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    found.map_err(|error| {
        let folder = folder.display();
        Problem::usage(format!(
            "--pmem: {folder}: {error}; name a folder of a file system that is mounted with DAX"
        ))
    })
}

fn find(name: &str) -> Result<Experiment, Problem> {
    experiments::find(name).ok_or_else(|| {
        let names: Vec<&str> = experiments::ALL.iter().map(|experiment| experiment.name).collect();
        Problem::usage(format!("no experiment is named '{name}'; there are: {}", names.join(", ")))
    })
}

fn check_methods(request: &Request, experiments: &[Experiment]) -> Result<(), Problem> {
    // Several experiments may have a method of one name.
    let known = distinct(experiments.iter().flat_map(|experiment| (experiment.methods)()));
    for name in request.methods.iter().flatten() {
        if !known.contains(&name.as_str()) {
            let among = request.experiments.join(", ");
            return Err(Problem::usage(format!(
                "no method of {among} is named '{name}'; there are: {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Refuses a list without any effect: a long run would hide the mistake.
fn check_lists(request: &Request, experiments: &[Experiment]) -> Result<(), Problem> {
    let lists = [
        ("--threads", request.threads.is_some(), List::Threads),
        ("--workers", request.workers.is_some(), List::Workers),
        ("--cpu-task", request.cpu_tasks.is_some(), List::CpuTasks),
        ("--pmem", request.pmem.is_some(), List::Pmem),
        ("--apps", request.apps.is_some(), List::Apps),
    ];
    for (option, given, list) in lists {
        if given && !experiments.iter().any(|experiment| experiment.takes(list)) {
            let takers = experiments::ALL.into_iter().filter(|experiment| experiment.takes(list));
            let takers: Vec<&str> = takers.map(|experiment| experiment.name).collect();
            return Err(Problem::usage(format!(
                "{option} changes nothing in {}; it is for {}",
                request.experiments.join(", "),
                takers.join(", ")
            )));
        }
    }
    Ok(())
}

fn check_apps(request: &Request) -> Result<(), Problem> {
    let known = apps::names();
    for beginning in request.apps.iter().flatten() {
        if !known.iter().any(|name| name.starts_with(&**beginning)) {
            return Err(Problem::usage(format!(
                "no application's name begins with '{beginning}'; there are: {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}

/// Checks that the results can be written, before minutes are spent on them.
fn probe(folder: &Path) -> Result<(), Problem> {
    let cannot = |action: &'static str| {
        move |error: io::Error| {
            let folder = folder.display();
            let line = format!("cannot {action} {folder}: {error}; name another folder with --out");
            Problem::usage(line)
        }
    };
    fs::create_dir_all(folder).map_err(cannot("create the folder"))?;
    let probe = folder.join("results.partial");
    fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).map_err(cannot("write to"))
}

/// Takes one more sample of each point, and records the events of its workers in a file of the
/// folder `traces`.
fn record_traces(
    measured: &Measured,
    request: &Request,
    stop: &Arc<RunStop>,
    out: &mut dyn Write,
) -> Result<(), Problem> {
    let folder = request.out.join("traces");
    let unwritable =
        |error| Problem::System(format!("cannot create the folder {}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(unwritable)?;
    let mut recorded = 0;
    for Series { case, effort, .. } in &measured.series {
        let file = folder.join(format!("{case}.pftrace").replace([' ', '/'], "-"));
        let (begin, begun) = mpsc::channel();
        let tracer = {
            let file = file.clone();
            thread::spawn(move || Some(trace_from_start(begun.recv().ok()?, &file)))
        };
        let begin = move |process| begin.send(process).expect("the tracer waits");
        // Dropped with its `begin`, so that a tracer without a process ends.
        let sampler = sampler(request.cpu_tasks.is_some(), stop)?;
        let taken = sampler.with_start(begin).sample(case, *effort);
        if stop.is_requested() {
            break;
        }
        // It ends with the sample's process.
        let traced = tracer.join().expect("a tracer does not panic");
        match (taken, traced) {
            (Err(failure), _) => writeln!(out, "no trace of {case}: {failure}")?,
            (_, Some(Err(error))) => writeln!(out, "no trace of {case}: {error}")?,
            (_, Some(Ok(Traced { events: 1.., .. }))) => recorded += 1,
            (_, Some(Ok(_))) => fs::remove_file(&file)?,
            (_, None) => {}
        }
    }
    let (points, folder) = (measured.series.len(), folder.display());
    writeln!(
        out,
        "{folder}: traces of {recorded} points of {points}, the others had no events of workers; \
         open them at https://ui.perfetto.dev"
    )?;
    Ok(())
}

/// Records the events of a process that has just started, until its end.
fn trace_from_start(process: u32, file: &Path) -> Result<Traced, InspectError> {
    loop {
        match trace(process, Duration::MAX, file, || true) {
            // The dynamic loader has not relocated its table yet.
            Err(InspectError::Table { .. }) => thread::yield_now(),
            traced => return traced,
        }
    }
}

/// Builds the sampler. `own_programs` means programs named by the user, with a long time limit.
fn sampler(own_programs: bool, stop: &Arc<RunStop>) -> Result<ChildSampler, Problem> {
    let own = env::current_exe()
        .map_err(|error| Problem::System(format!("cannot find this program's file: {error}")))?;
    let mut sampler = ChildSampler::new(own, vec!["lab".into(), "sample".into()]);
    if own_programs {
        sampler = sampler.with_set_up(MOST_OF_PROGRAMS);
    }
    // Without this program none of its samples is planned.
    if let Ok(program) = processes::program() {
        sampler = sampler.with_processes(program);
    }
    Ok(sampler.with_stop(Arc::clone(stop)))
}

/// Shows progress, and writes what was measured so far from time to time, so that it outlives a run
/// that is killed.
struct Keeper<'a> {
    machine: MachineWatch,
    shown: Box<dyn Observer>,
    host: Host,
    schedule: Schedule,
    folder: &'a Path,
    /// Time of the last write.
    last: Option<Instant>,
}

impl Keeper<'_> {
    fn results(&self, measured: &Measured) -> Results {
        let host = Host { conditions: Some(self.machine.run()), ..self.host.clone() };
        measured.results(host, self.schedule)
    }
}

impl Observer for Keeper<'_> {
    fn begin(&mut self, samples: usize) {
        self.shown.begin(samples);
    }

    fn sampling(&mut self, case: &Case) {
        self.shown.sampling(case);
    }

    fn advance(&mut self, samples: usize) {
        self.shown.advance(samples);
    }

    fn note(&mut self, line: &str) {
        self.shown.note(line);
    }

    fn end(&mut self) {
        self.shown.end();
    }

    fn kept(&mut self, measured: &Measured) {
        if self.last.is_some_and(|last| last.elapsed() < KEEP_EVERY) {
            return;
        }
        self.last = Some(Instant::now());
        let so_far = Measured { interrupted: true, ..measured.clone() };
        // A failed write is reported at the end of the run.
        let _ = save(&self.results(&so_far), self.folder);
    }
}

/// Writes results, report and curves, and returns the path of the report.
fn save(results: &Results, folder: &Path) -> Result<PathBuf, Problem> {
    let report = folder.join("report.html");
    let mut drawings = report::drawings(results).into_iter();
    results
        .write(&folder.join("results.json"))
        .and_then(|()| write_whole(&report, &report::html(results)))
        .and_then(|()| drawings.try_for_each(|(name, svg)| write_whole(&folder.join(name), &svg)))
        .map_err(|error| {
            Problem::System(format!("cannot write to {}: {error}", folder.display()))
        })?;
    Ok(report)
}

/// Prints the conclusion, then the tables, then missing points.
fn print(
    results: &Results,
    measured: &Measured,
    report: &Path,
    out: &mut dyn Write,
) -> Result<(), Problem> {
    let report = report.display();
    if let Some(line) = report::disturbed_line(results) {
        writeln!(out, "{line}")?;
    }
    match report::conclusion(results) {
        Some(lines) => {
            writeln!(out, "{}", lines.join("\n"))?;
            writeln!(out, "Report, with all figures and tables: {report}\n")?;
        }
        None => writeln!(out, "Report: {report}\n")?,
    }
    for table in table::tables(results) {
        writeln!(out, "{table}")?;
    }
    for note in &results.notes {
        writeln!(out, "note: {note}")?;
    }
    for (kind, missing) in [("skipped", &results.skipped), ("failed", &results.failed)] {
        let groups: BTreeMap<_, _> = report::grouped(missing);
        for ((method, reason), count) in groups {
            let points = if count == 1 { "1 point".into() } else { format!("{count} points") };
            writeln!(out, "{kind}: {method} ({points}): {reason}")?;
        }
    }
    writeln!(out, "{measured}{}", stopped(measured))?;
    if let Some(line) = installation(measured) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The command that installs the missing packages, if skipped points lack any.
fn installation(measured: &Measured) -> Option<String> {
    let packages = measured.skipped.iter().flat_map(|(_, skip)| &skip.packages);
    let packages: BTreeSet<&str> = packages.map(String::as_str).collect();
    let listed = packages.iter().copied().collect::<Vec<_>>().join(" ");
    (!listed.is_empty())
        .then(|| format!("Missing programs of skipped points: apt-get install {listed}"))
}

/// The end of the last line of a run that was stopped early.
fn stopped(measured: &Measured) -> &'static str {
    match (measured.interrupted, measured.series.is_empty()) {
        (false, _) => "",
        (true, false) => "; stopped early, the measurements so far are kept",
        (true, true) => "; stopped before the first sample had ended, give it more time",
    }
}

fn exit_code(measured: &Measured) -> ExitCode {
    if measured.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if measured.failed.is_empty() && !measured.series.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
