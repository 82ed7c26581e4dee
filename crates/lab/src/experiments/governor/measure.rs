//! One sample: the waker keeps its schedule and reads the clocks around it.

use std::time::Duration;
use std::{io, thread};

use daiko_sys::clock::{monotonic_ns, process_cpu_ns, thread_cpu_ns};
use daiko_sys::thread::set_timer_slack_ns;

use super::clients::Waiter;
use super::schedule::Schedule;
use super::wakes::Wakes;
use crate::kit::pthread::sleep_until;
use crate::kit::{Failure, OrFailure, Reading, Sample, Unit, host};

/// First wakes, which do not count: they bring code and memory into the caches.
const WARM_UP: usize = 8;
/// Gap between these wakes, long enough for an agent to park.
const WARM_UP_GAP: Duration = Duration::from_millis(1);
/// One more wake ends the waiter, after the clocks were read. At rate 0 it proves that a waiter was
/// there to be woken.
const CLOSING: usize = 1;
/// Interval between checks for the last wake's arrival.
const LOOK: Duration = Duration::from_micros(20);
/// Largest time that one check counts for: while the machine is stalled, no waiter could have run.
const MOST_WORTH: Duration = Duration::from_millis(10);

/// Limits beyond which there is no sample.
#[derive(Clone, Copy)]
pub(super) struct WakeLimits {
    /// A wake that is not seen for this long is a fault.
    pub(super) lost: Duration,
    /// Largest delay of the waker, beyond half of its time.
    pub(super) late: Duration,
}

/// Takes a sample: wakes `waiter` by `schedule`.
pub(super) fn sample(
    waiter: Waiter,
    schedule: Schedule,
    patience: WakeLimits,
) -> Result<Sample, Failure> {
    let lead = schedule.lead();
    let wakes = Wakes::new(WARM_UP + lead.wakes() + schedule.wakes() + CLOSING);
    waiter.woken_by(wakes, |wakes, wake| {
        let waker = Waker { wakes, wake, schedule, patience };
        // The waker has a thread of its own, as its CPU time is subtracted and it may be bound to a
        // CPU.
        thread::scope(|scope| scope.spawn(|| waker.run()).join().expect("the waker does not panic"))
    })
}

/// Clock readings at one moment, in nanoseconds.
#[derive(Clone, Copy)]
struct ClockMark {
    time: u64,
    process_cpu: u64,
    own_cpu: u64,
}

impl ClockMark {
    fn now() -> Self {
        Self { process_cpu: process_cpu_ns(), own_cpu: thread_cpu_ns(), time: monotonic_ns() }
    }

    /// CPU time since `start` of all threads except the calling one, in per cent of one CPU.
    fn other_threads_percent_since(&self, start: &ClockMark) -> f64 {
        let process = self.process_cpu - start.process_cpu;
        let own = self.own_cpu - start.own_cpu;
        process.saturating_sub(own) as f64 * 100.0 / (self.time - start.time) as f64
    }
}

struct Waker<'a> {
    wakes: &'a Wakes,
    wake: &'a (dyn Fn() + Sync),
    schedule: Schedule,
    patience: WakeLimits,
}

impl Waker<'_> {
    fn run(&self) -> Result<Sample, Failure> {
        settle_down().or_broken("the waker's thread")?;
        for _ in 0..WARM_UP {
            thread::sleep(WARM_UP_GAP);
            self.send();
            self.wait_seen()?;
        }
        let lead = self.schedule.lead();
        self.keep(lead, monotonic_ns())?;
        let start = ClockMark::now();
        self.keep(self.schedule, start.time)?;
        let end = ClockMark::now();
        self.send();
        self.wait_seen()?;
        let elapsed = Duration::from_nanos(end.time - start.time);
        self.refuse_if_behind(elapsed)?;
        let first = WARM_UP + lead.wakes();
        let counted = first..first + self.schedule.wakes();
        let latencies = self.wakes.latencies(counted, self.patience.lost)?;
        let cpu = Reading::new(Unit::CpuPercent, end.other_threads_percent_since(&start));
        let readings = [cpu].into_iter().chain(stats(&latencies)).collect();
        Ok(Sample { rounds: self.schedule.round_count(), elapsed, readings })
    }

    fn send(&self) {
        self.wakes.send(self.wake);
    }

    fn keep(&self, schedule: Schedule, start: u64) -> Result<(), Failure> {
        for index in 0..schedule.wakes() {
            self.wait_until(start + schedule.due_ns(index));
            if schedule.is_checked() {
                self.wait_seen()?;
            }
            self.send();
        }
        self.wait_until(start + schedule.length_ns());
        self.wait_seen()
    }

    fn wait_until(&self, due: u64) {
        if self.schedule.is_spun() {
            while monotonic_ns() < due {
                std::hint::spin_loop();
            }
        } else {
            sleep_until(due);
        }
    }

    /// Waits until the waiter has seen all wakes that were sent.
    fn wait_seen(&self) -> Result<(), Failure> {
        let (sent, mut last, mut waited) = (self.wakes.sent(), monotonic_ns(), Duration::ZERO);
        loop {
            let seen = self.wakes.seen();
            if seen == sent {
                return Ok(());
            }
            if waited > self.patience.lost {
                return Err(Failure::Broken(format!(
                    "{} of {sent} wakes (warm-up included) lost: not seen within {} ms",
                    sent - seen,
                    self.patience.lost.as_millis()
                )));
            }
            thread::sleep(LOOK);
            let now = monotonic_ns();
            waited += Duration::from_nanos(now - last).min(MOST_WORTH);
            last = now;
        }
    }

    /// Fails if the waker took far longer than planned: the point would then show a rate that it
    /// did not have.
    fn refuse_if_behind(&self, elapsed: Duration) -> Result<(), Failure> {
        let planned = Duration::from_nanos(self.schedule.length_ns());
        if elapsed > 2 * planned + self.patience.late {
            return Err(Failure::Limit(format!(
                "the waker fell behind: {} ms for a schedule of {} ms; give it a CPU",
                elapsed.as_millis(),
                planned.as_millis()
            )));
        }
        Ok(())
    }
}

/// Binds the calling thread to the last CPU, and makes its sleeps exact.
fn settle_down() -> io::Result<()> {
    host::cpu_list().last().map_or(Ok(()), |&cpu| host::bind(cpu))?;
    set_timer_slack_ns(1)
}

/// Median, 99th percentile and maximum of ascending latencies, if there are any.
fn stats(latencies: &[u64]) -> Vec<Reading> {
    let stat = |(name, percent)| {
        let value = percentile(latencies, percent)? as f64;
        Some(Reading::stat(Unit::Nanoseconds, name, value))
    };
    [("p50", 50), ("p99", 99), ("max", 100)].into_iter().filter_map(stat).collect()
}

/// The smallest value that `percent` per cent of all values do not exceed.
fn percentile(ascending: &[u64], percent: usize) -> Option<u64> {
    let rank = (ascending.len() * percent).div_ceil(100);
    ascending.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let hundred: Vec<u64> = (1..=100).collect();
        let percentiles = |values: &[u64]| [50, 99, 100].map(|p| percentile(values, p));
        assert_eq!(percentiles(&hundred), [Some(50), Some(99), Some(100)]);
        assert_eq!(percentiles(&[7]), [Some(7); 3]);
        assert_eq!(percentiles(&[1, 2, 3, 4]), [Some(2), Some(4), Some(4)]);
        assert_eq!(percentiles(&[]), [None; 3]);
    }

    #[test]
    fn the_wakers_own_cpu_time_is_left_out() {
        let start = ClockMark { time: 1000, process_cpu: 500, own_cpu: 100 };
        let end = ClockMark { time: 3000, process_cpu: 2500, own_cpu: 1600 };
        assert_eq!(end.other_threads_percent_since(&start), 25.0);
    }

    #[test]
    fn a_waiter_that_sleeps_on_is_a_fault_in_bounded_time() {
        let wakes = Wakes::new(WARM_UP + 1);
        let patience = WakeLimits { lost: Duration::from_millis(2), late: Duration::ZERO };
        let schedule = Schedule::new(1000, 1);
        let waker = Waker { wakes: &wakes, wake: &|| (), schedule, patience };
        let failure = waker.run().unwrap_err().to_string();
        assert!(failure.starts_with("1 of 1 wakes (warm-up included) lost"), "{failure}");
    }

    #[test]
    fn a_waker_that_cannot_keep_its_rate_says_so() {
        let wakes = Wakes::new(0);
        let patience = WakeLimits { lost: Duration::ZERO, late: Duration::from_millis(250) };
        let schedule = Schedule::new(1000, 1000);
        let waker = Waker { wakes: &wakes, wake: &|| (), schedule, patience };
        assert_eq!(waker.refuse_if_behind(Duration::from_millis(2250)), Ok(()));
        let failure = waker.refuse_if_behind(Duration::from_millis(2251)).unwrap_err();
        assert!(matches!(failure, Failure::Limit(_)), "{failure}");
    }
}
