//! The programs and their classes. Labels and halves were fixed before any tuning.
//!
//! A program *stalls* if it spends most of its time waiting for memory with the units of its core
//! idle: for lines on their way to persistence (flush and fence, non-temporal stores and fence), or
//! for addresses in DRAM that no prefetcher foresees. These are P4's tasks to be paired with
//! computation, by `pmem_memmove_persist` and by `memmove`. A program *computes* if anything else
//! bounds it: the units, caches, or the bandwidth of sequential reads, as P4 has the sum of
//! matrices among its tasks that compute. It is *unknown* if it sleeps or spins on a word: its
//! behaviour after the wait cannot be seen.

mod compute;
mod field;
mod memory;
mod persist;
mod pmem;

use std::hint::spin_loop;
use std::thread::yield_now;

use daiko_pair::Class;

pub(super) use self::field::Reports;
use self::field::{Endless, NEAR, far, require_far};
use self::persist::Flush;
use Class::{Compute, Stall, Unknown};

use crate::kit::pmem::require_libpmem;
use crate::kit::{Choice, Skip, host};

/// A program that runs until it is killed.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Its true class, independent of any classifier.
    pub(super) label: Class,
    /// Whether it looks like a class that it does not belong to.
    pub(super) trap: bool,
    pub(super) run: ProgramRun,
}

/// The way to run a program, in a process of its own.
pub(super) enum ProgramRun {
    /// A program of the lab: it reports when it has prepared, and continues.
    Own {
        needs: fn() -> Result<(), Skip>,
        body: ProgramBody,
        /// The same work with data that caches hold, or without flushes: the experiment that shows
        /// if the program stalls. `None` if its class follows from its construction.
        beside: Option<ProgramBody>,
    },
    /// An installed program, with a file as its standard input.
    Installed { command: &'static [&'static str], input: &'static str },
}

/// Body of a program of the lab.
pub(super) type ProgramBody = fn(&mut Reports<'_>) -> Endless;

/// Role of a program when thresholds were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// Available for tuning.
    Training,
    /// Used for a first verdict. Its mistakes then showed possible improvements, so it is no test
    /// any more.
    Looked,
    /// Used for the verdict only.
    Test,
}

impl Choice for Half {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Training, "training"), (Self::Looked, "looked"), (Self::Test, "test")];
}

impl Half {
    /// Half by a hash of the name: FNV-1a, <http://www.isthe.com/chongo/tech/comp/fnv/>.
    fn of(name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        // Uses an upper bit, as all bytes have influenced those.
        if hash >> 32 & 1 == 0 { Self::Training } else { Self::Test }
    }
}

impl Program {
    /// Requires that this machine can run it.
    ///
    /// # Errors
    /// Returns the missing requirement.
    pub(super) fn require_available(&self) -> Result<(), Skip> {
        match self.run {
            ProgramRun::Own { needs, .. } => needs(),
            ProgramRun::Installed { command, .. } => host::require_program(command[0]),
        }
    }

    pub(super) fn half(&self) -> Half {
        let is_of_the_first = ALL[..FIRST].iter().any(|first| first.name == self.name);
        match Half::of(self.name) {
            Half::Test if is_of_the_first => Half::Looked,
            half => half,
        }
    }
}

fn anywhere() -> Result<(), Skip> {
    Ok(())
}

/// A program of the lab that every processor can run.
const fn own(name: &'static str, label: Class, body: ProgramBody) -> Program {
    needing(name, label, anywhere, body)
}

const fn needing(
    name: &'static str,
    label: Class,
    needs: fn() -> Result<(), Skip>,
    body: ProgramBody,
) -> Program {
    Program { name, label, trap: false, run: ProgramRun::Own { needs, body, beside: None } }
}

/// A program that stalls by its use of flushes, beside the same without them.
const fn persisting(
    name: &'static str,
    label: Class,
    needs: fn() -> Result<(), Skip>,
    [body, without]: [ProgramBody; 2],
) -> Program {
    Program {
        name,
        label,
        trap: false,
        run: ProgramRun::Own { needs, body, beside: Some(without) },
    }
}

/// A program that stalls as its data lies in DRAM, beside the same with data that caches hold.
const fn far_beside_near(name: &'static str, [body, near]: [ProgramBody; 2]) -> Program {
    let run = ProgramRun::Own { needs: require_far, body, beside: Some(near) };
    Program { name, label: Stall, trap: true, run }
}

/// Marks a program that looks like another class.
const fn trap(program: Program) -> Program {
    Program { trap: true, ..program }
}

const fn installed(
    name: &'static str,
    command: &'static [&'static str],
    input: &'static str,
) -> Program {
    Program { name, label: Compute, trap: false, run: ProgramRun::Installed { command, input } }
}

const NOTHING: &str = "/dev/null";
const ZEROS: &str = "/dev/zero";

/// All programs, in the order of tables.
pub(super) const ALL: &[Program] = &[
    persisting(
        "persist-clwb",
        Stall,
        persist::require_clwb,
        [
            |to| persist::records::<true>(to, Flush::Clwb),
            |to| persist::records::<false>(to, Flush::Clwb),
        ],
    ),
    persisting(
        "persist-clflushopt",
        Stall,
        persist::require_clflushopt,
        [
            |to| persist::records::<true>(to, Flush::Clflushopt),
            |to| persist::records::<false>(to, Flush::Clflushopt),
        ],
    ),
    persisting("persist-log", Stall, anywhere, [persist::log::<true>, persist::log::<false>]),
    persisting(
        "persist-nontemporal",
        Stall,
        anywhere,
        [persist::nontemporal_random::<true>, persist::nontemporal_random::<false>],
    ),
    persisting(
        "persist-map",
        Stall,
        persist::require_clwb,
        [persist::map::<true>, persist::map::<false>],
    ),
    persisting(
        "persist-after-work",
        Stall,
        persist::require_clwb,
        [persist::after_work::<true>, persist::after_work::<false>],
    ),
    persisting(
        "libpmem-memmove",
        Stall,
        require_libpmem,
        [pmem::memmove::<true>, pmem::memmove::<false>],
    ),
    persisting(
        "libpmem-counter",
        Stall,
        require_libpmem,
        [pmem::counter::<true>, pmem::counter::<false>],
    ),
    far_beside_near("chase-dram", [|to| memory::chase(far(), to), |to| memory::chase(NEAR, to)]),
    far_beside_near(
        "list-sum-dram",
        [|to| memory::list_sum(far(), to), |to| memory::list_sum(NEAR, to)],
    ),
    far_beside_near(
        "probe-dram",
        [|to| memory::look_up(far(), to), |to| memory::look_up(NEAR, to)],
    ),
    far_beside_near(
        "random-writes-dram",
        [|to| memory::write_records(far(), true, to), |to| memory::write_records(NEAR, true, to)],
    ),
    trap(persisting(
        "writes-beside-flush",
        Compute,
        anywhere,
        [persist::writes_beside_flush::<true>, persist::writes_beside_flush::<false>],
    )),
    trap(persisting(
        "flush-seldom",
        Compute,
        persist::require_clwb,
        [persist::seldom::<true>, persist::seldom::<false>],
    )),
    trap(own("nontemporal-stream", Compute, persist::nontemporal_stream)),
    trap(own("fence-cached", Compute, persist::fence_cached)),
    trap(own("chase-cached", Compute, |to| memory::chase(16 << 10, to))),
    trap(own("sum-stream", Compute, memory::sum_stream)),
    trap(own("matrix-sum", Compute, memory::matrix_sum)),
    trap(own("copy-stream", Compute, memory::copy_stream)),
    trap(own("random-writes-cached", Compute, |to| memory::write_records(32 << 10, true, to))),
    trap(own("probe-cached", Compute, |to| memory::look_up(NEAR, to))),
    trap(own("atomic-counter", Compute, compute::atomic_counter)),
    trap(own("spin-pause", Unknown, |to| compute::spin(to, spin_loop))),
    trap(own("spin-bare", Unknown, |to| compute::spin(to, || {}))),
    own("sleep", Unknown, compute::sleep),
    own("idiv", Compute, compute::idiv),
    own("matrix-product", Compute, compute::matrix_product),
    own("mandelbrot", Compute, compute::mandelbrot),
    own("collatz", Compute, compute::collatz),
    own("sort", Compute, compute::sort),
    own("histogram", Compute, compute::histogram),
    own("crc-table", Compute, compute::crc_table),
    own("mix", Compute, compute::mix),
    installed("gzip", &["gzip", "-9", "-c"], ZEROS),
    installed("bzip2", &["bzip2", "-9", "-c"], ZEROS),
    installed("xz", &["xz", "-6", "-c"], ZEROS),
    installed("sha256sum", &["sha256sum"], ZEROS),
    installed("md5sum", &["md5sum"], ZEROS),
    installed("awk", &["awk", "BEGIN { while (1) x = sin(x + 1) }"], NOTHING),
    installed("perl", &["perl", "-e", "while (1) { $h{$i++ % 1000} += length $i }"], NOTHING),
    installed("openssl", &["openssl", "speed", "-seconds", "600", "rsa2048"], NOTHING),
    // The programs from here on were added later: the test half of the earlier programs had been
    // looked at, and had shown possible improvements.
    persisting(
        "persist-queue",
        Stall,
        persist::require_clwb,
        [persist::queue::<true>, persist::queue::<false>],
    ),
    persisting(
        "persist-bitmap",
        Stall,
        persist::require_clwb,
        [persist::bitmap::<true>, persist::bitmap::<false>],
    ),
    persisting(
        "persist-undo-log",
        Stall,
        persist::require_clwb,
        [persist::undo_log::<true>, persist::undo_log::<false>],
    ),
    persisting(
        "libpmem-memset",
        Stall,
        require_libpmem,
        [pmem::memset::<true>, pmem::memset::<false>],
    ),
    far_beside_near(
        "binary-search-dram",
        [|to| memory::binary_search(far(), to), |to| memory::binary_search(NEAR, to)],
    ),
    far_beside_near(
        "hash-chains-dram",
        [|to| memory::hash_chains(far(), to), |to| memory::hash_chains(NEAR, to)],
    ),
    far_beside_near(
        "scatter-dram",
        [|to| memory::scatter(far(), to), |to| memory::scatter(NEAR, to)],
    ),
    trap(own("fenced-stream", Compute, persist::fenced_stream)),
    trap(persisting(
        "snapshots",
        Compute,
        anywhere,
        [persist::snapshots::<true>, persist::snapshots::<false>],
    )),
    trap(own("matrix-vector", Compute, memory::matrix_vector)),
    trap(own("compare-stream", Compute, memory::compare_stream)),
    trap(own("spin-yield", Unknown, |to| compute::spin(to, yield_now))),
    own("sieve", Compute, compute::sieve),
    own("bodies", Compute, compute::bodies),
    own("edit-distance", Compute, compute::edit_distance),
    installed("cksum", &["cksum"], ZEROS),
    installed("base64", &["base64"], ZEROS),
    installed("sha512sum", &["sha512sum"], ZEROS),
    installed("zstd", &["zstd", "-9", "-c"], ZEROS),
    installed("od", &["od", "-v"], ZEROS),
    // These programs were added last, and were looked at: they show the class that
    // random-writes-dram is mistaken for, and serve tests.
    far_beside_near(
        "same-writes-dram",
        [|to| memory::write_records(far(), false, to), |to| memory::write_records(NEAR, false, to)],
    ),
    needing("persist-assembly", Stall, persist::require_clwb, persist::assembly),
];

/// Number of programs in [`ALL`] when the test half was first looked at.
const FIRST: usize = 42;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_enough_programs_and_traps_in_both_halves() {
        let of = |half| ALL.iter().filter(move |program| program.half() == half);
        assert!(ALL.len() >= 24);
        for half in [Half::Training, Half::Looked, Half::Test] {
            assert!(of(half).count() >= 12, "{half:?}");
            assert!(of(half).filter(|program| program.trap).count() >= 3, "{half:?}");
            for class in [Stall, Compute] {
                assert!(of(half).any(|program| program.label == class), "{half:?} {class:?}");
            }
        }
        assert!(ALL.iter().filter(|program| program.trap).count() >= 6);
    }

    #[test]
    fn a_name_belongs_to_one_program_and_its_half_is_fixed() {
        let mut names: Vec<_> = ALL.iter().map(|program| program.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        // FNV-1a of "foobar" is 0x85944171f73967e8.
        assert_eq!(Half::of("foobar"), Half::Test);
        assert_eq!(ALL[FIRST - 1].name, "openssl");
    }
}
