use super::*;
use crate::class::ClassSource;
use crate::machine::testing::{Described, thread};
use Class::{Compute, Stall, Unknown};
use daiko_sys::topology::described::Described as Shape;
use std::fs;
use std::os::unix::fs::PermissionsExt;

struct Ground {
    folder: tempfile::TempDir,
    machine: Described,
    session: Session<Described>,
    found: Vec<Thread>,
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn seen(class: Class) -> Classification {
    Classification { class, source: ClassSource::Sampling, confidence: 0.9, why: String::new() }
}

fn named(id: ThreadId) -> Thread {
    Thread { id, name: format!("t{}", id.tid), ticks: 0 }
}

/// Threads 1, 2, .. of process 7, which may run on all CPUs of four cores with two siblings each.
fn ground(classes: &[Class]) -> Ground {
    let sites = Sites::of(&Shape::parse("1x4x2").unwrap().topology().unwrap(), None);
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let ids: Vec<ThreadId> = (1..=classes.len() as u32).map(|tid| thread(7, tid)).collect();
    let machine = Described::with(&ids, &set("0-7"));
    let journal = Journal::create(folder.path()).unwrap();
    let mut session = Session::new(machine.clone(), sites, journal);
    let found: Vec<Thread> = ids.iter().map(|id| named(*id)).collect();
    session.watch(&found).unwrap();
    ids.iter().zip(classes).for_each(|(id, class)| {
        session.look(*id, seen(*class));
    });
    Ground { folder, machine, session, found }
}

impl Ground {
    fn masks(&self) -> Vec<String> {
        self.machine.masks.borrow().values().map(CpuSet::to_string).collect()
    }
}

fn journals(folder: &tempfile::TempDir) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// Siblings are n and n + 4.
fn core(mask: &str) -> usize {
    mask.parse::<usize>().unwrap() % 4
}

#[test]
fn complements_share_a_core_and_all_is_put_back() {
    let mut ground = ground(&[Compute, Compute, Stall, Stall, Unknown]);
    assert!(ground.session.place(Some(SiblingUse::Cross)).unwrap());
    let masks = ground.masks();
    let cores: Vec<usize> = masks[..4].iter().map(|mask| core(mask)).collect();
    assert!(
        (cores[0] == cores[2] && cores[1] == cores[3])
            || (cores[0] == cores[3] && cores[1] == cores[2])
    );
    assert_eq!(masks[4], "0-7", "nothing is known of it");
    assert!(!ground.session.place(Some(SiblingUse::Cross)).unwrap(), "nothing is new");
    assert_eq!(ground.session.end().unwrap().refused, 0);
    assert_eq!(ground.machine.masks.borrow().values().filter(|m| **m == set("0-7")).count(), 5);
    assert_eq!(journals(&ground.folder), 0);
}

#[test]
fn without_a_policy_threads_run_as_before() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Parallel)).unwrap();
    assert!(ground.masks().iter().all(|mask| mask.len() == 1));
    assert!(ground.session.place(None).unwrap());
    assert_eq!(ground.masks(), ["0-7", "0-7"]);
    assert!(!ground.session.place(None).unwrap());
}

#[test]
fn without_smt_all_threads_leave_the_siblings_idle() {
    let mut ground = ground(&[Compute, Stall, Unknown]);
    assert!(ground.session.place(Some(SiblingUse::NoSmt)).unwrap());
    assert_eq!(ground.masks(), ["0-3", "0-3", "0-3"]);
    assert!(ground.session.place(Some(SiblingUse::Cross)).unwrap());
    assert_eq!(ground.masks()[2], "0-7", "nothing is known of it");
    assert_eq!(core(&ground.masks()[0]), core(&ground.masks()[1]));
}

#[test]
fn a_change_of_behaviour_pairs_anew() {
    let mut ground = ground(&[Compute, Stall, Compute, Compute]);
    let beside = |ground: &Ground, thread: usize| {
        let masks = ground.masks();
        (0..4).find(|other| *other != thread && core(&masks[*other]) == core(&masks[thread]))
    };
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let partner = beside(&ground, 1).expect("the one that stalls has a partner");
    let ids: Vec<ThreadId> = ground.found.iter().map(|thread| thread.id).collect();
    // Two observations are not enough.
    let changes: Vec<bool> =
        (0..3).map(|_| ground.session.look(ids[partner], seen(Stall))).collect();
    assert_eq!(changes, [false, false, true]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let partners = [beside(&ground, 1), beside(&ground, partner)];
    assert!(
        partners.iter().all(|found| found.is_some_and(|at| at != 1 && at != partner)),
        "{partners:?}"
    );
}

#[test]
fn a_thread_that_another_process_binds_is_left_alone() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let other = ground.found[0].id;
    ground.machine.set(other, &set("2-3"));
    ground.session.look(ground.found[1].id, seen(Stall));
    ground.session.place(Some(SiblingUse::Parallel)).unwrap();
    assert!(matches!(ground.session.threads[&other].standing(), Standing::Left(_)));
    ground.session.end().unwrap();
    assert_eq!(ground.machine.mask(other), "2-3");
    assert_eq!(ground.machine.mask(ground.found[1].id), "0-7");
}

#[test]
fn a_cpu_that_goes_offline_is_used_no_more_until_it_is_back() {
    let mut ground = ground(&[Compute, Stall, Compute, Stall]);
    let look = |ground: &mut Ground| {
        ground.session.watch(&ground.found.clone()).unwrap();
        ground.session.place(Some(SiblingUse::Cross)).unwrap();
        let mut cores = ground.masks().iter().map(|mask| core(mask)).collect::<Vec<_>>();
        cores.sort_unstable();
        cores
    };
    look(&mut ground);
    let lost: usize = ground.masks()[0].parse().unwrap();
    ground.machine.unplug(lost);
    assert_eq!(ground.masks()[0].parse::<CpuSet>().unwrap().len(), 7);
    let cores = look(&mut ground);
    assert!(!ground.masks().contains(&lost.to_string()), "{:?}", ground.masks());
    assert_eq!((cores[0], cores[2]), (cores[1], cores[3]), "{cores:?}");
    ground.machine.offline.take();
    look(&mut ground);
    let is_placed =
        |(_, watched): (_, &WatchedThread)| matches!(watched.standing(), Standing::Placed(_));
    assert_eq!(ground.session.threads().filter(|thread| is_placed(*thread)).count(), 4);
    assert_eq!(ground.session.sites().set().len(), 8);
    assert_eq!(ground.session.end().unwrap().refused, 0);
    assert!(ground.machine.masks.borrow().values().all(|mask| mask.len() == 8));
}

#[test]
fn without_any_cpu_that_is_online_nothing_is_placed() {
    let mut ground = ground(&[Compute, Stall]);
    *ground.machine.offline.borrow_mut() = set("0-7");
    ground.session.watch(&ground.found.clone()).unwrap();
    assert!(!ground.session.place(Some(SiblingUse::Cross)).unwrap());
    assert_eq!(ground.masks(), ["0-7", "0-7"]);
}

#[test]
fn refused_and_ended_threads_do_not_stop_the_rest() {
    let mut ground = ground(&[Compute, Stall, Compute, Stall]);
    let [gone, refused] = [ground.found[0].id, ground.found[1].id];
    ground.machine.end(gone);
    ground.machine.refused.borrow_mut().push(refused);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert!(matches!(ground.session.threads[&refused].standing(), Standing::Left(_)));
    assert_eq!(ground.machine.mask(refused), "0-7");
    let rest = [2, 3].map(|at| core(&ground.machine.mask(ground.found[at].id)));
    ground.session.watch(&ground.found[1..]).unwrap();
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let again = [2, 3].map(|at| core(&ground.machine.mask(ground.found[at].id)));
    assert_eq!(again[0], again[1], "from {rest:?}");
    assert_eq!(ground.session.end().unwrap().refused, 0);
}

#[test]
fn a_thread_bound_before_the_session_is_left_alone() {
    let mut ground = ground(&[Compute]);
    let narrow = thread(8, 80);
    ground.machine.set(narrow, &set("3"));
    ground.found.push(named(narrow));
    ground.session.watch(&ground.found.clone()).unwrap();
    ground.session.look(narrow, seen(Stall));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert_eq!(ground.machine.mask(narrow), "3");
    assert!(matches!(ground.session.threads[&narrow].standing(), Standing::Left(_)));
}

#[test]
fn a_child_of_a_placed_thread_is_restored_to_the_mask_of_its_parent() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let child = ThreadId { start: u64::MAX, ..thread(9, 90) };
    ground.machine.set(child, &set(&ground.masks()[0]));
    ground.found.push(named(child));
    ground.session.watch(&ground.found.clone()).unwrap();
    ground.session.end().unwrap();
    assert_eq!(ground.machine.mask(child), "0-7");
}

/// The parent has been moved since, or has ended.
#[test]
fn a_child_of_a_placed_thread_is_known_after_a_move_of_its_parent() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let child = ThreadId { start: u64::MAX, ..thread(7, 90) };
    ground.machine.set(child, &set(&ground.masks()[0]));
    ground.session.place(None).unwrap();
    ground.found.push(named(child));
    ground.session.watch(&ground.found.clone()).unwrap();
    ground.session.look(child, seen(Stall));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert!(matches!(ground.session.watched(child).unwrap().standing(), Standing::Placed(_)));
    ground.session.end().unwrap();
    assert_eq!(ground.machine.mask(child), "0-7");
}

#[test]
fn a_thread_that_bound_itself_before_the_session_is_no_child() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let own = thread(7, 90);
    ground.machine.set(own, &set(&ground.masks()[0]));
    ground.found.push(named(own));
    ground.session.watch(&ground.found.clone()).unwrap();
    let mask = ground.machine.mask(own);
    ground.session.end().unwrap();
    assert_eq!(ground.machine.mask(own), mask);
}

#[test]
fn a_thread_no_longer_watched_is_restored() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    ground.session.watch(&ground.found[1..]).unwrap();
    assert_eq!(ground.masks()[0], "0-7");
    assert_eq!(ground.masks()[1].len(), 1);
}

#[test]
fn a_thread_that_cannot_be_moved_is_restored_or_stays_noted() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let stuck = ground.found[0].id;
    ground.machine.refused.borrow_mut().push(stuck);
    ground.session.place(Some(SiblingUse::NoSmt)).unwrap();
    assert!(matches!(ground.session.watched(stuck).unwrap().standing(), Standing::Left(_)));
    assert_eq!(ground.session.end().unwrap().refused, 1);
    assert_eq!(journals(&ground.folder), 1);
}

#[test]
fn a_session_that_is_dropped_puts_all_back() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let Ground { folder, machine, session, .. } = ground;
    drop(session);
    assert!(machine.masks.borrow().values().all(|mask| mask.len() == 8));
    assert_eq!(journals(&folder), 0);
}

#[test]
fn threads_that_cannot_be_put_back_keep_their_journal() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    ground.machine.refused.borrow_mut().push(ground.found[0].id);
    assert_eq!(journals(&ground.folder), 1);
    assert_eq!(ground.session.end().unwrap().refused, 1);
    assert_eq!(journals(&ground.folder), 1);
}

#[test]
fn sites_are_the_allowed_cpus_that_are_asked_for() {
    let machine = Shape::parse("1x2x2 allowed=0-2").unwrap().topology().unwrap();
    let sites = |only: Option<&str>| Sites::of(&machine, only.map(set).as_ref());
    assert_eq!(sites(None).set().to_string(), "0-2");
    assert!(sites(None).has_siblings() && !sites(Some("0-1")).has_siblings());
    assert!(sites(Some("3")).is_empty());
}
