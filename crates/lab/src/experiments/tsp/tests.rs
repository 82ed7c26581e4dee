use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;

use super::cities::Cities;
use super::job::{Counts, SearchResult, Searches, TspJob};
use super::search::{Tour, TourStart, starts};
use super::shared::{Lock, SearchShared};
use super::*;
use crate::kit::{Effort, Failure, Planned, Unit};

const EFFORT: Effort = Effort { rounds: 2, limit: Duration::from_secs(60) };

impl Lock for Mutex<Tour> {
    fn new(best: Tour) -> Self {
        Self::new(best)
    }

    fn with<R>(&self, look: impl FnOnce(&mut Tour) -> R) -> R {
        look(&mut self.lock().unwrap())
    }
}

/// Runs the threads' search on one thread.
fn shared(cities: &Cities, prune: Prune, bound: u32) -> SearchResult {
    let shared = SearchShared::<Mutex<Tour>>::new(cities, prune, bound);
    let mut counts = Counts::default();
    starts(cities.count()).for_each(|start| counts += shared.search(start));
    SearchResult { best: shared.best(), counts }
}

/// Length of the shortest of all tours.
fn brute_force(cities: &Cities) -> u32 {
    fn permute(cities: &Cities, order: &mut [u8], fixed: usize) -> u32 {
        if fixed == order.len() {
            return cities.around(order);
        }
        let tours = (fixed..order.len()).map(|next| {
            order.swap(fixed, next);
            let shortest = permute(cities, order, fixed + 1);
            order.swap(fixed, next);
            shortest
        });
        tours.min().expect("a city")
    }
    permute(cities, &mut (0..cities.count() as u8).collect::<Vec<_>>(), 1)
}

/// A second implementation of the search, by lists, after its documentation.
#[derive(Default)]
struct Plain {
    best: Option<u32>,
    nodes: u64,
    comparisons: u64,
    offers: u64,
}

impl Plain {
    fn of(cities: &Cities) -> Self {
        let mut plain = Self::default();
        let rest = 1..cities.count() as u8;
        for one in rest.clone() {
            for two in rest.clone().filter(|&two| two != one) {
                plain.follow(cities, &[0, one, two]);
            }
        }
        plain
    }

    fn follow(&mut self, cities: &Cities, path: &[u8]) {
        let length = path.windows(2).map(|pair| cities.between(pair[0], pair[1])).sum();
        if !self.is_shorter(length) {
            return;
        }
        self.nodes += 1;
        let left = (0..cities.count() as u8).filter(|city| !path.contains(city));
        left.for_each(|city| self.follow(cities, &[path, &[city]].concat()));
        if path.len() == cities.count() && self.is_shorter(cities.around(path)) {
            self.offers += 1;
            self.best = Some(cities.around(path));
        }
    }

    fn is_shorter(&mut self, length: u32) -> bool {
        self.comparisons += 1;
        self.best.is_none_or(|best| length < best)
    }
}

/// A problem in which all tours have the same length.
fn equal(count: usize) -> Cities {
    Cities::new(count, || 7)
}

proptest! {
    #[test]
    fn the_search_and_its_check_find_the_shortest_tour(count in 3usize..=8, seed: u64) {
        let cities = Cities::drawn(count, seed);
        let shortest = brute_force(&cities);
        prop_assert_eq!(optimum::length(&cities), shortest);
        let found = sequential::solve(&cities, u32::MAX).best;
        prop_assert_eq!(found.length, shortest);
        prop_assert_eq!(cities.around(&found.order[..count]), shortest);
    }

    #[test]
    fn distances_far_apart_have_a_shortest_tour_too(
        count in 3usize..=7,
        distances in proptest::collection::vec(0u32..1000, 21),
    ) {
        let mut distances = distances.into_iter();
        let cities = Cities::new(count, || distances.next().expect("enough for 7 cities"));
        let shortest = brute_force(&cities);
        prop_assert_eq!(optimum::length(&cities), shortest);
        prop_assert_eq!(sequential::solve(&cities, u32::MAX).best.length, shortest);
    }

    #[test]
    fn nodes_and_locks_are_counted_right(count in 3usize..=7, seed: u64) {
        let cities = Cities::drawn(count, seed);
        let Plain { best, nodes, comparisons, offers } = Plain::of(&cities);
        let alone = sequential::solve(&cities, u32::MAX);
        prop_assert_eq!((Some(alone.best.length), alone.counts), (best, Counts { nodes, locks: 0 }));
        for (prune, locks) in [(Prune::Relaxed, offers), (Prune::Locked, comparisons + offers)] {
            let found = shared(&cities, prune, u32::MAX);
            prop_assert_eq!((found.best, found.counts), (alone.best, Counts { nodes, locks }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn posix_threads_find_the_shortest_tour(count in 3usize..=7, seed: u64) {
        let cities = Cities::drawn(count, seed);
        for prune in Prune::all() {
            let found = nptl::solve(&cities, prune, u32::MAX).expect("threads");
            prop_assert_eq!(found.best.length, brute_force(&cities));
            prop_assert_eq!(cities.around(&found.best.order[..count]), found.best.length);
        }
    }
}

/// 6 starts, each with a third city and a way back, of which only the first is offered.
#[test]
fn equal_distances_are_counted_by_hand() {
    let nodes = 6 * 2;
    assert_eq!(sequential::solve(&equal(4), u32::MAX).counts, Counts { nodes, locks: 0 });
    let locks = |prune| shared(&equal(4), prune, u32::MAX).counts;
    assert_eq!(locks(Prune::Relaxed), Counts { nodes, locks: 1 });
    assert_eq!(locks(Prune::Locked), Counts { nodes, locks: 6 * 3 + 1 });
}

/// Equal distances rule no path out, whichever thread is first. A thread offers a tour only if it
/// has not seen one, hence at most once.
#[test]
fn posix_threads_count_the_work_of_all() {
    let (threads, nodes, comparisons) = (20, 1 + 3 + 6 + 6, 1 + 3 + 6 + 6 + 6);
    for (prune, least) in [(Prune::Relaxed, 0), (Prune::Locked, threads * comparisons)] {
        let counts = nptl::solve(&equal(6), prune, u32::MAX).expect("threads").counts;
        assert_eq!(counts.nodes, threads * nodes, "{prune:?}");
        assert!((least + 1..=least + threads).contains(&counts.locks), "{prune:?}: {counts:?}");
    }
}

#[test]
fn a_bound_of_nothing_rules_everything_out() {
    let cities = Cities::fixed(8);
    assert_eq!(sequential::solve(&cities, 0).counts.nodes, 0);
    for prune in Prune::all() {
        assert_eq!(nptl::solve(&cities, prune, 0).expect("threads").counts.nodes, 0);
    }
}

#[test]
fn a_search_that_gives_up_stops_all_searches() {
    for prune in Prune::all() {
        let shared = SearchShared::<Mutex<Tour>>::new(&Cities::fixed(8), prune, u32::MAX);
        let start: TourStart = [1, 2];
        assert!(shared.search(start).nodes > 0);
        shared.give_up();
        assert_eq!(shared.search([2, 1]).nodes, 0, "{prune:?}");
    }
}

/// Figures of different versions and machines are compared, so the problems must be equal.
#[test]
fn the_problems_are_the_same_everywhere() {
    let lengths: Vec<u32> =
        (FEWEST..=MOST).map(|count| optimum::length(&Cities::fixed(count))).collect();
    assert_eq!(lengths, [980, 1054, 1129, 1247, 1431, 1513, 1616, 1671, 1719]);
    let nodes = (FEWEST..10).map(|count| sequential::solve(&Cities::fixed(count), u32::MAX));
    assert_eq!(
        nodes.map(|found| found.counts.nodes).collect::<Vec<_>>(),
        [299, 1409, 8391, 54_251]
    );
}

fn job(effort: Effort) -> TspJob {
    TspJob { cities: Cities::fixed(6), prune: Prune::Relaxed, effort }
}

#[test]
fn the_first_search_is_over_at_once_and_does_not_count() {
    let job = job(EFFORT);
    let mut bounds = Vec::new();
    let timed = job.rounds(|bound| {
        bounds.push(bound);
        Ok(sequential::solve(&job.cities, bound))
    });
    let timed = timed.expect("a sample");
    assert_eq!(bounds, [0, u32::MAX, u32::MAX]);
    assert_eq!(timed.rounds, 2);
    assert_eq!(timed.counts.nodes, 2 * sequential::solve(&job.cities, u32::MAX).counts.nodes);
}

#[test]
fn a_sample_ends_at_its_limit_after_one_search_at_least() {
    let job = job(Effort { rounds: u64::MAX, limit: Duration::ZERO });
    let timed = job.rounds(|bound| Ok(sequential::solve(&job.cities, bound)));
    assert_eq!(timed.expect("a sample").rounds, 1);
}

#[test]
fn a_tour_that_is_not_the_shortest_is_broken() {
    let job = job(EFFORT);
    let right = sequential::solve(&job.cities, u32::MAX).best;
    let find = |best: Tour| job.rounds(|_| Ok(SearchResult { best, counts: Counts::default() }));
    assert!(find(right).is_ok());

    let mut longer = right;
    while job.cities.around(&longer.order[..6]) == right.length {
        longer.order[1..6].rotate_left(1);
        longer.order.swap(1, 2);
    }
    let liar = longer;
    longer.length = job.cities.around(&longer.order[..6]);
    let unvisited = Tour { order: [0; MOST], ..right };
    let unbeaten = Tour::below(u32::MAX);
    for wrong in [longer, liar, unvisited, unbeaten, Tour { length: right.length - 1, ..right }] {
        let failure = find(wrong).expect_err("a wrong tour");
        assert!(matches!(failure, Failure::Broken(_)), "{failure:?}");
        let line = failure.to_string();
        assert!(line.contains(&format!("the shortest has {}", right.length)), "{line}");
    }
}

/// All paths of six steps are as long as a tour.
#[test]
fn a_tour_that_misses_a_city_is_broken() {
    let job = TspJob { cities: equal(6), ..job(EFFORT) };
    let mut tour = sequential::solve(&job.cities, u32::MAX).best;
    tour.order[..6].copy_from_slice(&[0, 1, 2, 3, 1, 2]);
    assert_eq!(job.cities.around(&tour.order[..6]), tour.length);
    let failure = job.rounds(|_| Ok(SearchResult { best: tour, counts: Counts::default() }));
    assert!(matches!(failure, Err(Failure::Broken(_))), "{failure:?}");
}

#[test]
fn every_method_takes_time_and_counts() {
    let plan = EXPERIMENT.plan(&Options::default());
    // Worker processes need a program of their own.
    let small = |planned: &&Planned| {
        planned.case.params.number("cities") <= Some(8) && planned.case.method != processes::METHOD
    };
    for planned in plan.iter().filter(small) {
        let sample = EXPERIMENT.sample(&planned.case, EFFORT).expect("a sample");
        assert_eq!(sample.rounds, 2, "{}", planned.case);
        let kinds: Vec<_> =
            sample.readings.iter().map(|reading| (reading.unit, reading.stat.as_deref())).collect();
        let all =
            [(Unit::Nanoseconds, None), (Unit::Count, Some("nodes")), (Unit::Count, Some("locks"))];
        let locks = planned.case.params.get("prune").is_some();
        assert_eq!(kinds, all[..2 + usize::from(locks)], "{}", planned.case);
        assert!(sample.readings.iter().all(|reading| reading.value > 0.0), "{}", planned.case);
    }
}

#[test]
fn counts_are_per_search() {
    let searches = |_: &TspJob, _| {
        let counts = Counts { nodes: 30, locks: 12 };
        Ok(Searches { rounds: 4, elapsed: Duration::from_nanos(200), counts })
    };
    let method = Searcher { name: "counted", shares: true, workers: false, run: searches };
    let sample = method.sample(FEWEST, Prune::Relaxed, 1, EFFORT).expect("a sample");
    let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
    assert_eq!(values, [50.0, 7.5, 3.0]);
}

fn cases(options: &Options) -> Vec<String> {
    EXPERIMENT.plan(options).iter().map(|planned| planned.case.to_string()).collect()
}

#[test]
fn a_plan_goes_from_few_cities_to_many_and_locks_where_it_can() {
    let methods = Some(vec!["sequential".into(), "nptl".into()]);
    let options = Options { methods, ..Options::default() };
    let plan = cases(&options);
    assert_eq!(
        plan[..4],
        [
            "tsp sequential cities=6",
            "tsp nptl cities=6 prune=relaxed",
            "tsp nptl cities=6 prune=locked",
            "tsp sequential cities=7",
        ]
    );
    assert_eq!(plan.last().expect("a plan"), "tsp nptl cities=14 prune=relaxed");
    let quick = cases(&Options { quick: true, ..options });
    assert_eq!(quick.last().expect("a plan"), "tsp nptl cities=12 prune=relaxed");
    assert!(quick.len() < plan.len());
}

#[test]
fn only_the_methods_asked_for_are_planned() {
    let methods = Some(vec!["nptl".into()]);
    let plan = cases(&Options { methods, ..Options::default() });
    assert!(!plan.is_empty() && plan.iter().all(|case| case.starts_with("tsp nptl ")), "{plan:?}");
}

#[test]
fn a_method_with_workers_has_a_point_for_each_number_asked_for() {
    let methods = Some(vec!["daiko".into()]);
    let options = Options { workers: Some(vec![1, 3]), methods, ..Options::default() };
    let cases = cases(&options);
    assert_eq!(cases[0], "tsp daiko cities=6 workers=1 prune=relaxed");
    assert!(cases.contains(&"tsp daiko cities=6 workers=3 prune=locked".to_owned()));
    assert!(EXPERIMENT.takes(List::Workers) && !EXPERIMENT.takes(List::Threads));
}

#[test]
fn fibers_of_processes_and_those_that_borrow_have_the_same_points() {
    let of = |method: &str| {
        let options = Options { methods: Some(vec![method.into()]), ..Options::default() };
        let plan = EXPERIMENT.plan(&options).into_iter();
        plan.map(|planned| planned.case.params).collect::<Vec<_>>()
    };
    assert!(!of("daiko").is_empty());
    assert_eq!(of("daiko-borrowed"), of("daiko"));
    assert_eq!(of(processes::METHOD), of("daiko"));
}

#[test]
fn an_invalid_point_is_not_measured() {
    let params = |cities| Params::new().with("cities", cities);
    let relaxed = |cities| params(cities).with("prune", "relaxed");
    assert!(measure("sequential", &params(FEWEST)).is_some());
    assert!(measure("nptl", &relaxed(FEWEST)).is_some());
    for (method, params) in [
        ("sequential", Params::new()),
        ("sequential", Params::new().with("cities", "six")),
        ("sequential", params(FEWEST - 1)),
        ("sequential", params(MOST + 1)),
        ("nptl", params(6)),
        ("nptl", params(6).with("prune", "never")),
        ("salesman", relaxed(6)),
        ("daiko", relaxed(6)),
        ("daiko", relaxed(6).with("workers", 0usize)),
    ] {
        assert!(measure(method, &params).is_none(), "{method} {params:?}");
    }
}
