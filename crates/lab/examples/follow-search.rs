//! Searches for assumptions under which the simulator gives P3's figures: `follow-search [MODELS
//! [STEPS [SEED]]]`.
//!
//! Models are drawn at random, all with P3's 12 CPUs, 512 flows and use of the CPUs (25.3%). The
//! nearest models are then changed in small steps as long as that helps. The output shows how often
//! each figure appears alone, and the models that are nearest to all figures: with no lag except
//! that of queues, with any lag, and both with P3's rate of migrations as well.

use daiko_lab::experiments::follow_sim::{Model, SimOutcome, Steering, WakePolicy, simulate};

/// P3's figures: unintended migrations as a part of all; wake-ups until settled, mean and maximum;
/// migrations of the new policy relative to those of the old; migrations per second of the old
/// policy.
const PUBLISHED: [f64; 5] = [0.08, 1.21, 9.0, 1142.0 / 2200.0, 2200.0];
/// Weight of a factor between a figure and the published one. The maximum of a sample grows with
/// its length, and no rate of wake-ups is published.
const WEIGHTS: [f64; 5] = [1.0, 8.0, 0.25, 4.0, 0.25];
const NAMES: [&str; 5] =
    ["unintended", "settle-mean", "settle-max", "follow/existing", "migrations/s"];
/// Largest relative deviation with which a figure counts as appearing.
const NEAR: f64 = 0.1;
const USE: f64 = 0.253;
const PACKETS: u64 = 200_000;
const LONG: u64 = 2_000_000;

/// Space of the search: the bounds of the decimal logarithm of each assumption.
const RANGES: [(&str, f64, f64); 8] = [
    ("rate", 0.7, 3.6),
    ("burst", 0.0, 2.0),
    ("gap_ns", 3.0, 6.3),
    ("interrupt_ns", 2.7, 4.0),
    ("load", 0.0, 1.75),
    ("load_ns", 4.0, 7.3),
    ("lag_ns", 3.0, 8.0),
    ("balance_ns", 6.0, 8.0),
];
type Place = [f64; RANGES.len()];

/// Pseudo-random numbers in [0, 1): xorshift (G. Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Figures of a model, in the order of [`PUBLISHED`].
type Figures = [f64; 5];

#[derive(Clone)]
struct Found {
    place: Place,
    model: Model,
    figures: Figures,
    wakes: f64,
}

/// The model of a place, or `None` if it is invalid, or simulates too little at a time.
fn model(place: &Place, has_lag: bool) -> Option<Model> {
    let [rate, burst, gap_ns, interrupt_ns, load, load_ns, lag_ns, balance_ns] =
        place.map(|log| 10f64.powf(log).round() as u64);
    let base = Model::default();
    let packets = f64::from(base.flows) * rate as f64;
    let service_ns = (USE * f64::from(base.cpus) * 1e9 / packets) as u64;
    let model = Model {
        rate,
        burst: burst as u32,
        gap_ns,
        interrupt_ns,
        service_ns: service_ns.checked_sub(interrupt_ns).filter(|service| *service >= 500)?,
        load,
        load_ns,
        balance_ns,
        steering: Steering::Rfs { lag_ns: if has_lag { lag_ns } else { 0 } },
        ..base
    };
    model.check().ok().map(|()| model)
}

fn try_at(place: &Place, has_lag: bool, packets: u64) -> Option<Found> {
    let model = model(place, has_lag)?;
    let run = |policy| simulate(&Model { policy, ..model }, packets).ok();
    let (existing, follow) = (run(WakePolicy::Existing)?, run(WakePolicy::FOLLOW)?);
    let rate = |outcome: &SimOutcome| outcome.tally.migrations() as f64 / outcome.seconds();
    let tally = &existing.tally;
    let figures = [
        tally.unintended(),
        tally.settle_mean().unwrap_or(0.0),
        tally.settle_max() as f64,
        rate(&follow) / rate(&existing),
        rate(&existing),
    ];
    let wakes = tally.wakes as f64 / existing.seconds();
    (existing.dropped == 0).then_some(Found { place: *place, model, figures, wakes })
}

/// A goal of the search.
struct Wanted {
    name: &'static str,
    /// Whether there is lag in addition to that of queues.
    has_lag: bool,
    /// Whether P3's rate of migrations counts as well.
    has_rate: bool,
}

const WANTED: [Wanted; 4] = [
    Wanted { name: "no lag but that of queues", has_lag: false, has_rate: false },
    Wanted { name: "any lag", has_lag: true, has_rate: false },
    Wanted { name: "no lag, P3's rate of migrations", has_lag: false, has_rate: true },
    Wanted { name: "any lag, P3's rate of migrations", has_lag: true, has_rate: true },
];

impl Wanted {
    /// Distance to the published figures.
    fn distance(&self, found: &Found) -> f64 {
        let far = |index: usize| {
            let factor = (found.figures[index] / PUBLISHED[index]).ln().abs().min(3.0);
            WEIGHTS[index] * factor * factor
        };
        (0..if self.has_rate { 5 } else { 4 }).map(far).sum()
    }
}

fn climb(mut best: Found, wanted: &Wanted, steps: usize, random: &mut Random) -> Found {
    for step in 0..steps {
        let reach = 0.3 * (1.0 - step as f64 / steps as f64) + 0.01;
        let mut place = best.place;
        for (log, (_, least, most)) in place.iter_mut().zip(RANGES) {
            *log = (*log + (random.next() * 2.0 - 1.0) * reach).clamp(least, most);
        }
        if let Some(found) = try_at(&place, wanted.has_lag, PACKETS)
            && wanted.distance(&found) < wanted.distance(&best)
        {
            best = found;
        }
    }
    try_at(&best.place, wanted.has_lag, LONG).unwrap_or(best)
}

fn show(found: &Found, wanted: &Wanted) {
    let model = &found.model;
    println!("  distance {:.3}, {:.0} wake-ups/s", wanted.distance(found), found.wakes);
    for (name, (value, published)) in NAMES.iter().zip(found.figures.iter().zip(PUBLISHED)) {
        print!("    {name} {value:.3} ({published:.3})");
    }
    println!("\n    {model:?}");
}

fn search(wanted: &Wanted, models: usize, steps: usize, random: &mut Random) {
    let mut all = Vec::new();
    while all.len() < models {
        let place = RANGES.map(|(_, least, most)| least + (most - least) * random.next());
        all.extend(try_at(&place, wanted.has_lag, PACKETS));
    }
    println!("{}: of {models} models, so many are within {:.0}% of", wanted.name, NEAR * 100.0);
    for (index, name) in NAMES.iter().enumerate() {
        let near = |found: &&Found| (found.figures[index] / PUBLISHED[index] - 1.0).abs() < NEAR;
        println!("  {name} {:.3}: {}", PUBLISHED[index], all.iter().filter(near).count());
    }
    all.sort_by(|one, other| wanted.distance(one).total_cmp(&wanted.distance(other)));
    for found in all.into_iter().take(3) {
        show(&climb(found, wanted, steps, random), wanted);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse().expect("a number"));
    let models = arguments.next().unwrap_or(500) as usize;
    let steps = arguments.next().unwrap_or(150) as usize;
    let mut random = Random(arguments.next().unwrap_or(0x9E37_79B9_7F4A_7C15).max(1));
    WANTED.iter().for_each(|wanted| search(wanted, models, steps, &mut random));
}
