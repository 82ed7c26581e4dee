//! Proof that CPUs are siblings as claimed: a virtual machine may claim it of any CPUs.

use std::time::Duration;

use super::issue;
use crate::kit::p4::setting::Cores;
use crate::kit::{Failure, transfer};

/// Largest throughput of two siblings together, in a loop that uses a whole core, relative to one
/// alone.
const SIBLINGS_MOST: f64 = 1.5;
/// Smallest throughput of two cores.
const CORES_LEAST: f64 = 1.7;
/// Largest round trip of a cache line between siblings, relative to that between cores.
const LINE_MOST: f64 = 0.6;

/// Additions of one measurement: about a millisecond.
const ROUNDS: u64 = 1 << 20;
const LAPS: u64 = 5_000;
/// Number of tries. Other work may disturb all except one of them.
const TRIES: usize = 5;

/// Measurements. A disturbance lowers the throughput of pairs and lengthens the round trip of
/// lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    /// Throughput of the siblings of each core together, relative to one alone.
    pub(super) siblings: [f64; 2],
    /// Throughput of two cores.
    pub(super) cores: f64,
    /// Round trip of a cache line in nanoseconds, between the siblings of each core.
    pub(super) near: [f64; 2],
    /// The same between the cores.
    pub(super) far: f64,
}

/// Proves that these are two cores of two siblings each. A first refutation is repeated before it
/// is reported.
pub(super) fn prove(cores: &Cores) -> Result<(), Failure> {
    judge_twice(cores, || look(cores))
}

fn judge_twice(
    cores: &Cores,
    mut look: impl FnMut() -> Result<Evidence, Failure>,
) -> Result<(), Failure> {
    look()?.judge(cores).or_else(|_| look()?.judge(cores))
}

/// Measures the hardware.
fn look(cores: &Cores) -> Result<Evidence, Failure> {
    let [one, two] = cores.0;
    let across = [one[0], two[0]];
    Ok(Evidence {
        siblings: [done_together(one)?, done_together(two)?],
        cores: done_together(across)?,
        near: [line(one)?, line(two)?],
        far: line(across)?,
    })
}

fn done_together(cpus: [usize; 2]) -> Result<f64, Failure> {
    let times = |_| Ok([issue::slowest(&cpus[..1], ROUNDS)?, issue::together(cpus, ROUNDS)?]);
    Ok(done(&(0..TRIES).map(times).collect::<Result<Vec<_>, Failure>>()?))
}

/// Throughput of two CPUs together relative to one alone, from tries that took `[alone, together]`.
/// It uses the best time of each: with a disturbed time alone, or before the clock frequency was
/// up, siblings would look like two cores.
fn done(tries: &[[Duration; 2]]) -> f64 {
    let [alone, together] = [0, 1].map(|side| tries.iter().map(|one| one[side]).min());
    2.0 * alone.unwrap_or_default().as_secs_f64() / together.unwrap_or_default().as_secs_f64()
}

fn line([here, there]: [usize; 2]) -> Result<f64, Failure> {
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        least = least.min(transfer::between::<false>(here, there, LAPS)?.elapsed);
    }
    Ok(least.as_nanos() as f64 / LAPS as f64)
}

impl Evidence {
    /// Fails unless the measurements fit two cores of two siblings each.
    pub(super) fn judge(&self, cores: &Cores) -> Result<(), Failure> {
        let [one, two] = cores.0;
        for (threads, (sum, near)) in
            [one, two].into_iter().zip(self.siblings.into_iter().zip(self.near))
        {
            if sum > SIBLINGS_MOST {
                return Err(not_siblings(
                    threads,
                    &format!("do {sum:.2} times the work of one, siblings at most {SIBLINGS_MOST}"),
                ));
            }
            if near > self.far * LINE_MOST {
                return Err(not_siblings(
                    threads,
                    &format!(
                        "take {near:.0} ns for a line there and back, which takes {:.0} ns between cores",
                        self.far
                    ),
                ));
            }
        }
        if self.cores < CORES_LEAST {
            let ([here, _], [there, _]) = (one, two);
            return Err(Failure::Unavailable(format!(
                "CPUs {here} and {there} are said to be of two cores, but do {:.2} times the work \
                 of one, two cores at least {CORES_LEAST}: measure where nothing else runs",
                self.cores
            )));
        }
        Ok(())
    }
}

fn not_siblings([one, other]: [usize; 2], found: &str) -> Failure {
    Failure::Unavailable(format!(
        "CPUs {one} and {other} are said to be siblings, but {found}: measure on the host, or pin \
         the virtual machine's CPUs to siblings"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::host;

    const CORES: Cores = Cores([[0, 2], [1, 3]]);

    const SMT: Evidence =
        Evidence { siblings: [1.02, 1.1], cores: 1.99, near: [30.0, 32.0], far: 140.0 };

    fn refused(evidence: Evidence) -> String {
        evidence.judge(&CORES).unwrap_err().to_string()
    }

    #[test]
    fn siblings_share_a_core_and_its_cache() {
        assert_eq!(SMT.judge(&CORES), Ok(()));
    }

    #[test]
    fn cpus_that_do_the_work_of_two_cores_are_no_siblings() {
        let told = refused(Evidence { siblings: [1.0, 1.97], ..SMT });
        assert!(told.starts_with("CPUs 1 and 3 are said to be siblings, but do 1.97"), "{told}");
    }

    #[test]
    fn cpus_between_which_a_line_goes_as_between_cores_are_no_siblings() {
        let told = refused(Evidence { near: [135.0, 30.0], ..SMT });
        assert!(told.contains("CPUs 0 and 2") && told.contains("135 ns"), "{told}");
    }

    #[test]
    fn cores_with_the_work_of_one_core_are_refused() {
        let told = refused(Evidence { cores: 1.1, ..SMT });
        assert!(told.starts_with("CPUs 0 and 1 are said to be of two cores"), "{told}");
    }

    /// Siblings that together take 2 ms for work that takes 1 ms alone.
    #[test]
    fn a_time_alone_that_is_disturbed_makes_no_cores_of_siblings() {
        let tries = |tries: &[[u64; 2]]| {
            let times: Vec<_> = tries.iter().map(|one| one.map(Duration::from_micros)).collect();
            done(&times)
        };
        assert_eq!(tries(&[[1600, 2000], [1000, 2600], [1000, 2000]]), 1.0);
        assert_eq!(tries(&[[1600, 2000], [1000, 3200]]), 1.0);
        assert_eq!(tries(&[[1000, 1000], [3000, 1500]]), 2.0);
    }

    #[test]
    fn no_pair_is_refused_before_a_second_proof() {
        let wrong = Evidence { cores: 1.1, ..SMT };
        for (found, looks, is_proved) in
            [([SMT, wrong], 1, true), ([wrong, SMT], 2, true), ([wrong, wrong], 2, false)]
        {
            let mut next = found.into_iter();
            let result = judge_twice(&CORES, || Ok(next.next().expect("two looks at most")));
            assert_eq!((result.is_ok(), 2 - next.count()), (is_proved, looks), "{found:?}");
        }
    }

    #[test]
    fn evidence_is_found_on_the_cpus_of_this_machine() {
        let cpus = host::cpu_list();
        let &[one, other, ..] = cpus.as_slice() else {
            println!("skipped: evidence_is_found_on_the_cpus_of_this_machine: needs 2 CPUs");
            return;
        };
        let found = look(&Cores([[one, other], [other, one]])).expect("evidence");
        for value in found.siblings.into_iter().chain(found.near).chain([found.cores, found.far]) {
            assert!(value > 0.0 && value.is_finite(), "{found:?}");
        }
    }
}
