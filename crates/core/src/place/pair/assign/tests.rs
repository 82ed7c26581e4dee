//! Comparison with all placements, on small machines; properties on large machines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::testing::scaled;

/// The value of a placement, as a user would count it: of tasks that share their core fewer are
/// better, of pairs more, of migrations and crossings fewer.
type Worth = (Reverse<usize>, isize, Reverse<usize>, Reverse<usize>);

fn worth(policy: SiblingUse, sites: &[Site], tasks: &[Task], placed: &[usize]) -> Worth {
    let mut cores: BTreeMap<usize, (usize, Counts)> = BTreeMap::new();
    sites.iter().for_each(|site| cores.entry(site.core).or_default().0 += 1);
    for (task, &at) in tasks.iter().zip(placed) {
        cores.entry(sites[at].core).or_default().1[task.class as usize] += 1;
    }
    let shared = cores.values().filter(|(sites, _)| *sites > 1);
    let pairs: isize = shared.map(|(_, got)| got[COMPUTE].min(got[STALL]) as isize).sum();
    let beside: usize = cores.values().map(|(_, got)| sum(got) * sum(got).saturating_sub(1)).sum();
    let moved = tasks.iter().zip(placed).filter_map(|(task, &to)| {
        let (from, to) = (sites[task.at?], sites[to]);
        (from.core != to.core).then_some(from.node != to.node)
    });
    let moved: Vec<bool> = moved.collect();
    let crossed = moved.iter().filter(|crosses| **crosses).count();
    let pairs = if policy == SiblingUse::Parallel { -pairs } else { pairs };
    (Reverse(beside), pairs, Reverse(moved.len()), Reverse(crossed))
}

/// Returns the fewest and the most tasks that one of `sites` has got.
fn spread(sites: &[usize], placed: &[usize]) -> (usize, usize) {
    let loads = sites.iter().map(|site| placed.iter().filter(|at| *at == site).count());
    loads.fold((usize::MAX, 0), |(least, most), load| (least.min(load), most.max(load)))
}

/// Returns the highest value of an even placement on `open` sites.
fn best_of_all(policy: SiblingUse, sites: &[Site], open: &[usize], tasks: &[Task]) -> Worth {
    let count = open.len().pow(tasks.len() as u32);
    let placements = (0..count).map(|mut number| {
        let digits = tasks.iter().map(|_| {
            let digit = number % open.len();
            number /= open.len();
            open[digit]
        });
        digits.collect::<Vec<_>>()
    });
    let even = placements.filter(|placed| {
        let (least, most) = spread(open, placed);
        most - least <= 1
    });
    even.map(|placed| worth(policy, sites, tasks, &placed)).max().expect("one is even")
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Unknown), Just(Class::Compute), Just(Class::Stall)]
}

/// Generates machines of up to `most_sites` sites, with their cores on up to three nodes, and up to
/// `most_tasks` tasks that are anywhere.
fn settings(most_sites: usize, most_tasks: usize) -> impl Strategy<Value = (Vec<Site>, Vec<Task>)> {
    let cores = prop::collection::vec(
        (prop_oneof![4 => Just(2_usize), 2 => Just(1), 1 => Just(3), 2 => Just(4)], 0_usize..3),
        1..=most_sites,
    );
    let sites = cores.prop_map(move |cores| {
        let sites = cores.iter().enumerate().flat_map(|(core, &(threads, node))| {
            // Numbers as a kernel may have them: not in turn, and with gaps.
            (0..threads).map(move |thread| (thread, Site { core: 7 * (core ^ 1), node: 3 - node }))
        });
        let mut sites: Vec<_> = sites.collect();
        sites.sort_by_key(|(thread, _)| *thread);
        sites.truncate(most_sites);
        sites.into_iter().map(|(_, site)| site).collect::<Vec<_>>()
    });
    sites.prop_flat_map(move |sites| {
        let at = prop::option::weighted(0.9, 0..sites.len());
        let task = (class(), at).prop_map(|(class, at)| Task { class, at });
        (Just(sites), prop::collection::vec(task, 0..=most_tasks))
    })
}

fn is_even(sites: &[Site], tasks: &[Task], placed: &[usize]) -> bool {
    let all: Vec<_> = (0..sites.len()).collect();
    let (least, most) = spread(&all, placed);
    placed.len() == tasks.len() && most <= least + 1
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(400) as u32))]

    #[test]
    fn no_other_placement_is_better_on_small_machines((sites, tasks) in settings(6, 6)) {
        let all: Vec<_> = (0..sites.len()).collect();
        for policy in [SiblingUse::Cross, SiblingUse::Parallel] {
            let placed = assign(policy, &sites, &tasks);
            prop_assert!(is_even(&sites, &tasks, &placed));
            let best = best_of_all(policy, &sites, &all, &tasks);
            prop_assert_eq!(worth(policy, &sites, &tasks, &placed), best, "{:?} {:?}", policy, placed);
            if policy == SiblingUse::Cross && !tasks.is_empty() {
                let machine = PlannedMachine::new(policy, &sites, &tasks);
                let begun = seat::tasks(&machine, &start::plan(&machine), &tasks);
                let (beside, pairs, ..) = worth(policy, &sites, &tasks, &begun);
                prop_assert_eq!((beside, pairs), (best.0, best.1), "the search begins at {:?}", begun);
            }
        }
    }

    #[test]
    fn without_siblings_one_site_of_each_core_is_used_as_well_as_can_be(
        (sites, tasks) in settings(6, 6),
    ) {
        let placed = assign(SiblingUse::NoSmt, &sites, &tasks);
        let mut open = BTreeMap::new();
        sites.iter().enumerate().for_each(|(at, site)| _ = open.insert(site.core, at));
        for &at in &placed {
            open.insert(sites[at].core, at);
        }
        let open: Vec<_> = open.into_values().collect();
        prop_assert!(placed.iter().all(|at| open.contains(at)), "two siblings have got tasks");
        let (least, most) = spread(&open, &placed);
        prop_assert!(most <= least + 1);
        // Only one site of a core has tasks, so that there are no pairs of any class.
        let plain: Vec<_> = tasks.iter().map(|task| Task { class: Class::Unknown, ..*task }).collect();
        let best = best_of_all(SiblingUse::Cross, &sites, &open, &plain);
        prop_assert_eq!(worth(SiblingUse::Cross, &sites, &plain, &placed), best);
    }
}

/// Returns the possible counts of the cores from `at` on, with `left` tasks to place.
fn plans_from(machine: &PlannedMachine, at: usize, left: Counts) -> Vec<Vec<Counts>> {
    let Some(core) = machine.cores.get(at) else {
        return if sum(&left) == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let loads = machine.least(core)..=machine.most(core);
    let gets = (0..=left[0]).flat_map(|a| (0..=left[1]).map(move |b| (a, b)));
    let gets = gets.flat_map(|(a, b)| (0..=left[2]).map(move |c| [a, b, c]));
    let fitting = gets.filter(|got| loads.contains(&sum(got)));
    let plans = fitting.flat_map(|got| {
        let rest = std::array::from_fn(|class| left[class] - got[class]);
        let others = plans_from(machine, at + 1, rest).into_iter();
        others.map(move |others| [vec![got], others].concat())
    });
    plans.collect()
}

/// Returns true if two plans differ by no more than `reach`: in each core, in the cores of a node
/// up to any core, in the nodes up to any node.
fn is_within(machine: &PlannedMachine, reach: usize, one: &[Counts], other: &[Counts]) -> bool {
    let near = |(one, other): (&Counts, &Counts)| {
        one.iter().zip(other).all(|(one, other)| one.abs_diff(*other) <= reach)
    };
    let sums = |plan: &[Counts]| -> Vec<Counts> {
        let add = |sum: &mut Counts, got: &Counts| {
            *sum = plus(*sum, *got);
            Some(*sum)
        };
        let of_node =
            |node: std::ops::Range<usize>| plan[node].iter().scan([0; 3], add).collect::<Vec<_>>();
        let nodes: Vec<Vec<Counts>> = machine.nodes().map(of_node).collect();
        let ends: Vec<Counts> = nodes.iter().filter_map(|sums| sums.last().copied()).collect();
        [nodes.concat(), ends.iter().scan([0; 3], add).collect()].concat()
    };
    one.iter().zip(other).all(near) && sums(one).iter().zip(&sums(other)).all(near)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(200) as u32))]

    #[test]
    fn no_plan_within_reach_is_better_on_small_machines(
        (sites, tasks) in settings(6, 6), reach in 1_usize..4, first: prop::sample::Index,
    ) {
        prop_assume!(!tasks.is_empty());
        for policy in [SiblingUse::Cross, SiblingUse::Parallel] {
            let machine = PlannedMachine::new(policy, &sites, &tasks);
            let all = plans_from(&machine, 0, machine.totals);
            let found = search::best(&machine, first.get(&all).clone(), reach);
            let worth = |plan: &[Counts]| {
                worth(policy, &sites, &tasks, &seat::tasks(&machine, plan, &tasks))
            };
            let near = all.iter().filter(|plan| is_within(&machine, reach, &found, plan));
            let best = near.map(|plan| worth(plan)).max().expect("itself");
            prop_assert_eq!(worth(&found), best, "{:?} {:?}", policy, found);
        }
    }
}

/// Returns plans in which one task of a class moves from one core to another, and perhaps one of
/// another class moves back.
fn changes(machine: &PlannedMachine, plan: &[Counts]) -> impl Iterator<Item = Vec<Counts>> {
    let cores = 0..plan.len();
    let pairs = cores.clone().flat_map(move |one| cores.clone().map(move |other| (one, other)));
    let classes =
        (0..3).flat_map(|there| [None, Some(0), Some(1), Some(2)].map(|back| (there, back)));
    let all = pairs.flat_map(move |cores| classes.clone().map(move |classes| (cores, classes)));
    all.filter_map(|((one, other), (there, back))| {
        let mut plan = plan.to_vec();
        plan[one][there] = plan[one][there].checked_sub(1)?;
        plan[other][there] += 1;
        if let Some(back) = back {
            plan[other][back] = plan[other][back].checked_sub(1)?;
            plan[one][back] += 1;
        }
        let fits = |at: usize| {
            let core = &machine.cores[at];
            (machine.least(core)..=machine.most(core)).contains(&sum(&plan[at]))
        };
        (fits(one) && fits(other)).then_some(plan)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(24) as u32))]

    /// Uses the least reach, on cores of one and of two threads.
    #[test]
    fn no_swap_and_no_move_is_better_on_large_machines(
        threads in prop::collection::vec(1_usize..3, 10..20), nodes in 1_usize..4,
        tasks in prop::collection::vec((class(), any::<prop::sample::Index>()), 20..80),
    ) {
        let cores = threads.len();
        let sites: Vec<_> = (0..2 * cores)
            .map(|cpu| (cpu / cores, cpu % cores))
            .filter(|&(thread, core)| thread < threads[core])
            .map(|(_, core)| Site { core, node: core * nodes / cores })
            .collect();
        let task = |(class, at): &(Class, prop::sample::Index)| {
            Task { class: *class, at: Some(at.index(sites.len())) }
        };
        let tasks: Vec<_> = tasks.iter().map(task).collect();
        for policy in [SiblingUse::Cross, SiblingUse::Parallel] {
            let machine = PlannedMachine::new(policy, &sites, &tasks);
            let found = search::best(&machine, start::plan(&machine), 2);
            let worth = search::value(&machine, &found);
            for plan in changes(&machine, &found) {
                prop_assert!(search::value(&machine, &plan) <= worth, "{:?} {:?} {:?}", policy, found, plan);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(24) as u32))]

    /// Checks that cores are even and pairs the most possible, even if the search does not reach
    /// all plans.
    #[test]
    fn cores_are_even_and_pairs_are_the_most_there_can_be_on_large_machines(
        cores in 20_usize..40, threads in 1_usize..5, nodes in 1_usize..4,
        classes in prop::collection::vec(class(), 0..scaled(200)),
        seed: u64,
    ) {
        let sites: Vec<_> = (0..cores * threads)
            .map(|cpu| Site { core: cpu % cores, node: cpu % cores * nodes / cores })
            .collect();
        let at = |index: usize| (seed >> (index % 50)) as usize % sites.len();
        let tasks: Vec<_> = classes
            .iter()
            .enumerate()
            .map(|(index, &class)| Task { class, at: Some(at(index)) })
            .collect();
        let placed = assign(SiblingUse::Cross, &sites, &tasks);
        prop_assert!(is_even(&sites, &tasks, &placed));
        let (Reverse(beside), pairs, ..) = worth(SiblingUse::Cross, &sites, &tasks, &placed);
        // Of `fuller` cores that have one task more than the rest, each makes a pair more if the
        // rest have an odd number.
        let (level, fuller) = (tasks.len() / cores, tasks.len() % cores);
        let beside_at = |load: usize| load * load.saturating_sub(1);
        let even = fuller * beside_at(level + 1) + (cores - fuller) * beside_at(level);
        prop_assert_eq!(beside, even);
        let of = |class| classes.iter().filter(|one| **one == class).count();
        let few = of(Class::Compute).min(of(Class::Stall));
        let most = if threads == 1 { 0 } else { cores * (level / 2) + level % 2 * fuller };
        prop_assert_eq!(pairs as usize, few.min(most));
    }

    #[test]
    fn good_placements_stay((sites, tasks) in settings(12, 16)) {
        let placed = assign(SiblingUse::Cross, &sites, &tasks);
        let settled: Vec<_> = tasks.iter().zip(&placed).map(|(task, &at)| Task { at: Some(at), ..*task }).collect();
        prop_assert_eq!(assign(SiblingUse::Cross, &sites, &settled), placed);
    }
}

/// Two of a class on a core would both stay, or one of them as half of a pair: a choice of pairs by
/// itself cannot know that.
#[test]
fn a_core_gives_up_a_pair_where_two_of_a_class_may_stay() {
    let sites = [0, 0, 1, 1, 2, 2].map(|core| Site { core, node: 0 });
    let task = |class, at| Task { class, at: Some(at) };
    let (c, s) = (Class::Compute, Class::Stall);
    let tasks = [task(c, 0), task(c, 1), task(c, 2), task(s, 3), task(c, 4), task(c, 5)];
    assert_eq!(assign(SiblingUse::Cross, &sites, &tasks), [0, 1, 2, 3, 4, 5]);
}

/// Two stalling and two computing tasks were once put on two cores of sixteen.
#[test]
fn no_two_tasks_share_a_core_while_a_core_is_idle() {
    for cores in [2, 4, 16] {
        let sites: Vec<_> = (0..2 * cores).map(|cpu| Site { core: cpu / 2, node: 0 }).collect();
        for (of_each, at) in [(1, None), (2, None), (2, Some(0)), (cores / 2, Some(1))] {
            let both = [Class::Compute, Class::Stall];
            let tasks = both.map(|class| vec![Task { class, at }; of_each]).concat();
            for policy in [SiblingUse::Cross, SiblingUse::Parallel, SiblingUse::NoSmt] {
                let placed = assign(policy, &sites, &tasks);
                let used: BTreeSet<_> = placed.iter().map(|&site| sites[site].core).collect();
                assert_eq!(used.len(), cores.min(tasks.len()), "{policy:?} {placed:?}");
            }
        }
    }
}

#[test]
fn without_tasks_no_task_is_placed() {
    assert!(assign(SiblingUse::Cross, &[], &[]).is_empty());
}

/// Counts exceed 16 bits.
#[test]
fn tasks_may_be_as_many_as_threads_of_a_kernel() {
    let sites = [0, 0, 1, 1].map(|core| Site { core, node: core });
    let classes = [Class::Compute, Class::Stall, Class::Compute, Class::Stall];
    let tasks: Vec<_> = (0..4 << 15).map(|task| task / (1 << 15)).collect();
    let tasks: Vec<_> =
        tasks.into_iter().map(|at| Task { class: classes[at], at: Some(at) }).collect();
    let placed = assign(SiblingUse::Cross, &sites, &tasks);
    assert!(tasks.iter().zip(placed).all(|(task, at)| task.at == Some(at)));
}

#[test]
#[should_panic(expected = "there is no site for a task")]
fn a_task_needs_a_site() {
    assign(SiblingUse::Cross, &[], &[Task { class: Class::Compute, at: None }]);
}
