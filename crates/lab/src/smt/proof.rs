//! Whether CPUs that are said to be siblings are: a virtual machine may say so of any.

use std::time::Duration;

use super::{issue, setting::Cores};
use crate::{Failure, limits};

/// What two siblings do at most together of a loop that takes all of a core, in what one does alone.
const SIBLINGS_MOST: f64 = 1.5;
/// What two cores do at least.
const CORES_LEAST: f64 = 1.7;
/// How long a line takes between siblings at most, of the time that it takes between cores.
const LINE_MOST: f64 = 0.6;

/// About a millisecond.
const ROUNDS: u64 = 1 << 20;
const LAPS: u64 = 5_000;
/// Others may disturb all but one of so many.
const TRIES: usize = 5;

/// What was found; a disturbance makes pairs do less, and lines take longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Evidence {
    /// What the siblings of each core do together, in what one does alone.
    pub(super) siblings: [f64; 2],
    /// What two cores do.
    pub(super) cores: f64,
    /// A line's way there and back, in nanoseconds: between the siblings of each core.
    pub(super) near: [f64; 2],
    /// And between the cores.
    pub(super) far: f64,
}

/// Looks at what the hardware does.
pub(super) fn look(cores: &Cores) -> Result<Evidence, Failure> {
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
    let mut most = 0.0f64;
    for _ in 0..TRIES {
        let alone = issue::slowest(&cpus[..1], ROUNDS)?.as_secs_f64();
        let together = issue::together(cpus, ROUNDS)?;
        most = most.max(together.iter().map(|time| alone / time.as_secs_f64()).sum());
    }
    Ok(most)
}

fn line([here, there]: [usize; 2]) -> Result<f64, Failure> {
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        least = least.min(limits::transfer::between::<false>(here, there, LAPS)?.elapsed);
    }
    Ok(least.as_nanos() as f64 / LAPS as f64)
}

impl Evidence {
    /// Whether that is what two cores of two siblings each do.
    pub(super) fn judge(&self, cores: &Cores) -> Result<(), Failure> {
        let [one, two] = cores.0;
        for (threads, (sum, near)) in
            [one, two].into_iter().zip(self.siblings.into_iter().zip(self.near))
        {
            if sum > SIBLINGS_MOST {
                return Err(not_siblings(
                    threads,
                    &format!(
                        "do {sum:.2} times together what one does alone, siblings at most {SIBLINGS_MOST}"
                    ),
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
                "CPUs {here} and {there} are said to be of two cores, but do {:.2} times together what one does alone, two \
                 cores at least {CORES_LEAST}: measure where nothing else runs",
                self.cores
            )));
        }
        Ok(())
    }
}

fn not_siblings([one, other]: [usize; 2], found: &str) -> Failure {
    Failure::Unavailable(format!(
        "CPUs {one} and {other} are said to be siblings, but {found}: measure on the host, or have the virtual machine's CPUs \
         pinned to siblings"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;

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
    fn cores_that_do_the_work_of_one_are_none() {
        let told = refused(Evidence { cores: 1.1, ..SMT });
        assert!(told.starts_with("CPUs 0 and 1 are said to be of two cores"), "{told}");
    }

    #[test]
    fn evidence_is_found_on_whatever_cpus_there_are() {
        let cpus = host::cpu_list();
        let &[one, other, ..] = cpus.as_slice() else {
            println!("skipped: evidence_is_found_on_whatever_cpus_there_are: needs 2 CPUs");
            return;
        };
        let found = look(&Cores([[one, other], [other, one]])).expect("evidence");
        for value in found.siblings.into_iter().chain(found.near).chain([found.cores, found.far]) {
            assert!(value > 0.0 && value.is_finite(), "{found:?}");
        }
    }
}
