//! The order in which receives get messages: that of MPI, whether its library or the engine matches
//! them.

use std::time::Instant;

use daiko_mpi::{Comm, MpiError};

use crate::launch::{launch, nothing_is_left, other, ranks};
use crate::levels::{DEAD, MPI_ERROR};

/// A tag that no test sends before its end.
const LAST: i32 = 900;
/// Longer than any message is copied at once.
const LONG: usize = 1 << 20;

/// Rank 1 posts receives while another one waits, or none does, and rank 0 sends afterwards.
fn receives_get_messages_in_order(world: &Comm, wanted: &[(Option<usize>, Option<i32>)]) {
    if world.rank() == 0 {
        world.recv(&mut [0u8], 1, 1).unwrap();
        (0..wanted.len()).for_each(|number| world.send(&[number], 1, 7).unwrap());
        world.send(&[0usize], 1, LAST).unwrap();
    } else {
        let receive = |&(source, tag)| world.irecv(vec![usize::MAX], source, tag).unwrap();
        let receives: Vec<_> = wanted.iter().map(receive).collect();
        world.send(&[0u8], 0, 1).unwrap();
        for (number, receive) in receives.into_iter().enumerate() {
            assert_eq!(receive.wait().unwrap().0, [number], "{wanted:?}");
        }
        world.recv(&mut [0usize], 0, LAST).unwrap();
    }
    world.barrier().unwrap();
}

#[test]
fn open_and_narrow_receives_get_messages_in_the_order_of_their_posts() {
    ranks(
        "matching::open_and_narrow_receives_get_messages_in_the_order_of_their_posts",
        2,
        |mpi| {
            let kinds = [(Some(0), Some(7)), (Some(0), None), (None, Some(7)), (None, None)];
            for first in 0..4 {
                for step in [1, 3] {
                    let wanted: Vec<_> = (0..12).map(|at| kinds[(first + at * step) % 4]).collect();
                    receives_get_messages_in_order(mpi.world(), &wanted);
                    receives_get_messages_in_order(mpi.world(), &wanted[..1]);
                }
            }
            nothing_is_left(mpi);
        },
    );
}

fn length_of(number: u64) -> usize {
    if number % 50 == 7 { LONG / 8 } else { 1 + number as usize % 5 }
}

/// Short and long messages that no receive wants yet are kept in the order of their arrival.
#[test]
fn a_flood_is_received_in_order_by_tag_and_by_any_tag() {
    ranks("matching::a_flood_is_received_in_order_by_tag_and_by_any_tag", 2, |mpi| {
        const MESSAGES: u64 = 600;
        const TAGS: u64 = 7;
        let world = mpi.world().clone();
        daiko::run(move || {
            if world.rank() == 0 {
                let send = |number| {
                    let tag = (number * number % TAGS) as i32;
                    world.isend(vec![number; length_of(number)], 1, tag).unwrap()
                };
                let sends: Vec<_> = (0..MESSAGES).map(send).collect();
                world.send(&[0u64], 1, LAST).unwrap();
                return sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
            }
            // Two receives, so that the engine takes all messages to find that of the second.
            let never = world.irecv(vec![0u8], 0, LAST + 1).unwrap();
            world.recv(&mut [0u64], 0, LAST).unwrap();
            let mut expected: Vec<u64> = (0..MESSAGES).collect();
            let mut buffer = vec![0u64; LONG / 8];
            for round in 0..MESSAGES {
                let tag = round % 8;
                let of_tag = |&&number: &&u64| number * number % TAGS == tag;
                let (wanted, number) = match expected.iter().find(of_tag) {
                    Some(&number) if round % 3 > 0 => (Some(tag as i32), number),
                    _ => (None, expected[0]),
                };
                let source = (round % 2 == 0).then_some(0);
                let envelope = world.recv(&mut buffer, source, wanted).unwrap();
                let length = length_of(number);
                assert_eq!(envelope.bytes, 8 * length, "message {number}");
                assert!(buffer[..length].iter().all(|&word| word == number), "{number}");
                expected.retain(|&other| other != number);
            }
            drop(never);
        });
        nothing_is_left(mpi);
    });
}

#[test]
fn a_message_longer_than_the_buffer_is_an_error_however_it_is_matched() {
    let name = "matching::a_message_longer_than_the_buffer_is_an_error_however_it_is_matched";
    ranks(name, 2, |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            world.recv(&mut [0u8], 1, 1).unwrap();
            (1..=3).for_each(|tag| world.send(&[tag as u8; 64], 1, tag).unwrap());
            world.send(&[0u8], 1, LAST).unwrap();
        } else {
            // Matched by MPI, by the engine as it arrives, and after it was kept.
            let receives = [1, 2].map(|tag| world.irecv(vec![0xa5u8; 24], 0, tag).unwrap());
            let never = world.irecv(vec![0u8], 0, LAST + 1).unwrap();
            world.send(&[0u8], 0, 1).unwrap();
            world.recv(&mut [0u8], 0, LAST).unwrap();
            let mut buffer = [0xa5u8; 24];
            let kept = world.recv(&mut buffer[..16], 0, 3).unwrap_err();
            assert_eq!(buffer[16..], [0xa5; 8]);
            let errors = receives.map(|receive| receive.wait().unwrap_err());
            for error in errors.iter().chain([&kept]) {
                assert!(error.to_string().to_lowercase().contains("trunca"), "{error}");
            }
            drop(never);
        }
        world.barrier().unwrap();
        nothing_is_left(mpi);
    });
}

/// Sends messages that rank 1 never receives, some of which its engine keeps.
fn leave_messages(comm: &Comm) {
    if comm.rank() == 0 {
        (0..20).for_each(|tag| comm.send(&[7u8; 100], 1, tag).unwrap());
        comm.send(&[0u8], 1, LAST).unwrap();
    } else {
        let never = comm.irecv(vec![0u8], 0, LAST + 1).unwrap();
        comm.recv(&mut [0u8], 0, LAST).unwrap();
        drop(never);
    }
}

#[test]
fn messages_that_are_never_received_hinder_no_end() {
    ranks("matching::messages_that_are_never_received_hinder_no_end", 2, |mpi| {
        let own = mpi.world().dup().unwrap();
        leave_messages(&own);
        own.free().unwrap();
        leave_messages(mpi.world());
        nothing_is_left(mpi);
    });
}

#[test]
fn a_communicator_in_which_a_receive_waits_is_not_freed() {
    ranks("matching::a_communicator_in_which_a_receive_waits_is_not_freed", 2, |mpi| {
        let own = mpi.world().dup().unwrap();
        let receive = own.irecv(vec![0u8], other(&own), 1).unwrap();
        let daiko_mpi::FreeError::InUse(own) = own.free().unwrap_err() else { panic!("freed") };
        drop(receive);
        own.free().unwrap();
        nothing_is_left(mpi);
    });
}

/// A probe for any source, and one for the dead rank, fail as they do with ULFM.
#[test]
fn receives_from_a_dead_rank_fail_and_others_go_on() {
    let body = || {
        let mut mpi = daiko_mpi::init().unwrap();
        let world = mpi.world().clone();
        if world.rank() == 0 {
            // MPI matches the first one.
            let sources = [2, 1, 2, 1, 2];
            let receive = |(tag, source): (i32, usize)| world.irecv(vec![0u8], source, tag);
            let receives = (0..).zip(sources).map(|pair| receive(pair).unwrap());
            let receives: Vec<_> = receives.collect();
            world.send(&[0u8], 2, 0).unwrap();
            for (receive, source) in receives.into_iter().zip(sources) {
                match (receive.wait(), source) {
                    (Ok(_), 2) => {}
                    (Err(MpiError::Mpi { peer: Some(1), .. }), 1) => {}
                    (other, source) => panic!("from {source}: {other:?}"),
                }
            }
        }
        if world.rank() == 2 {
            world.recv(&mut [0u8], 0, 0).unwrap();
            [4, 2, 0].into_iter().for_each(|tag| world.send(&[1u8], 0, tag).unwrap());
        }
        world.barrier().unwrap();
        nothing_is_left(&mpi);
        mpi.finalize().unwrap();
    };
    let (name, dead) = ("matching::receives_from_a_dead_rank_fail_and_others_go_on", "1");
    let variables = [(DEAD, dead), (MPI_ERROR, "15")];
    let Some(launched) = launch(name, 3, &variables, body) else { return };
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
}

/// A loop of receives without any time once hung, as none of them looked.
#[test]
fn a_receive_without_time_gets_a_message_that_has_come() {
    ranks("matching::a_receive_without_time_gets_a_message_that_has_come", 2, |mpi| {
        let world = mpi.world();
        if world.rank() == 0 {
            (0..100).for_each(|number| world.send(&[number as u8], 1, number % 5).unwrap());
        }
        world.barrier().unwrap();
        if world.rank() == 1 {
            let never = world.irecv(vec![0u8], 0, LAST).unwrap();
            for number in (0..100).rev() {
                let mut byte = [0u8];
                let at_once = world.until(Instant::now());
                at_once.recv(&mut byte, None, number % 5).unwrap();
                assert_eq!(byte[0] % 5, number as u8 % 5);
            }
            let late = world.until(Instant::now()).recv(&mut [0u8], 0, 1);
            assert_eq!(late, Err(MpiError::TimedOut));
            drop(never);
        }
        nothing_is_left(mpi);
    });
}
