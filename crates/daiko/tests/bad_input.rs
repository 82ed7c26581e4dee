//! Impossible requests are refused in one line that names the remedy, and leave nothing behind.

mod support;

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::time::{Duration, Instant};

use daiko::cancel::CancelToken;
use daiko::watch::{self, NotificationArea, at_least};
use daiko::{BuildError, Builder, JoinError, Runtime, SpawnError, StackError, time};
use support::child::emulated::LinuxPart;
use support::child::{command, is_child, stderr};
use support::{
    Drops, OnDrop, assert_names, end, panic_of, run_on, small_stack, workers, yield_until,
};

const NO_FIBER: &str = "is for fibers, and this is not one; start it by daiko::run or daiko::spawn";
const NO_SUSPEND: &str = "daiko: a fiber wanted to suspend inside no_suspend";
const ZERO: Duration = Duration::ZERO;
/// Too small for a frame beside the data of the runtime, or too large.
const ABSURD_STACKS: [usize; 5] = [0, 1, 4096, 2 << 30, usize::MAX];

#[test]
fn a_number_of_workers_out_of_range_is_refused() {
    for asked in [0, 513, usize::MAX] {
        let error = Runtime::builder().workers(asked).build().unwrap_err();
        assert!(matches!(error, BuildError::Workers { workers } if workers == asked), "{error:?}");
        assert_names(&error, "1 to 512");
    }
}

#[test]
fn more_workers_than_cpus_work() {
    run_on(Runtime::builder().workers(64), || {
        let fibers: Vec<_> =
            (0..64_usize).map(|i| Builder::new().on(i).spawn(move || i).unwrap()).collect();
        let sum: usize = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 2016);
    });
}

#[test]
fn cpus_none_of_which_is_allowed_are_refused() {
    for cpus in [vec![], vec![9999], vec![usize::MAX, 1023]] {
        let error = Runtime::builder().cpus(cpus.clone()).build().unwrap_err();
        assert!(
            matches!(&error, BuildError::NoAllowedCpu { asked, allowed }
                if *asked == cpus && !allowed.is_empty()),
            "{error:?}"
        );
        assert_names(&error, "choose among [");
    }
}

#[test]
fn cpus_that_are_not_allowed_are_left_out() {
    let allowed = daiko_sys::cpu::allowed().unwrap().iter().next().unwrap();
    let runtime = Runtime::builder().cpus([9999, allowed]).build().unwrap();
    assert_eq!(runtime.workers(), 1);
    end(runtime);
}

#[test]
fn absurd_stacks_are_refused_by_the_runtime() {
    for size in ABSURD_STACKS {
        let error = Runtime::builder().stack_size(size).build().unwrap_err();
        let BuildError::Stack(StackError::Size { size: named, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!(named, size);
        assert_names(&error, "choose from");
    }
}

#[test]
fn absurd_guards_are_refused() {
    for guard in [0, 1 << 30, usize::MAX] {
        let error = Runtime::builder().guard_size(guard).build().unwrap_err();
        assert!(matches!(error, BuildError::Stack(StackError::Guard { .. })), "{error:?}");
        assert_names(&error, "choose from");
    }
}

#[test]
fn absurd_stacks_are_refused_by_the_spawn() {
    let drops = Drops::default();
    let counted = drops.clone();
    run_on(Runtime::builder().workers(1), move || {
        for size in ABSURD_STACKS {
            let token = counted.token();
            let error = Builder::new().stack_size(size).spawn(move || drop(token)).unwrap_err();
            assert!(matches!(error, SpawnError::Stack(StackError::Size { .. })), "{error:?}");
            assert_names(&error, "choose from");
        }
    });
    drops.assert_all();
}

#[test]
fn the_smallest_and_the_largest_stack_work() {
    // Other processors have homes, which are larger than light blocks.
    let is_light = cfg!(target_arch = "x86_64");
    let smallest = if is_light { [3 * 4096, 16 << 10] } else { [small_stack(64 << 10); 2] };
    run_on(Runtime::builder().workers(1).stack_size(smallest[0]), move || {
        for size in [smallest[0], smallest[1], 1 << 30] {
            let name = "n".repeat(300);
            let builder = Builder::new().name(name).stack_size(size);
            let fiber = builder.spawn(|| daiko::current().name().map(str::len)).unwrap();
            assert_eq!(fiber.join().unwrap(), Some(256));
        }
    });
}

#[test]
fn a_name_is_cut_between_characters() {
    run_on(Runtime::builder().workers(1), || {
        let name = format!("{}\u{4ee3}\u{884c}", "n".repeat(255));
        let fiber = Builder::new().name(name).spawn(|| ()).unwrap();
        assert_eq!(fiber.fiber().name(), Some(&*"n".repeat(255)));
        fiber.join().unwrap();
    });
}

#[test]
fn a_worker_that_there_is_not_is_refused() {
    let runtime = workers(2);
    let drops = Drops::default();
    for asked in [2, 99, usize::MAX] {
        let token = drops.token();
        let error = runtime.spawn_with(Builder::new().on(asked), || drop(token)).unwrap_err();
        assert!(
            matches!(error, SpawnError::NoSuchWorker { worker, workers: 2 } if worker == asked),
            "{error:?}"
        );
        assert_names(&error, "workers 0 to 1");
    }
    end(runtime);
    drops.assert_all();
}

#[test]
fn a_spawn_during_the_shutdown_is_refused() {
    let (send, receive) = mpsc::channel();
    let drops = Drops::default();
    let runtime = workers(1);
    let counted = drops.clone();
    let parked = runtime.spawn(move || {
        let _late = OnDrop(|| {
            let token = counted.token();
            let refused = Builder::new().spawn(move || drop(token)).map(drop);
            send.send(refused).unwrap();
        });
        daiko::park();
    });
    runtime.run(daiko::yield_now);
    assert_eq!(runtime.shutdown().leaked, 0);
    let error = receive.recv().unwrap().unwrap_err();
    assert!(matches!(error, SpawnError::ShuttingDown), "{error:?}");
    assert_names(&error, "before Runtime::shutdown");
    assert!(matches!(parked.join(), Err(JoinError::Cancelled)));
    drops.assert_all();
}

#[test]
fn a_fiber_that_joins_itself_is_told() {
    run_on(Runtime::builder().workers(1), || {
        let (send, receive) = mpsc::channel::<daiko::JoinHandle<()>>();
        let (tell, told) = mpsc::channel();
        let fiber = daiko::spawn(move || {
            let mut own = None;
            yield_until("the own handle", || {
                own = receive.try_recv().ok();
                own.is_some()
            });
            match own.take().unwrap().join() {
                Err(error @ JoinError::Itself) => tell.send(error.to_string()).unwrap(),
                other => panic!("{other:?}"),
            }
        });
        send.send(fiber).unwrap();
        let mut text = None;
        yield_until("the reported value", || {
            text = told.try_recv().ok();
            text.is_some()
        });
        assert_eq!(text.unwrap(), JoinError::Itself.to_string());
    });
}

#[test]
fn errors_of_a_join_name_the_remedy_in_one_line() {
    assert_names(&JoinError::Panicked(Box::new(())), "JoinError::into_panic");
    assert_names(&JoinError::Cancelled, "join it before");
    assert_names(&JoinError::Itself, "pass the handle to another");
    assert_names(&JoinError::Leaked, "daiko::Cancelled");
    assert_names(&JoinError::WorkerDied, "spawn another");
}

#[test]
fn an_unpark_of_a_finished_fiber_has_no_effect() {
    run_on(Runtime::builder().workers(1), || {
        let fiber = daiko::spawn(|| ());
        let late = fiber.fiber().clone();
        fiber.join().unwrap();
        let resumed = Arc::new(AtomicU32::new(0));
        let parked: Vec<_> = (0..300)
            .map(|_| {
                let resumed = resumed.clone();
                daiko::spawn(move || {
                    daiko::park();
                    resumed.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for _ in 0..100 {
            late.unpark();
            daiko::yield_now();
        }
        assert_eq!(resumed.load(Ordering::Relaxed), 0);
        parked.iter().for_each(|fiber| fiber.fiber().unpark());
        parked.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

#[test]
fn calls_that_need_a_fiber_say_so() {
    let word = AtomicU64::new(1);
    let (_area, mut slots) = NotificationArea::<u64>::new(1);
    for (what, text) in [
        ("park", panic_of(daiko::park)),
        ("yield_now", panic_of(daiko::yield_now)),
        ("current", panic_of(daiko::current)),
        ("park_timeout", panic_of(|| daiko::park_timeout(ZERO))),
        ("park_timeout", panic_of(|| daiko::park_timeout(Instant::now()))),
        ("time::timeout", panic_of(|| time::timeout(ZERO, || ()))),
        ("time::timeout", panic_of(|| time::timeout(Instant::now(), || ()))),
        ("CancelToken::run", panic_of(|| CancelToken::new().run(|| ()))),
        ("watch::wait_until", panic_of(|| watch::wait_until(&word, at_least(1)))),
        ("watch::wait_until", panic_of(|| watch::wait_until_notified(&word, at_least(1)))),
        ("watch::wait_until", panic_of(|| watch::wait_until_timeout(&word, at_least(1), ZERO))),
        ("Slot::wait", panic_of(|| slots[0].wait())),
        ("Slot::wait", panic_of(|| slots[0].wait_timeout(ZERO))),
    ] {
        assert_eq!(text, format!("daiko: {what} {NO_FIBER}"));
    }
    assert!(daiko::try_current().is_none());
    assert_eq!(daiko::blocking(|| 5), 5, "outside of a fiber it only runs the closure");
    assert_eq!(daiko::no_suspend(|| 5), 5, "likewise");
}

/// Returns the file and line that a panic of `f` names.
fn panics_at(f: impl FnOnce()) -> (String, u32) {
    thread_local!(static PLACE: Cell<Option<(String, u32)>> = const { Cell::new(None) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // The first runtime sets a hook as well, and of two that are set at a time one is lost.
        end(workers(1));
        let prints = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PLACE.set(info.location().map(|place| (place.file().to_owned(), place.line())));
            prints(info);
        }));
    });
    assert!(panic::catch_unwind(AssertUnwindSafe(f)).is_err());
    PLACE.take().unwrap()
}

#[test]
fn a_call_that_needs_a_fiber_names_the_line_of_its_caller() {
    let token = CancelToken::new();
    let calls: [(u32, &mut dyn FnMut()); 8] = [
        (line!(), &mut || daiko::park()),
        (line!(), &mut || daiko::park_timeout(ZERO)),
        (line!(), &mut || daiko::park_timeout(Instant::now())),
        (line!(), &mut || daiko::yield_now()),
        (line!(), &mut || _ = daiko::current()),
        (line!(), &mut || _ = daiko::set_class(daiko::Class::Stall)),
        (line!(), &mut || _ = time::timeout(ZERO, || ())),
        (line!(), &mut || _ = token.run(|| ())),
    ];
    for (line, call) in calls {
        assert_eq!(panics_at(call), (file!().to_owned(), line));
    }
    run_on(Runtime::builder().workers(1), || {
        let suspends: [(u32, fn()); 2] =
            [(line!(), || daiko::park()), (line!(), || daiko::yield_now())];
        for (line, suspend) in suspends {
            let place = panics_at(|| daiko::no_suspend(suspend));
            assert_eq!(place, (file!().to_owned(), line));
        }
    });
}

#[test]
fn a_suspension_inside_no_suspend_panics() {
    for preset in support::PRESETS {
        run_on(Runtime::builder().workers(2).preset(preset), || {
            for builder in [Builder::new(), support::migratable()] {
                builder.spawn(suspend_inside_no_suspend).unwrap().join().unwrap();
            }
        });
    }
}

fn suspend_inside_no_suspend() {
    let word = AtomicU64::new(1);
    let (area, mut slots) = NotificationArea::<u64>::new(1);
    let ended = Arc::new(AtomicBool::new(false));
    let tell = ended.clone();
    let parked = daiko::spawn(move || {
        daiko::park();
        tell.store(true, Ordering::Release);
    });
    let other = parked.fiber().clone();
    let ran = AtomicBool::new(false);
    let texts = [
        panic_of(|| daiko::no_suspend(daiko::park)),
        panic_of(|| daiko::no_suspend(|| daiko::park_timeout(ZERO))),
        panic_of(|| daiko::no_suspend(|| time::timeout(ZERO, daiko::yield_now))),
        panic_of(|| daiko::no_suspend(|| CancelToken::new().wait())),
        panic_of(|| daiko::no_suspend(daiko::yield_now)),
        panic_of(|| daiko::no_suspend(|| watch::wait_until(&word, at_least(2)))),
        panic_of(|| daiko::no_suspend(|| watch::wait_until_notified(&word, at_least(2)))),
        panic_of(|| daiko::no_suspend(|| slots[0].wait())),
        panic_of(|| daiko::no_suspend(|| parked.join())),
        panic_of(|| daiko::no_suspend(|| daiko::blocking(|| ran.store(true, Ordering::Relaxed)))),
        panic_of(|| daiko::no_suspend(|| daiko::no_suspend(daiko::park))),
    ];
    assert_eq!(texts, [NO_SUSPEND; 11]);
    assert!(!ran.load(Ordering::Relaxed));
    // Afterwards all calls work.
    other.unpark();
    yield_until("the end of a fiber after a join of it panicked", || ended.load(Ordering::Acquire));
    area.notify(0);
    assert_eq!(slots[0].wait(), Ok(1));
    word.store(2, Ordering::Release);
    assert_eq!(watch::wait_until(&word, at_least(2)), 2);
    daiko::current().unpark();
    daiko::park();
    assert_eq!(daiko::no_suspend(|| daiko::no_suspend(|| 7)), 7);
    daiko::yield_now();
}

#[test]
fn a_slot_that_there_is_not_panics() {
    run_on(Runtime::builder().workers(1), || {
        let (area, slots) = NotificationArea::<u32>::new(3);
        assert!(panic_of(|| area.notify(3)).contains("index out of bounds"));
        assert!(panic_of(|| area.word(usize::MAX)).contains("index out of bounds"));
        let (none, no_slots) = NotificationArea::<u32>::notified(0);
        assert!(none.is_empty() && no_slots.is_empty());
        drop(slots);
    });
}

#[test]
fn every_error_is_one_line_that_names_the_remedy() {
    let stack = StackError::Size { size: 1, least: 12288 };
    for (error, remedy) in [
        (BuildError::Workers { workers: 0 }, "1 to 512"),
        (BuildError::NoAllowedCpu { asked: vec![7], allowed: vec![0, 1] }, "taskset"),
        (BuildError::Stack(stack), "choose from 12288"),
        (BuildError::Memory(daiko_sys::memory::MemoryError::Mappings), "vm.max_map_count"),
        (BuildError::Thread(std::io::ErrorKind::WouldBlock.into()), "ulimit -u"),
        (BuildError::Thread(std::io::ErrorKind::WouldBlock.into()), "pids.max"),
        (BuildError::Unbound { setting: "pairing(true)" }, "leave out bind(false)"),
    ] {
        assert_names(&error, remedy);
    }
    for (error, remedy) in [
        (SpawnError::Stack(stack), "choose from 12288"),
        (SpawnError::NoSuchWorker { worker: 9, workers: 2 }, "RuntimeBuilder::workers"),
        (SpawnError::ShuttingDown, "spawn before"),
        (SpawnError::Forked, "build another one"),
    ] {
        assert_names(&error, remedy);
    }
    for error in [
        JoinError::Cancelled,
        JoinError::Itself,
        JoinError::Leaked,
        JoinError::WorkerDied,
        JoinError::Forked,
    ] {
        assert_names(&error, "fiber");
    }
    assert_names(&watch::Closed, "last handle was dropped");
}

/// No other processor has the register.
#[cfg(target_arch = "x86_64")]
mod gs_base {
    use super::*;
    use daiko_context::seat::{Finder, finder};
    use support::child::in_child_well;
    use support::skip;

    fn set_gs_base(base: usize) {
        const ARCH_SET_GS: i32 = 0x1001;
        // SAFETY: sets a register that nothing in this process uses before a runtime starts.
        assert_eq!(unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, base) }, 0);
    }

    /// A thread that is started inherits the GS base of the thread that starts it.
    #[test]
    fn a_gs_base_that_is_in_use_is_refused_before_workers_start() {
        in_child_well("gs_base::a_gs_base_that_is_in_use_is_refused_before_workers_start", || {
            if finder() == Finder::ThreadLocal {
                return skip("the GS base is not used on this machine");
            }
            let library = [0_u8; 64];
            set_gs_base(library.as_ptr().addr());
            let error = Runtime::builder().workers(2).build().unwrap_err();
            assert_names(&error, "DAIKO_THREAD_REGISTER=arch_prctl");
            set_gs_base(0);
            let runtime = workers(2);
            assert_eq!(runtime.run(|| 5), 5);
            end(runtime);
        });
    }
}

/// The area that another library would register for restartable sequences, as `rseq.h` has it.
#[repr(C, align(32))]
struct RseqArea([AtomicU32; 8]);

#[test]
fn an_area_of_restartable_sequences_of_another_library_does_no_harm() {
    if LinuxPart::RestartableSequences.is_lacking() {
        return;
    }
    const NAME: &str = "an_area_of_restartable_sequences_of_another_library_does_no_harm";
    if !is_child() {
        let output = command(NAME).env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        return;
    }
    static AREA: RseqArea = RseqArea([const { AtomicU32::new(0) }; 8]);
    run_on(Runtime::builder().workers(1), || {
        let number = libc::SYS_rseq;
        // SAFETY: the area is a static, and has no sequence.
        let result = unsafe { libc::syscall(number, &AREA, size_of::<RseqArea>(), 0, 0x5305_3053) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let fibers: Vec<_> = (0..100)
            .map(|value| {
                daiko::spawn(move || {
                    daiko::yield_now();
                    // SAFETY: takes nothing.
                    let cpu = unsafe { libc::sched_getcpu() };
                    assert_eq!(AREA.0[1].load(Ordering::Relaxed), cpu as u32);
                    value
                })
            })
            .collect();
        for (value, fiber) in fibers.into_iter().enumerate() {
            assert_eq!(fiber.join().unwrap(), value);
        }
    });
}
