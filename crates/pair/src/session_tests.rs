use super::*;
use crate::class::ClassSource;
use crate::machine::ThisMachine;
use crate::machine::testing::{Described, Pipe, thread};
use Class::{Compute, Stall, Unknown};
use daiko_sys::cpu;
use daiko_sys::topology::described::Described as Shape;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

struct Ground {
    folder: TempDir,
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

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// Threads 1, 2, .. of process 7, which may run on all CPUs of four cores with two siblings each.
fn ground(classes: &[Class]) -> Ground {
    on("1x4x2", classes)
}

/// The threads on two cores.
fn narrow_ground(classes: &[Class]) -> Ground {
    on("1x2x2", classes)
}

fn on(shape: &str, classes: &[Class]) -> Ground {
    let sites = Sites::of(&Shape::parse(shape).unwrap().topology().unwrap(), None);
    let folder = folder();
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

fn journals(folder: &TempDir) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// The core that has all these CPUs, by its first one: siblings are n and n + 4, or n + 2.
fn core(mask: &str) -> usize {
    let cpus: Vec<usize> = set(mask).iter().collect();
    assert!(cpus.len() == 2 && cpus[1] - cpus[0] >= 2, "{mask}");
    cpus[0]
}

#[test]
fn complements_share_a_core_and_all_is_put_back() {
    let mut ground = narrow_ground(&[Compute, Compute, Stall, Stall, Unknown]);
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
fn threads_have_a_core_each_if_there_are_as_many() {
    let mut ground = ground(&[Compute, Compute, Stall, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let mut cores: Vec<usize> = ground.masks().iter().map(|mask| core(mask)).collect();
    cores.sort_unstable();
    assert_eq!(cores, [0, 1, 2, 3]);
}

#[test]
fn without_a_policy_threads_run_as_before() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Parallel)).unwrap();
    assert_ne!(core(&ground.masks()[0]), core(&ground.masks()[1]));
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
    assert_ne!(core(&ground.masks()[0]), core(&ground.masks()[1]));
}

#[test]
fn a_change_of_behaviour_pairs_anew() {
    let mut ground = narrow_ground(&[Compute, Stall, Compute, Compute]);
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
        ground.masks()
    };
    let before = look(&mut ground);
    let own = core(&before[0]);
    ground.machine.unplug(own);
    let after = look(&mut ground);
    assert_eq!(after[0], (own + 4).to_string(), "it stays on its core");
    assert_eq!(after[1..], before[1..]);
    ground.machine.unplug(own + 4);
    assert_eq!(set(&ground.masks()[0]).len(), 6);
    let last = look(&mut ground);
    assert_eq!(last[1..], before[1..]);
    assert!(last[1..].contains(&last[0]), "{last:?}");
    ground.machine.offline.take();
    assert_eq!(look(&mut ground).iter().map(|mask| core(mask)).collect::<BTreeSet<_>>().len(), 4);
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
    let mut ground = narrow_ground(&[Compute, Stall, Compute, Stall]);
    let [gone, refused] = [ground.found[0].id, ground.found[1].id];
    ground.machine.end(gone);
    ground.machine.refused.borrow_mut().push(refused);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert!(matches!(ground.session.threads[&refused].standing(), Standing::Left(_)));
    assert_eq!(ground.machine.mask(refused), "0-7");
    ground.session.watch(&ground.found[1..]).unwrap();
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let rest = [2, 3].map(|at| core(&ground.machine.mask(ground.found[at].id)));
    assert_ne!(rest[0], rest[1]);
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
    core(&ground.masks()[1]);
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

#[test]
fn without_watches_threads_are_bound_and_the_session_says_so() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    ground.masks().iter().for_each(|mask| _ = core(mask));
    let why = ground.session.unwatched().expect("it says so");
    assert!(why.contains("not allowed"), "{why}");
}

/// A ground with two threads on a core each; their starts are watched.
fn watched_ground() -> Ground {
    let mut ground = ground(&[Compute, Stall]);
    *ground.machine.starts.borrow_mut() = Some(BTreeMap::new());
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert_eq!(ground.masks(), ["0-7", "0-7"], "they may be starting threads");
    assert_eq!(ground.session.unwatched(), None);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    ground.masks().iter().for_each(|mask| _ = core(mask));
    ground
}

#[test]
fn a_thread_that_starts_others_is_put_back_with_them_until_it_starts_none() {
    let mut ground = watched_ground();
    let [parent, other] = [0, 1].map(|at| ground.found[at].id);
    let child = |tid| ThreadId { start: u64::MAX, ..thread(7, tid) };
    assert!(ground.session.wait(Duration::ZERO), "nothing was started");
    ground.machine.start(parent, child(90));
    ground.machine.start(child(90), child(91));
    assert!(!ground.session.wait(Duration::ZERO));
    for thread in [parent, child(90), child(91)] {
        assert_eq!(ground.machine.mask(thread), "0-7");
    }
    for tid in 92..95 {
        ground.session.place(Some(SiblingUse::Cross)).unwrap();
        assert_eq!(ground.machine.mask(parent), "0-7");
        ground.machine.start(parent, child(tid));
    }
    core(&ground.machine.mask(other));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    core(&ground.machine.mask(parent));
    // Nothing waits before the next round.
    ground.machine.start(parent, child(95));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert_eq!([parent, child(95)].map(|thread| ground.machine.mask(thread)), ["0-7", "0-7"]);
    ground.session.end().unwrap();
    assert!(ground.machine.masks.borrow().values().all(|mask| *mask == set("0-7")));
}

#[test]
fn a_child_of_a_thread_that_cannot_be_watched_is_put_back_when_it_is_found() {
    let mut ground = ground(&[Compute, Stall]);
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    let child = ThreadId { start: u64::MAX, ..thread(7, 90) };
    ground.machine.start(ground.found[0].id, child);
    assert!(ground.session.wait(Duration::ZERO));
    ground.found.push(named(child));
    ground.session.watch(&ground.found.clone()).unwrap();
    assert_eq!(ground.machine.mask(child), "0-7");
}

#[test]
fn without_smt_a_child_leaves_the_siblings_idle_too() {
    let mut ground = ground(&[Compute]);
    *ground.machine.starts.borrow_mut() = Some(BTreeMap::new());
    ground.session.place(Some(SiblingUse::NoSmt)).unwrap();
    let child = ThreadId { start: u64::MAX, ..thread(7, 90) };
    ground.machine.start(ground.found[0].id, child);
    assert!(ground.session.wait(Duration::ZERO));
    ground.found.push(named(child));
    ground.session.watch(&ground.found.clone()).unwrap();
    ground.session.place(Some(SiblingUse::NoSmt)).unwrap();
    assert_eq!(ground.masks(), ["0-3", "0-3"]);
}

/// A forked process that starts four threads at each request. Each thread reports whether it may
/// run on fewer CPUs than its process at first.
struct ForkJoin {
    pid: libc::pid_t,
    requests: io::PipeWriter,
    reports: io::PipeReader,
}

impl ForkJoin {
    const THREADS: usize = 4;

    fn start() -> Self {
        let ((mut told, requests), (reports, tell)) = (io::pipe().unwrap(), io::pipe().unwrap());
        // SAFETY: glibc makes its allocator usable in the child, which leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop((requests, reports));
            let all = cpu::allowed().unwrap();
            let report = || {
                let is_narrow = cpu::allowed().unwrap() != all;
                (&tell).write_all(&[is_narrow.into()]).unwrap();
            };
            // Ends with the test, which holds the other end.
            while told.read_exact(&mut [0]).is_ok() {
                std::thread::scope(|scope| {
                    (0..Self::THREADS).for_each(|_| _ = scope.spawn(report))
                });
            }
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        Self { pid, requests, reports }
    }

    fn request(&mut self) {
        self.requests.write_all(&[0]).unwrap();
    }

    /// Returns the number of narrow threads of a request.
    fn narrow(&mut self) -> usize {
        let mut reports = [0; Self::THREADS];
        self.reports.read_exact(&mut reports).unwrap();
        reports.iter().filter(|report| **report > 0).count()
    }

    fn mask(&self) -> CpuSet {
        cpu::allowed_of(self.pid as u32).unwrap()
    }
}

impl Drop for ForkJoin {
    fn drop(&mut self) {
        // SAFETY: takes plain integers; the child was not waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// 476 of 476 threads of such a program once ran on one CPU. Here each CPU counts as a core.
#[test]
fn short_threads_of_a_fork_join_program_are_not_confined() {
    let allowed = cpu::allowed().unwrap();
    if allowed.len() < 2 {
        return println!("skipped: it needs two CPUs");
    }
    let mut program = ForkJoin::start();
    let id = ThreadId::of_process(program.pid as u32).unwrap();
    if let Err(error) = ThisMachine.watch(id) {
        return println!("skipped: {error}");
    }
    let cpus: Vec<usize> = allowed.iter().collect();
    let sites = (0..cpus.len()).map(|core| Site { core, node: 0 }).collect();
    let folder = folder();
    let journal = Journal::create(folder.path()).unwrap();
    let mut session = Session::new(ThisMachine, Sites { cpus, sites }, journal);
    let look = |session: &mut Session<ThisMachine>| {
        session.watch(&[named(id)]).unwrap();
        session.look(id, Classification::declared(Compute));
        session.place(Some(SiblingUse::Cross)).unwrap();
    };
    // It starts threads from the beginning.
    for _ in 0..10 {
        program.request();
        assert_eq!(program.narrow(), 0);
        look(&mut session);
        assert_eq!(program.mask(), allowed);
    }
    look(&mut session);
    assert_eq!(program.mask().len(), 1, "it has started none since the last look");
    program.request();
    while session.wait(Duration::from_millis(1)) {}
    assert_eq!(program.mask(), allowed);
    // They may have reported before the session was told.
    program.narrow();
    for _ in 0..100 {
        program.request();
        assert_eq!(program.narrow(), 0);
    }
    assert_eq!(session.end().unwrap(), PutBack::default());
}

#[test]
fn a_scheduler_gets_the_classes_and_no_thread_is_bound() {
    let mut ground = narrow_ground(&[Compute, Stall, Unknown]);
    let narrow = thread(8, 80);
    ground.machine.set(narrow, &set("3"));
    ground.found.push(named(narrow));
    ground.session.watch(&ground.found.clone()).unwrap();
    ground.session.look(narrow, seen(Stall));
    let pipe = Pipe::default();
    ground.session.pair_by(ClassFeed::new(pipe.clone()));
    assert!(ground.session.place(Some(SiblingUse::Cross)).unwrap());
    assert_eq!(pipe.take(), "7 1 10 compute\n7 2 20 stall\n8 80 800 stall\n\n");
    assert!(!ground.session.place(Some(SiblingUse::Cross)).unwrap(), "nothing is new");
    let standings: Vec<Standing> = ground.session.threads().map(|(_, w)| w.standing()).collect();
    let scheduled = Standing::Scheduled;
    assert_eq!(standings, [scheduled.clone(), scheduled.clone(), Standing::Free, scheduled]);
    pipe.take();
    (0..3).for_each(|_| _ = ground.session.look(ground.found[0].id, seen(Stall)));
    ground.session.watch(&ground.found[..2]).unwrap();
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert_eq!(pipe.take(), "8 80 800 -\n7 1 10 stall\n\n", "a change, and an end");
    assert_eq!(ground.masks(), ["0-7", "0-7", "0-7", "3"]);
    ground.session.end().unwrap();
}

#[test]
fn classes_are_withdrawn_for_a_trial_which_binds() {
    let mut ground = narrow_ground(&[Compute, Stall]);
    let pipe = Pipe::default();
    ground.session.pair_by(ClassFeed::new(pipe.clone()));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    pipe.take();
    let ids: Vec<ThreadId> = ground.found.iter().map(|thread| thread.id).collect();
    ground.session.put(&ids, &[0, 1]).unwrap();
    assert_eq!(pipe.take(), "7 1 10 -\n7 2 20 -\n\n");
    ground.masks().iter().for_each(|mask| _ = core(mask));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    assert_eq!(ground.masks(), ["0-7", "0-7"]);
    assert_eq!(pipe.take(), "7 1 10 compute\n7 2 20 stall\n\n");
}

#[test]
fn affinities_take_the_place_of_a_scheduler_that_has_ended() {
    let mut ground = narrow_ground(&[Compute, Stall]);
    let (reader, writer) = io::pipe().unwrap();
    ground.session.pair_by(ClassFeed::new(writer));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    drop(reader);
    let error = ground.session.place(Some(SiblingUse::Cross)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(ground.session.threads().all(|(_, watched)| watched.standing() == Standing::Free));
    ground.session.place(Some(SiblingUse::Cross)).unwrap();
    ground.masks().iter().for_each(|mask| _ = core(mask));
}
