//! Operations that end early: by a deadline, a cancel, a panic.

use std::time::Duration;

use daiko::time;
use daiko_mpi::{Comm, Mpi, MpiError};

use crate::launch::{nothing_is_left, other, ranks};

/// Longer than any message is copied at once, so that its send waits for the receiver.
const LONG: usize = 1 << 20;

#[test]
fn a_storm_of_cancels_leaves_nothing() {
    ranks("early::a_storm_of_cancels_leaves_nothing", 2, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            for round in 0..20 {
                storm(&world, round);
            }
        });
        all_has_arrived(mpi);
    });
}

/// Fibers wait for messages that do not come, in each way, and are cancelled or run out of time.
fn storm(world: &Comm, round: u64) {
    let fiber = |number: u64| {
        let world = world.clone();
        daiko::spawn(move || {
            let (peer, tag) = (other(&world), 100 + number as i32);
            let short = world.until(Duration::from_micros((number * 37 + round) % 500));
            let mut data = [0u64; 4];
            match number % 6 {
                0 => drop(world.recv(&mut data, peer, tag)),
                1 => assert_eq!(short.recv(&mut data, peer, tag), Err(MpiError::TimedOut)),
                2 => drop(world.recv_vec::<u8>(None, tag)),
                3 => assert!(matches!(short.probe(peer, tag), Err(MpiError::TimedOut))),
                4 => {
                    let late = Duration::from_micros(number * 11 % 300);
                    assert!(time::timeout(late, || world.recv(&mut data, None, tag)).is_err());
                }
                _ => drop(world.irecv(vec![0u8; 64], peer, tag).unwrap()),
            }
        })
    };
    let fibers: Vec<_> = (0..120).map(fiber).collect();
    time::sleep(Duration::from_micros(round * 50));
    fibers.iter().for_each(|fiber| fiber.cancel());
    for fiber in fibers {
        match fiber.join() {
            Ok(()) | Err(daiko::JoinError::Cancelled) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Fails unless the ranks still exchange messages, and have nothing left.
fn all_has_arrived(mpi: &Mpi) {
    let world = mpi.world();
    world.barrier().unwrap();
    let mut word = [0u64];
    let own = [world.rank() as u64];
    world.sendrecv((&own, other(world), 0), (&mut word, Some(other(world)), Some(0))).unwrap();
    assert_eq!(word[0], other(world) as u64);
    nothing_is_left(mpi);
}

/// A message that comes before its receive is cancelled is received, by this or the next receive.
#[test]
fn no_message_is_lost_by_a_deadline() {
    ranks("early::no_message_is_lost_by_a_deadline", 2, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            let fiber = |number: i32| {
                let world = world.clone();
                daiko::spawn(move || {
                    for round in 0..50u64 {
                        if world.rank() == 0 {
                            time::sleep(Duration::from_micros(round * 7 % 120));
                            world.send(&[round], 1, number).unwrap();
                            world.recv(&mut [0u8], 1, number).unwrap();
                            continue;
                        }
                        let mut word = [u64::MAX];
                        while let Err(error) = world
                            .until(Duration::from_micros(round * 13 % 90))
                            .recv(&mut word, 0, number)
                        {
                            assert_eq!(error, MpiError::TimedOut);
                        }
                        assert_eq!(word, [round], "fiber {number}");
                        world.send(&[0u8], 0, number).unwrap();
                    }
                })
            };
            let fibers: Vec<_> = (0..20).map(fiber).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        nothing_is_left(mpi);
    });
}

#[test]
fn a_send_that_is_given_up_arrives_and_leaves_nothing() {
    ranks("early::a_send_that_is_given_up_arrives_and_leaves_nothing", 2, |mpi| {
        let world = mpi.world();
        let long = vec![3u8; LONG];
        if world.rank() == 0 {
            let late = world.until(Duration::from_millis(2)).send(&long, 1, 1);
            assert_eq!(late, Err(MpiError::TimedOut));
            drop(world.isend(long, 1, 2).unwrap());
            assert_eq!(mpi.counters().left, 2, "{:?}", mpi.counters());
            assert_eq!(mpi.counters().operations, 2);
            world.send(&[0u8], 1, 3).unwrap();
        } else {
            world.recv(&mut [0u8], 0, 3).unwrap();
            for tag in [2, 1] {
                let (found, _) = world.recv_vec::<u8>(0, tag).unwrap();
                assert!(found == long, "tag {tag}");
            }
        }
        all_has_arrived(mpi);
    });
}

#[test]
fn a_cancelled_fiber_waits_for_the_send_of_borrowed_data() {
    ranks("early::a_cancelled_fiber_waits_for_the_send_of_borrowed_data", 2, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            if world.rank() == 1 {
                world.recv(&mut [0u8], 0, 3).unwrap();
                let (found, _) = world.recv_vec::<u8>(0, 1).unwrap();
                return assert!(found == vec![9u8; LONG]);
            }
            let sends = world.clone();
            let fiber = daiko::spawn(move || {
                let data = vec![9u8; LONG];
                sends.send(&data, 1, 1).unwrap();
            });
            time::sleep(Duration::from_millis(2));
            fiber.cancel();
            time::sleep(Duration::from_millis(2));
            assert!(!fiber.is_finished(), "the data is MPI's");
            world.send(&[0u8], 1, 3).unwrap();
            assert!(matches!(fiber.join(), Err(daiko::JoinError::Cancelled) | Ok(())));
        });
        all_has_arrived(mpi);
    });
}

#[test]
fn a_collective_goes_on_without_a_fiber_that_was_cancelled() {
    ranks("early::a_collective_goes_on_without_a_fiber_that_was_cancelled", 2, |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            let short = world.until(Duration::from_millis(1));
            assert_eq!(short.allgather(&[1u8]), Err(MpiError::TimedOut));
            assert_eq!(mpi.counters().left, 1);
            world.send(&[0u8], 1, 3).unwrap();
        } else {
            world.recv(&mut [0u8], 0, 3).unwrap();
            assert_eq!(world.allgather(&[2u8]).unwrap(), [1, 2]);
        }
        all_has_arrived(mpi);
    });
}

#[test]
fn a_panic_beside_a_receive_leaves_nothing() {
    ranks("early::a_panic_beside_a_receive_leaves_nothing", 2, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            let panics = daiko::spawn(move || {
                let _receives = world.irecv(vec![0u64; 8], None, 5).unwrap();
                let _sends = world.isend(vec![1u8; LONG], other(&world), 6).unwrap();
                let found = world.probe(other(&world), 6).unwrap();
                assert_eq!(found.envelope().bytes, 0, "a panic while three of MPI's are open");
            });
            assert!(panics.join().is_err());
        });
        all_has_arrived(mpi);
    });
}
