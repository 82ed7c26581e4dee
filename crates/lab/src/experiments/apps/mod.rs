//! Unmodified applications, natively and by `daiko run`.
//!
//! - `native`: the application as it is.
//! - `daiko-run`: the same command behind `daiko run --workers=N`, with one worker and with as many
//!   as there are CPUs.
//!
//! Applications are those that are installed (`list`); the lab installs nothing. `threads` is the
//! number of connections, or of OpenMP's threads, if the application has a list of them. All of a
//! sample is in a folder of its own, which is made ready by native programs:
//!
//! 1. An application that ends by itself does a fixed amount of work, or works for a fixed time and
//!    counts the work. A server is started and filled; then a load sends a fixed number of requests
//!    or sends for a fixed time, and its throughput counts, as it states that. A quick run has a
//!    quarter of the work or time, and leaves out the largest number of threads.
//! 2. `throughput` is units of work per second. `cpu` is CPU time of the application for each unit,
//!    in user space and in the kernel, without that of its load; of a server it is that between
//!    start and end of the load.
//! 3. The output of ffmpeg is compared with that of a native run. OpenMP, Rust, C++ and Java count
//!    their work, stress-ng verifies it, and loads check replies, or at least their number.
//! 4. At the end of a sample its processes are killed. All lines of a sample together have two
//!    minutes; the failure names the line that hangs, which the runner's limit could not.

mod figures;
mod installed;
mod line;
mod list;
mod run;

use std::time::Duration;

use self::figures::{DAIKO_RUN, NATIVE};
use self::list::{APPS, App, find};
use self::run::AppRun;
use crate::kit::{
    Effort, Experiment, Failure, List, Measure, Options, Params, Plan, Rounds, Sample, distinct,
    dropin, files, host,
};

/// Applications that know nothing of Daiko.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "unmodified applications, natively and by daiko run",
    sizes: &["threads"],
    lists: &[List::Threads, List::Workers, List::Apps],
    methods: || METHODS.into(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

const METHODS: [&str; 2] = [NATIVE, DAIKO_RUN];

/// Time of a sample in all.
const LIMIT: Duration = Duration::from_secs(120);

/// The names of all applications, in the order of tables.
pub fn names() -> Vec<&'static str> {
    APPS.iter().map(|app| app.name).collect()
}

fn cases(plan: &mut Plan<'_>) {
    let options = plan.options;
    let all_cpus = distinct([1, host::cpus()].into_iter());
    let workers = options.workers.as_ref().unwrap_or(&all_cpus);
    let is_wanted = |app: &&App| {
        let beginnings = options.apps.as_ref();
        beginnings.is_none_or(|list| list.iter().any(|name| app.name.starts_with(&**name)))
    };
    for app in APPS.iter().filter(is_wanted) {
        let rounds = Rounds::Within { rounds: app.amount.number(options.quick), limit: LIMIT };
        for threads in threads(app, options) {
            let supports = app.supports().and(files::check_allowed(threads.unwrap_or_default()));
            let params = Params::new().with("app", app.name).with_some("threads", threads);
            plan.add(NATIVE, params.clone(), supports.clone().map(|()| rounds));
            for &workers in workers {
                let supports = supports.clone().and(dropin::command(workers).map(drop));
                let params = params.clone().with("workers", workers);
                plan.add(DAIKO_RUN, params, supports.map(|()| rounds));
            }
        }
    }
}

/// Numbers of threads of an application's cases.
fn threads(app: &App, options: &Options) -> Vec<Option<usize>> {
    let Some(mut own) = app.threads.numbers() else { return vec![None] };
    if options.quick && own.len() > 1 {
        own.pop();
    }
    options.threads.clone().unwrap_or(own).into_iter().map(Some).collect()
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let app = find(params.text("app")?)?;
    let number = |key| match params.get(key) {
        Some(_) => params.size(key).filter(|&number| number > 0).map(Some),
        None => Some(None),
    };
    let (threads, workers) = (number("threads")?, number("workers")?);
    let has_workers = match method {
        NATIVE => false,
        DAIKO_RUN => true,
        _ => return None,
    };
    let has_threads = app.threads.numbers().is_some();
    if [threads.is_some(), workers.is_some()] != [has_threads, has_workers] {
        return None;
    }
    Some(Box::new(move |effort| sample(app, threads, workers, effort)))
}

/// Runs an application, natively without `workers`.
fn sample(
    app: &App,
    threads: Option<usize>,
    workers: Option<usize>,
    effort: Effort,
) -> Result<Sample, Failure> {
    let command = workers.map_or(Ok(String::new()), dropin::command)?;
    let Effort { rounds: amount, limit } = effort;
    AppRun { app, command, threads, amount, limit }.sample()
}

#[cfg(test)]
mod tests;
