//! The end of MPI, and of ranks.

use std::time::Duration;

use daiko_mpi::{FinalizeError, InitError, Mpi, MpiError};

use crate::launch::{launch, nothing_is_left, other, ranks};

#[test]
fn the_end_says_how_many_wait() {
    let body = || {
        let mut mpi = daiko_mpi::init().unwrap();
        let world = mpi.world().clone();
        let peer = other(&world);
        let waits = |tag| {
            let world = world.clone();
            daiko::default_runtime().spawn(move || world.recv(&mut [0u8], peer, tag).unwrap())
        };
        let fibers: Vec<_> = (1..=3).map(waits).collect();
        while mpi.counters().requests < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // No rank sends before both have looked.
        world.barrier().unwrap();
        let refused = mpi.finalize();
        assert_eq!(refused, Err(FinalizeError::Waiting { operations: 3, left: 0 }));
        let text = refused.unwrap_err().to_string();
        assert!(text.starts_with("3 operations still wait for messages"), "{text}");
        assert_eq!(daiko_mpi::init().unwrap_err(), InitError::Before);
        // MPI is in use as before.
        world.barrier().unwrap();
        (1..=3).for_each(|tag| world.send(&[0u8], peer, tag).unwrap());
        fibers.into_iter().for_each(|fiber| {
            fiber.join().unwrap();
        });
        nothing_is_left(&mpi);
        mpi.finalize().unwrap();
        assert_eq!(world.send(&[0u8], peer, 1), Err(MpiError::Finalized));
        assert_eq!(world.barrier(), Err(MpiError::Finalized));
        assert_eq!(mpi.finalize(), Ok(()));
    };
    let Some(launched) = launch("ends::the_end_says_how_many_wait", 2, &[], body) else { return };
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
}

#[test]
fn a_drop_with_waiters_says_how_many() {
    let body = || {
        let mpi = daiko_mpi::init().unwrap();
        let world = mpi.world().clone();
        let fiber = daiko::default_runtime().spawn(move || world.recv(&mut [0u8], None, 1));
        while mpi.counters().requests < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(mpi);
        std::mem::forget(fiber);
    };
    let Some(launched) = launch("ends::a_drop_with_waiters_says_how_many", 1, &[], body) else {
        return;
    };
    assert!(launched.output.contains("daiko: 1 operations still wait"), "{}", launched.output);
}

/// The launcher ends the other ranks.
#[test]
fn the_death_of_a_rank_ends_all() {
    let body = || {
        let mpi = daiko_mpi::init().unwrap();
        let world = mpi.world().clone();
        world.barrier().unwrap();
        if world.rank() == 1 {
            // SAFETY: takes a plain integer.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        daiko::run(move || {
            let fiber = |tag| {
                let world = world.clone();
                daiko::spawn(move || world.recv(&mut [0u8], 1, tag))
            };
            let fibers: Vec<_> = (0..50).map(fiber).collect();
            fibers.into_iter().for_each(|fiber| drop(fiber.join().unwrap().unwrap_err()));
        });
        drop(mpi);
    };
    let Some(launched) = launch("ends::the_death_of_a_rank_ends_all", 3, &[], body) else { return };
    assert!(!launched.status.success(), "{}", launched.output);
}

/// A rank that panics does not finalise, so that the launcher ends the other ranks.
#[test]
fn the_panic_of_a_rank_ends_all() {
    let body = || {
        let mpi: Mpi = daiko_mpi::init().unwrap();
        let world = mpi.world().clone();
        assert_eq!(world.rank(), 0, "rank 1 panics");
        drop(world.recv(&mut [0u8], 1, 1));
    };
    let Some(launched) = launch("ends::the_panic_of_a_rank_ends_all", 2, &[], body) else { return };
    assert!(!launched.status.success(), "{}", launched.output);
    assert!(launched.output.contains("rank 1 panics"), "{}", launched.output);
}

#[test]
fn an_idle_poller_is_inactive() {
    ranks("ends::an_idle_poller_is_inactive", 2, |mpi| {
        let world = mpi.world();
        assert!(!mpi.counters().is_active);
        for _ in 0..3 {
            world.barrier().unwrap();
            while mpi.counters().is_active {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
}
