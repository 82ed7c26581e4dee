//! The ring: the time that a thread waits for another (P1).
//!
//! `threads` threads form one cycle. Each owns a 64-byte aligned buffer. When its 8-byte datum has
//! arrived, it reads it, checks that it is this lap's value, writes it to its successor's buffer
//! and wakes the successor. Each lap sends a new value. One hop is the time of a lap divided by
//! `threads`.

mod conclusion;
pub mod daiko;
mod figures;
pub mod kernel;
mod method;
pub mod peers;
mod posix;
mod posix_figure;
mod published;

pub use self::method::{
    Cpus, Layout, Method, RingOutcome, RingSpec, Run, Supports, VariedParameters,
};
use crate::kit::{
    Effort, Experiment, Failure, List, Measure, Options, Order, Params, Plan, Reading, Rounds,
    Sample, Skip, ThreadRegister, Unit, host, thread_limits,
};

/// Largest number of pollers that share CPUs: a hop between them takes a time slice.
const MOST_POLLERS_WORTH_WAITING: usize = 10;

/// Least laps of a sample, after those that warm up. In a large ring a single lap fills a sample.
const LEAST_LAPS: u64 = 5;

/// Sizes of stacks, beside the usual one, in KiB.
const STACKS_KIB: [usize; 2] = [16, 64];

/// Least threads for which these are measured: the stacks of fewer lie in the caches.
const LEAST_BY_STACK: usize = 10_000;

/// Waits round a ring of threads, by every mechanism (P1, figures 3 to 12).
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "one-way wait between threads round a ring, by every mechanism of P1, peers and Daiko",
    sizes: &["threads"],
    lists: &[List::Threads, List::Workers],
    methods: || methods().map(|method| method.name).collect(),
    cases,
    measure,
    published: published::points,
    sections: figures::sections,
};

/// The methods, in the order of tables.
fn methods() -> impl Iterator<Item = Method> {
    [kernel::methods(), posix::methods(), peers::methods(), daiko::methods()].into_iter().flatten()
}

fn cases(plan: &mut Plan<'_>) {
    for method in methods().filter(|method| plan.wants(method.name)).collect::<Vec<_>>() {
        for threads in threads(&method, plan.options) {
            for spec in variants(method.kind, threads, plan.options) {
                plan.add(method.name, spec.params(method.kind), rounds(&method, &spec));
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = methods().find(|known| known.name == method)?;
    let spec = RingSpec::from_params(params)?;
    Some(Box::new(move |effort| {
        let Effort { rounds, limit } = effort;
        spec.register.map_or(Ok(()), ThreadRegister::choose)?;
        let RingOutcome { laps, elapsed, cpu } =
            (method.run)(&RingSpec { laps: rounds.max(LEAST_LAPS), limit, ..spec })?;
        match laps {
            0 => Err(Failure::Limit(format!("no lap ended within {limit:?}"))),
            _ => {
                let hops = laps * spec.threads as u64;
                let mut sample = Sample::timed(laps, hops, elapsed);
                let each = cpu.map(|cpu| cpu.as_nanos() as f64 / hops as f64);
                sample.readings.extend(each.map(|ns| Reading::stat(Unit::Nanoseconds, "cpu", ns)));
                Ok(sample)
            }
        }
    }))
}

/// The numbers of threads at which `method` is measured.
fn threads(method: &Method, options: &Options) -> Vec<usize> {
    if let Some(asked) = &options.threads {
        return asked.clone();
    }
    let cpus = host::cpus();
    let mut list = vec![cpus.max(2), cpus + 1, 10, 100, 1000];
    if options.quick {
        list.retain(|&threads| method.name != "polling" || threads <= cpus + 1);
    } else {
        list.extend([10_000, 100_000, 1_000_000]);
    }
    list.sort_unstable();
    list.dedup();
    list.retain(|&threads| threads >= 2 && too_many(method, threads).is_none());
    list
}

/// Reason why this many threads are not tried.
fn too_many(method: &Method, threads: usize) -> Option<Skip> {
    if method.name == "polling" && threads > (host::cpus() + 1).max(MOST_POLLERS_WORTH_WAITING) {
        return Some(Skip::new(
            "more pollers than CPUs take a time slice per hop; one more and 10 show it",
        ));
    }
    if method.kind == VariedParameters::Kernel { thread_limits::check(threads).err() } else { None }
}

/// The points of a method of `kind` at `threads`. The second order is measured only with default
/// parameters.
fn variants(kind: VariedParameters, threads: usize, options: &Options) -> Vec<RingSpec> {
    let plain = RingSpec::of_threads(threads);
    let mut variants: Vec<RingSpec> = match kind {
        VariedParameters::Kernel => vec![plain, RingSpec { cpus: Cpus::One, ..plain }],
        VariedParameters::Library => {
            workers(options).into_iter().map(|workers| RingSpec { workers, ..plain }).collect()
        }
        VariedParameters::Daiko | VariedParameters::DaikoOwn => workers(options)
            .into_iter()
            .flat_map(|workers| daiko_variants(kind, plain, workers))
            .collect(),
    };
    // Two threads have only one cycle.
    if !options.quick && threads > 2 {
        variants.insert(1, RingSpec { order: Order::Sequential, ..variants[0] });
    }
    variants
}

fn daiko_variants(kind: VariedParameters, plain: RingSpec, workers: usize) -> Vec<RingSpec> {
    if workers == 1 {
        let by = |register| RingSpec { register: Some(register), ..plain };
        let mut variants = match kind {
            VariedParameters::DaikoOwn => ThreadRegister::here().map(by).collect(),
            _ => vec![plain],
        };
        variants.push(RingSpec { sites: 16, ..plain });
        if plain.threads >= LEAST_BY_STACK {
            let sized = |kib| RingSpec { stack_kib: Some(kib), ..plain };
            variants.extend(STACKS_KIB.map(sized));
        }
        return variants;
    }
    let layouts = [Layout::Half, Layout::Cross, Layout::Free];
    layouts.into_iter().map(|layout| RingSpec { workers, layout: Some(layout), ..plain }).collect()
}

fn rounds(method: &Method, spec: &RingSpec) -> Result<Rounds, Skip> {
    too_many(method, spec.threads).map_or_else(|| (method.supports)(spec), Err)?;
    Ok(Rounds::Calibrated { first: (method.first_laps)(spec).max(1) })
}

fn workers(options: &Options) -> Vec<usize> {
    options.workers.clone().unwrap_or_else(|| {
        let cpus = host::cpus();
        let mut list = vec![1, 2, cpus];
        list.retain(|&workers| workers <= cpus);
        list.dedup();
        list
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [VariedParameters; 4] = [
        VariedParameters::Kernel,
        VariedParameters::Library,
        VariedParameters::Daiko,
        VariedParameters::DaikoOwn,
    ];

    #[test]
    fn a_sample_runs_the_point_of_its_params() {
        let options = Options { workers: Some(vec![1, 2, 3]), ..Options::default() };
        for kind in KINDS {
            for variant in
                [10, LEAST_BY_STACK].into_iter().flat_map(|n| variants(kind, n, &options))
            {
                assert_eq!(RingSpec::from_params(&variant.params(kind)), Some(variant));
            }
        }
    }

    #[test]
    fn no_two_points_have_the_same_params() {
        let options = Options { workers: Some(vec![1, 2, 3]), ..Options::default() };
        for kind in KINDS {
            let params: Vec<_> = variants(kind, LEAST_BY_STACK, &options)
                .iter()
                .map(|variant| variant.params(kind))
                .collect();
            for (index, one) in params.iter().enumerate() {
                assert!(!params[index + 1..].contains(one), "{one:?} twice");
            }
        }
    }

    #[test]
    fn layout_is_absent_with_one_worker() {
        let options = Options { workers: Some(vec![1]), ..Options::default() };
        assert!(
            variants(VariedParameters::Daiko, 10, &options)
                .iter()
                .all(|variant| variant.layout.is_none())
        );
    }

    #[test]
    fn two_threads_have_one_order() {
        let orders = |threads| {
            let variants = variants(VariedParameters::Library, threads, &Options::default());
            variants.iter().filter(|variant| variant.order == Order::Sequential).count()
        };
        assert_eq!((orders(2), orders(3)), (0, 1));
    }
}
