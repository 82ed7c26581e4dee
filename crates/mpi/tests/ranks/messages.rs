//! Messages between two ranks.

use std::time::Duration;

use daiko::shm::bytemuck;
use daiko_mpi::{Comm, Envelope, MpiError};

use crate::launch::{nothing_is_left, other, ranks};

const FIBERS: u64 = 1000;
const ROUNDS: u64 = 20;

#[test]
fn a_thousand_fibers_exchange_words() {
    ranks("messages::a_thousand_fibers_exchange_words", 2, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || each_fiber(&world, FIBERS, exchange));
        nothing_is_left(mpi);
    });
}

/// Runs `body` in as many fibers, each with a tag of its own.
fn each_fiber(world: &Comm, count: u64, body: fn(&Comm, u64)) {
    let fiber = |tag| {
        let world = world.clone();
        daiko::spawn(move || body(&world, tag))
    };
    let fibers: Vec<_> = (0..count).map(fiber).collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// Rank 0 sends a word, rank 1 adds 1 and sends it back.
fn exchange(world: &Comm, tag: u64) {
    let (peer, own) = (other(world), tag as i32);
    for round in 0..ROUNDS {
        let word = tag << 32 | round;
        let mut data = [word];
        if world.rank() == 0 {
            world.send(&data, peer, own).unwrap();
        }
        let envelope = world.recv(&mut data, peer, own).unwrap();
        assert_eq!(envelope, Envelope { source: peer, tag: own, bytes: 8 });
        if world.rank() == 0 {
            assert_eq!(data, [word + 1]);
        } else {
            assert_eq!(data, [word]);
            world.send(&[word + 1], peer, own).unwrap();
        }
    }
}

#[test]
fn four_ranks_share_the_cpus() {
    ranks("messages::four_ranks_share_the_cpus", 4, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            each_fiber(&world, 25, |world, tag| {
                let (rank, size) = (world.rank(), world.size());
                let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
                for round in 0..10 {
                    let mut word = [0u64];
                    let own = [round * 1000 + rank as u64];
                    let tag = tag as i32;
                    world.sendrecv((&own, right, tag), (&mut word, Some(left), Some(tag))).unwrap();
                    assert_eq!(word[0], round * 1000 + left as u64);
                }
            });
        });
        nothing_is_left(mpi);
    });
}

/// A generator that both ranks run alike.
struct Alike(u64);

impl Alike {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64*, Vigna 2016.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

fn pattern(seed: u64, length: u64) -> Vec<u8> {
    (0..length).map(|at| (seed.wrapping_mul(31) + at * 7 + at / 251) as u8).collect()
}

/// Some lengths lie below the library's limit for copies, some above.
fn any_length(alike: &mut Alike) -> u64 {
    match alike.below(8) {
        0 => 0,
        1..=4 => alike.below(300),
        5 | 6 => alike.below(10_000),
        _ => alike.below(1 << 17),
    }
}

#[test]
fn random_tags_and_lengths_arrive_whole() {
    ranks("messages::random_tags_and_lengths_arrive_whole", 2, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || each_fiber(&world, 40, random_messages));
        nothing_is_left(mpi);
    });
}

/// Each fiber has 100 tags of its own; messages of the same tag arrive in their order.
fn random_messages(world: &Comm, number: u64) {
    let mut alike = Alike(number + 1);
    let peer = other(world);
    for step in 0..12 {
        let (tag, length) = (number * 100 + alike.below(100), any_length(&mut alike));
        let (how, sends) = (alike.below(5), alike.below(2) as usize == world.rank());
        let (tag, expected) = (tag as i32, pattern(number * 100 + step, length));
        match (sends, how) {
            (true, 0) => drop(world.isend(expected, peer, tag).unwrap().wait().unwrap()),
            (true, 1) => {
                world.until(Duration::from_secs(600)).send(&expected, peer, tag).unwrap();
            }
            (true, _) => world.send(&expected, peer, tag).unwrap(),
            (false, 0) => {
                let (found, envelope) = world.recv_vec::<u8>(peer, tag).unwrap();
                assert!(found == expected && envelope.tag == tag, "fiber {number}, step {step}");
            }
            (false, 1) => {
                let request = world.irecv(vec![0u8; 1 << 17], peer, tag).unwrap();
                let (found, envelope) = request.wait().unwrap();
                assert!(found[..envelope.bytes] == expected, "fiber {number}, step {step}");
            }
            (false, 2) => {
                let message = world.probe(peer, tag).unwrap();
                assert_eq!(message.envelope().bytes as u64, length);
                assert!(message.recv::<u8>().unwrap().0 == expected);
            }
            (false, _) => {
                let mut found = vec![0xa5u8; length as usize + 3];
                let envelope = world.recv(&mut found, peer, tag).unwrap();
                assert_eq!(envelope.bytes as u64, length, "fiber {number}, step {step}");
                assert!(found[..envelope.bytes] == expected && found.ends_with(&[0xa5; 3]));
            }
        }
    }
}

#[test]
fn messages_of_any_source_and_tag_are_received_once() {
    ranks("messages::messages_of_any_source_and_tag_are_received_once", 3, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            if world.rank() > 0 {
                return each_fiber(&world, 100, |world, tag| {
                    world.send(&[tag * 10 + world.rank() as u64], 0, tag as i32).unwrap();
                });
            }
            let receiver = |at: u64| {
                let world = world.clone();
                daiko::spawn(move || {
                    let (words, envelope) = match at % 2 {
                        0 => world.recv_vec::<u64>(None, None).unwrap(),
                        _ => {
                            let mut word = [0u64];
                            let envelope = world.recv(&mut word, None, None).unwrap();
                            (word.to_vec(), envelope)
                        }
                    };
                    assert_eq!(words, [envelope.tag as u64 * 10 + envelope.source as u64]);
                    words[0]
                })
            };
            let fibers: Vec<_> = (0..200).map(receiver).collect();
            let mut found: Vec<u64> = fibers.into_iter().map(|f| f.join().unwrap()).collect();
            found.sort_unstable();
            let expected: Vec<u64> =
                (0..100).flat_map(|tag| [tag * 10 + 1, tag * 10 + 2]).collect();
            assert_eq!(found, expected);
        });
        nothing_is_left(mpi);
    });
}

#[test]
fn threads_that_are_no_fibers_exchange_words() {
    ranks("messages::threads_that_are_no_fibers_exchange_words", 2, |mpi| {
        let world = mpi.world();
        std::thread::scope(|scope| {
            for tag in 0..4 {
                scope.spawn(move || exchange(world, tag));
            }
        });
        nothing_is_left(mpi);
    });
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Point {
    x: f64,
    y: f64,
}

// SAFETY: two numbers without padding, of which all bits are valid.
unsafe impl bytemuck::Zeroable for Point {}
// SAFETY: as above.
unsafe impl bytemuck::Pod for Point {}

#[test]
fn wrong_calls_are_errors_that_name_the_rank() {
    ranks("messages::wrong_calls_are_errors_that_name_the_rank", 2, |mpi| {
        let world = mpi.world();
        let peer = other(world);
        let no_such = MpiError::NoSuchRank { rank: 2, size: 2 };
        assert_eq!(world.send(&[1u8], 2, 0), Err(no_such.clone()));
        assert_eq!(world.recv(&mut [1u8], 2, 0), Err(no_such));
        assert_eq!(world.send(&[1u8], peer, -1), Err(MpiError::BadTag(-1)));
        assert_eq!(world.recv(&mut [1u8], peer, 32_768), Err(MpiError::BadTag(32_768)));
        assert_eq!(world.alltoall(&[1u8]), Err(MpiError::Length { given: 1, unit: 2 }));
        if world.rank() == 0 {
            world.send(&[Point { x: 1.5, y: -2.5 }, Point { x: 0.0, y: 9.0 }], 1, 1).unwrap();
            world.send(&[1u8, 2, 3], 1, 2).unwrap();
        } else {
            let mut short = [Point { x: 0.0, y: 0.0 }];
            let error = world.recv(&mut short, 0, 1).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, MpiError::Mpi { rank: 1, peer: Some(0), .. }), "{error:?}");
            assert!(text.starts_with("Comm::recv at rank 1, with rank 0: "), "{text}");
            assert!(text.to_lowercase().contains("trunca"), "{text}");
            let error = world.recv_vec::<u16>(0, 2).unwrap_err();
            assert_eq!(error, MpiError::Length { given: 3, unit: 2 });
        }
        world.barrier().unwrap();
        nothing_is_left(mpi);
    });
}
