//! Hardware counters as evidence: bounds of the share of a thread's cycles in which it waits.
//!
//! None of this has been tried on hardware: the development machines show no counters. It is tested
//! with constructed counts (`constructed.txt`) and with a replaced `perf_event_open`.

mod tables;

pub use tables::CounterTable;

use daiko_sys::counter_group::{CounterGroup, GroupReading};
use daiko_sys::counters::{CounterError, HardwareEvent};

use crate::Class;

/// Least share of waiting time of a stalling thread.
pub(super) const STALLS: f64 = 0.5;
/// Confidence at that share, which grows linearly to the bound of the table.
const LEAST_SURE: f64 = 0.5;
/// Distance from that share at which the bound is reached.
const FAR_OFF: f64 = 0.2;

/// Bounds of the share of a thread's cycles in which it waits for far memory or persistence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitBounds {
    /// Waits that are counted as such.
    pub at_least: f64,
    /// All cycles that may be waits.
    pub at_most: f64,
    /// True if waits for flushes and fences are within the bounds. Otherwise counters alone exclude
    /// no stall.
    pub sees_flushes: bool,
    /// Upper bound of confidence.
    pub surest: f64,
}

impl WaitBounds {
    /// The class and its confidence. `no_flushes` means that another source has seen that the
    /// thread does not wait for flushes.
    ///
    /// # Errors
    ///
    /// The reason why there is no class.
    pub fn class(&self, no_flushes: bool) -> Result<(Class, f64), String> {
        let sure = |distance: f64| {
            LEAST_SURE + (self.surest - LEAST_SURE) * (distance / FAR_OFF).clamp(0.0, 1.0)
        };
        match (self.at_least >= STALLS, self.at_most < STALLS) {
            (true, _) => Ok((Class::Stall, sure(self.at_least - STALLS))),
            (_, true) if self.sees_flushes || no_flushes => {
                Ok((Class::Compute, sure(STALLS - self.at_most)))
            }
            (_, true) => Err(format!("{self}, but they do not show waits for flushes")),
            _ => Err(format!("{self}, which is both sides of one half")),
        }
    }
}

impl std::fmt::Display for WaitBounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = |share: f64| (share * 100.0).round();
        let (least, most) = (percent(self.at_least), percent(self.at_most));
        write!(f, "counters: waits in {least}% to {most}% of its cycles")
    }
}

/// Opens a group of events of a thread.
pub(super) type OpenGroup = fn(&[HardwareEvent], u32) -> Result<CounterGroup, CounterError>;

/// The running counters of a thread.
#[derive(Debug)]
pub(super) struct Counting {
    table: &'static CounterTable,
    group: CounterGroup,
    before: GroupReading,
}

impl Counting {
    /// Counts the events of a table from now on.
    pub(super) fn start(
        open: OpenGroup,
        table: &'static CounterTable,
        thread: u32,
    ) -> Result<Self, String> {
        let group = open(table.events(), thread).map_err(|error| error.to_string())?;
        let before = group.read().map_err(|error| format!("they cannot be read: {error}"))?;
        Ok(Self { table, group, before })
    }

    /// Bounds of the waiting time since the start.
    pub(super) fn finish(&self) -> Result<WaitBounds, String> {
        let now = self.group.read().map_err(|error| format!("they cannot be read: {error}"))?;
        let counted = now.since(&self.before).ok_or("their counts went backwards")?;
        self.table.bounds(&counted)
    }
}

#[cfg(test)]
mod tests;
