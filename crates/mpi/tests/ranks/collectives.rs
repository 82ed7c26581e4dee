//! Operations of all ranks, against values calculated here.

use daiko_mpi::{Comm, FreeError, MpiError, ReduceOp};

use crate::launch::{nothing_is_left, ranks};

#[test]
fn collectives_give_the_expected_values() {
    ranks("collectives::collectives_give_the_expected_values", 3, |mpi| {
        all_of(mpi.world());
        nothing_is_left(mpi);
    });
}

fn all_of(comm: &Comm) {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    let of_all = |value: fn(u64) -> u64| (0..size).map(value);
    for count in [0usize, 1, 5, 3000] {
        comm.barrier().unwrap();
        for root in 0..comm.size() {
            let mut data = vec![if comm.rank() == root { 7 + root as u64 } else { 0 }; count];
            comm.bcast(&mut data, root).unwrap();
            assert_eq!(data, vec![7 + root as u64; count]);
            let gathered = comm.gather(&vec![rank * 3; count], root).unwrap();
            let expected: Vec<u64> =
                of_all(|rank| rank * 3).flat_map(|value| vec![value; count]).collect();
            assert_eq!(gathered, (comm.rank() == root).then_some(expected));
            let whole: Vec<u64> = (0..size).flat_map(|to| vec![to + 40; count]).collect();
            let part = comm.scatter(&whole, count, root).unwrap();
            assert_eq!(part, vec![rank + 40; count]);
            let sum = comm.reduce(&vec![rank as i32; count], ReduceOp::Sum, root).unwrap();
            let expected = vec![of_all(|rank| rank).sum::<u64>() as i32; count];
            assert_eq!(sum, (comm.rank() == root).then_some(expected));
        }
        let expected: Vec<u64> =
            of_all(|rank| rank + 1).flat_map(|value| vec![value; count]).collect();
        assert_eq!(comm.allgather(&vec![rank + 1; count]).unwrap(), expected);
        let data: Vec<u64> = (0..size).flat_map(|to| vec![rank * 10 + to; count]).collect();
        let expected: Vec<u64> = (0..size).flat_map(|of| vec![of * 10 + rank; count]).collect();
        assert_eq!(comm.alltoall(&data).unwrap(), expected);
        let product = comm.allreduce(&vec![rank as f64 + 1.0; count], ReduceOp::Product).unwrap();
        let expected: f64 = of_all(|rank| rank + 1).map(|value| value as f64).product();
        assert_eq!(product, vec![expected; count]);
        let least = comm.allreduce(&vec![5 - rank as i8; count], ReduceOp::Min).unwrap();
        assert_eq!(least, vec![6 - size as i8; count]);
        let most = comm.allreduce(&vec![u16::MAX - rank as u16; count], ReduceOp::Max).unwrap();
        assert_eq!(most, vec![u16::MAX; count]);
    }
}

#[test]
fn each_fiber_has_a_communicator_of_its_own() {
    ranks("collectives::each_fiber_has_a_communicator_of_its_own", 3, |mpi| {
        let comms: Vec<Comm> = (0..20).map(|_| mpi.world().dup().unwrap()).collect();
        daiko::run(move || {
            let fiber = |comm: Comm| {
                daiko::spawn(move || {
                    all_of(&comm);
                    comm
                })
            };
            let fibers: Vec<_> = comms.into_iter().map(fiber).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap().free().unwrap());
        });
        nothing_is_left(mpi);
    });
}

#[test]
fn a_split_has_the_ranks_of_its_colour() {
    ranks("collectives::a_split_has_the_ranks_of_its_colour", 4, |mpi| {
        let world = mpi.world().clone();
        daiko::run(move || {
            let colour = (world.rank() < 3).then_some(world.rank() as u16 % 2);
            // In the reverse order of the ranks.
            let part = world.split(colour, -(world.rank() as i32)).unwrap();
            let expected = [Some((1, 2)), Some((0, 1)), Some((0, 2)), None][world.rank()];
            let found = part.as_ref().map(|part| (part.rank(), part.size()));
            assert_eq!(found, expected);
            if let Some(part) = part {
                let members = part.allgather(&[world.rank() as u32]).unwrap();
                assert_eq!(members, if world.rank() == 1 { vec![1] } else { vec![2, 0] });
                let clone = part.clone();
                let Err(FreeError::InUse(part)) = part.free() else { panic!("it has a clone") };
                drop(clone);
                part.free().unwrap();
            }
            assert!(matches!(world.clone().free(), Err(FreeError::World)));
        });
        let no_such = MpiError::NoSuchRank { rank: 4, size: 4 };
        assert_eq!(mpi.world().bcast(&mut [0u8], 4), Err(no_such));
        nothing_is_left(mpi);
    });
}
