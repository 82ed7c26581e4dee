//! The ring as an experiment: which points there are, and one sample of one.

use super::{Cpus, Kind, Layout, Method, Spec, daiko, kernel, order::Order, peers};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Skip, Unit, host,
};

/// Beyond this many kernel threads a machine's limits are the subject, not its
/// waits.
const MOST_KERNEL_THREADS: usize = 10_000;
/// A hop between pollers that share a CPU takes a time slice.
const MOST_POLLERS_WORTH_WAITING: usize = 10;

/// Waits round a ring of threads, by every mechanism (P1, figures 3 to 12).
pub struct Ring {
    methods: Vec<Box<dyn Method>>,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            methods: [kernel::methods(), peers::methods(), daiko::methods()]
                .into_iter()
                .flatten()
                .collect(),
        }
    }
}

impl Experiment for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn about(&self) -> &'static str {
        "one-way wait between threads round a ring, by every mechanism of P1, peers and Daiko"
    }

    fn methods(&self) -> Vec<&'static str> {
        self.methods.iter().map(|method| method.name()).collect()
    }

    fn takes(&self, list: List) -> bool {
        matches!(list, List::Threads | List::Workers)
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let mut plan = Vec::new();
        for method in self.methods.iter().filter(|method| options.wants(method.name())) {
            for threads in threads(method.as_ref(), options) {
                let variants = variants(method.kind(), threads, options);
                plan.extend(variants.iter().map(|variant| variant.planned(method.as_ref())));
            }
        }
        plan
    }

    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let method = self.methods.iter().find(|method| method.name() == case.method);
        let (Some(method), Some(variant)) = (method, Variant::from_params(&case.params)) else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let spec = Spec {
            successor: variant.order.successors(variant.threads),
            laps: effort.rounds,
            limit: effort.limit,
            ..variant.spec()
        };
        let outcome = method.run(&spec)?;
        if outcome.laps == 0 {
            return Err(Failure::Limit(format!("no lap ended within {:?}", effort.limit)));
        }
        let hops = outcome.laps as f64 * variant.threads as f64;
        Ok(Sample {
            rounds: outcome.laps,
            elapsed: outcome.elapsed,
            readings: vec![Reading::new(
                Unit::Nanoseconds,
                outcome.elapsed.as_nanos() as f64 / hops,
            )],
        })
    }
}

/// The numbers of threads at which `method` is measured.
fn threads(method: &dyn Method, options: &Options) -> Vec<usize> {
    if let Some(asked) = &options.threads {
        return asked.clone();
    }
    let cpus = host::cpus();
    let mut list = vec![cpus.max(2), cpus + 1, 10, 100, 1000];
    if options.quick {
        list.retain(|&threads| method.name() != "polling" || threads <= cpus + 1);
    } else {
        list.extend([10_000, 100_000, 1_000_000]);
    }
    list.sort_unstable();
    list.dedup();
    list.retain(|&threads| threads >= 2 && too_many(method, threads).is_none());
    list
}

/// Why so many threads are not even tried.
fn too_many(method: &dyn Method, threads: usize) -> Option<Skip> {
    if method.name() == "polling" && threads > (host::cpus() + 1).max(MOST_POLLERS_WORTH_WAITING) {
        return Some(Skip::new(
            "more pollers than CPUs take a time slice per hop; one more and 10 show it",
        ));
    }
    if method.kind() == Kind::Kernel && threads > MOST_KERNEL_THREADS {
        return Some(Skip::new(format!("kernel threads are measured up to {MOST_KERNEL_THREADS}")));
    }
    None
}

/// The points of a method of `kind` at `threads`. The second order is measured
/// where nothing else varies.
fn variants(kind: Kind, threads: usize, options: &Options) -> Vec<Variant> {
    let plain = Variant {
        kind,
        threads,
        order: Order::Shuffled,
        cpus: Cpus::All,
        workers: 1,
        layout: None,
        sites: 1,
    };
    let mut variants = match kind {
        Kind::Kernel => vec![plain, Variant { cpus: Cpus::One, ..plain }],
        Kind::Library => {
            workers(options).into_iter().map(|workers| Variant { workers, ..plain }).collect()
        }
        Kind::Daiko => workers(options)
            .into_iter()
            .flat_map(|workers| daiko_variants(plain, workers))
            .collect(),
    };
    // Two threads have only one cycle.
    if !options.quick && threads > 2 {
        let first = variants[0];
        variants.insert(1, Variant { order: Order::Sequential, ..first });
    }
    variants
}

fn daiko_variants(plain: Variant, workers: usize) -> Vec<Variant> {
    if workers == 1 {
        return vec![plain, Variant { sites: 16, ..plain }];
    }
    let layouts = [Layout::Half, Layout::Cross, Layout::Free];
    layouts.into_iter().map(|layout| Variant { workers, layout: Some(layout), ..plain }).collect()
}

fn workers(options: &Options) -> Vec<usize> {
    if let Some(asked) = &options.workers {
        return asked.clone();
    }
    let cpus = host::cpus();
    let mut list = vec![1, 2, cpus];
    list.retain(|&workers| workers <= cpus);
    list.dedup();
    list
}

/// What the parameters of a point say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    kind: Kind,
    threads: usize,
    order: Order,
    cpus: Cpus,
    workers: usize,
    layout: Option<Layout>,
    sites: usize,
}

impl Variant {
    fn planned(&self, method: &dyn Method) -> Planned {
        let spec = self.spec();
        let rounds = match too_many(method, self.threads) {
            Some(skip) => Err(skip),
            None => method
                .supports(&spec)
                .map(|()| Rounds::Calibrated { first: method.first_laps(&spec).max(1) }),
        };
        let case =
            Case { experiment: "ring".into(), method: method.name().into(), params: self.params() };
        Planned { case, rounds }
    }

    fn spec(&self) -> Spec {
        Spec {
            threads: self.threads,
            successor: Vec::new(),
            laps: 0,
            cpus: self.cpus,
            workers: self.workers,
            layout: self.layout,
            sites: self.sites,
            limit: std::time::Duration::ZERO,
        }
    }

    fn params(&self) -> Params {
        let mut params = Params::new().with("threads", self.threads);
        if self.kind == Kind::Kernel {
            params = params.with("cpus", self.cpus.name());
        } else {
            params = params.with("workers", self.workers);
        }
        if let Some(layout) = self.layout {
            params = params.with("layout", layout.name());
        }
        if self.kind == Kind::Daiko {
            params = params.with("sites", self.sites);
        }
        params.with("order", self.order.name())
    }

    fn from_params(params: &Params) -> Option<Self> {
        let cpus = params.text("cpus").map(Cpus::from_name);
        let kind = match (cpus, params.get("sites")) {
            (Some(_), _) => Kind::Kernel,
            (None, Some(_)) => Kind::Daiko,
            (None, None) => Kind::Library,
        };
        let number = |key| params.number(key).map(|number| number as usize);
        let layout = match params.text("layout") {
            Some(name) => Some(Layout::from_name(name)?),
            None => None,
        };
        Some(Self {
            kind,
            threads: number("threads")?,
            order: Order::from_name(params.text("order")?)?,
            cpus: cpus.unwrap_or(Some(Cpus::All))?,
            workers: number("workers").unwrap_or(1),
            layout,
            sites: number("sites").unwrap_or(1),
        })
    }
}

impl Cpus {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::One => "one",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::All, Self::One].into_iter().find(|cpus| cpus.name() == name)
    }
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Self::Half => "half",
            Self::Cross => "cross",
            Self::Free => "free",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Half, Self::Cross, Self::Free].into_iter().find(|layout| layout.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_runs_what_the_params_say() {
        let options = Options { workers: Some(vec![1, 2, 3]), ..Options::default() };
        for kind in [Kind::Kernel, Kind::Library, Kind::Daiko] {
            for variant in variants(kind, 10, &options) {
                assert_eq!(Variant::from_params(&variant.params()), Some(variant));
            }
        }
    }

    #[test]
    fn no_two_points_have_the_same_params() {
        let options = Options { workers: Some(vec![1, 2, 3]), ..Options::default() };
        for kind in [Kind::Kernel, Kind::Library, Kind::Daiko] {
            let params: Vec<_> = variants(kind, 10, &options).iter().map(Variant::params).collect();
            for (index, one) in params.iter().enumerate() {
                assert!(!params[index + 1..].contains(one), "{one:?} twice");
            }
        }
    }

    #[test]
    fn layout_is_absent_with_one_worker() {
        let options = Options { workers: Some(vec![1]), ..Options::default() };
        assert!(variants(Kind::Daiko, 10, &options).iter().all(|variant| variant.layout.is_none()));
    }

    #[test]
    fn two_threads_have_one_order() {
        let orders = |threads| {
            let variants = variants(Kind::Library, threads, &Options::default());
            variants.iter().filter(|variant| variant.order == Order::Sequential).count()
        };
        assert_eq!((orders(2), orders(3)), (0, 1));
    }
}
