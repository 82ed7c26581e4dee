//! Events of processor families, and the rules that turn their counts into bounds of waiting time.
//!
//! The codes are those of Linux, `tools/perf/pmu-events/arch/x86`: each table names its folder
//! there, and a comment the file of each event. `mapfile.csv` there assigns models to folders.
//!
//! A rule gives no estimate but two bounds of the share of cycles in which the thread waits for far
//! memory or persistence: waits that are counted as such are the lower bound; all cycles in which
//! the thread does nothing, for any reason, the upper one. None has been tried on hardware.

use daiko_sys::counter_group::GroupReading;
use daiko_sys::counters::{HardwareEvent, Miss};
use daiko_sys::processor::{Processor, Vendor};

use super::WaitBounds;

/// Least number of cycles for a verdict: those of 20 samples, at 2 GHz.
const LEAST_CYCLES: u64 = 4_000_000;
/// Largest number of cycles with an event, as a share of all. The members of a group start and stop
/// one after the other.
const MOST_OF_ALL: f64 = 1.05;
/// Upper bounds of confidence: the rules have not been tried on hardware, and that of misses rests
/// on latencies that differ between machines.
const SUREST_STALLS: f64 = 0.9;
const SUREST_MISSES: f64 = 0.8;
/// Cycles of a load from a core's own second cache, and from the third cache of its cores: about
/// twice the usual latencies, so that more than the true waits for caches is taken off.
const SECOND_CACHE: f64 = 30.0;
const THIRD_CACHE: f64 = 100.0;
/// Cycles of a load that misses all caches, from near DRAM (80 ns at 2.5 GHz) to persistent memory
/// (300 ns at 3.3 GHz; Izraelevitz et al., "Basic performance measurements of the Intel Optane DC
/// persistent memory module", 2019).
const NEAREST_MEMORY: f64 = 200.0;
const FARTHEST_MEMORY: f64 = 1000.0;

/// The events by which threads are classified on some processors.
#[derive(Debug)]
pub struct CounterTable {
    /// The processors.
    pub processors: &'static str,
    /// The folder of perf's event tables with the codes; `generic` for events that the kernel
    /// encodes itself.
    pub folder: &'static str,
    /// The first event is cycles.
    events: &'static [HardwareEvent],
    rule: Rule,
}

/// The meaning of a table's counts, in their order.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Cycles without execution, those of them with a load that misses all caches, and cycles with
    /// a full store buffer.
    NoExecution,
    /// Cycles without retirement, those of them with a load as the oldest operation, and loads from
    /// the second and third cache.
    NoRetirement,
    /// Instructions, and loads that miss all caches.
    Misses,
}

const fn intel(code: u8, mask: u8, counter_mask: u8) -> HardwareEvent {
    HardwareEvent::intel(code, mask, counter_mask)
}

const fn amd(code: u16, mask: u8) -> HardwareEvent {
    HardwareEvent::amd(code, mask)
}

/// pipeline.json, memory.json: `CYCLE_ACTIVITY.STALLS_TOTAL`, `CYCLE_ACTIVITY.STALLS_L3_MISS`,
/// `EXE_ACTIVITY.BOUND_ON_STORES`.
static SKYLAKE_X: CounterTable = CounterTable {
    processors: "Intel Skylake-SP, Cascade Lake",
    folder: "skylakex",
    events: &[
        HardwareEvent::CYCLES,
        intel(0xa3, 0x04, 4),
        intel(0xa3, 0x06, 6),
        intel(0xa6, 0x40, 0),
    ],
    rule: Rule::NoExecution,
};

/// pipeline.json, memory.json: the same events; the store buffer with a counter mask.
static ICE_LAKE_X: CounterTable = CounterTable {
    processors: "Intel Ice Lake-SP",
    folder: "icelakex",
    events: &[
        HardwareEvent::CYCLES,
        intel(0xa3, 0x04, 4),
        intel(0xa3, 0x06, 6),
        intel(0xa6, 0x40, 2),
    ],
    rule: Rule::NoExecution,
};

/// pipeline.json, memory.json: `CYCLE_ACTIVITY.STALLS_TOTAL`, `MEMORY_ACTIVITY.STALLS_L3_MISS`,
/// `EXE_ACTIVITY.BOUND_ON_STORES`.
static SAPPHIRE_RAPIDS: CounterTable = CounterTable {
    processors: "Intel Sapphire Rapids, Emerald Rapids",
    folder: "sapphirerapids",
    events: &[
        HardwareEvent::CYCLES,
        intel(0xa3, 0x04, 4),
        intel(0x47, 0x09, 9),
        intel(0xa6, 0x40, 2),
    ],
    rule: Rule::NoExecution,
};

/// pipeline.json, memory.json: the same events as on Sapphire Rapids.
static GRANITE_RAPIDS: CounterTable = CounterTable {
    processors: "Intel Granite Rapids",
    folder: "graniterapids",
    events: SAPPHIRE_RAPIDS.events,
    rule: Rule::NoExecution,
};

/// core.json: `ex_no_retire.empty`, `.not_complete` and `.other` in one mask, without
/// `.thread_not_selected`, as the sibling's turns are no waits; `ex_no_retire.load_not_complete`.
/// cache.json: `ls_dmnd_fills_from_sys.local_l2`, `.local_ccx`.
static ZEN_4: CounterTable = CounterTable {
    processors: "AMD Zen 4",
    folder: "amdzen4",
    events: &[
        HardwareEvent::CYCLES,
        amd(0xd6, 0x0b),
        amd(0xd6, 0xa2),
        amd(0x43, 0x01),
        amd(0x43, 0x02),
    ],
    rule: Rule::NoRetirement,
};

/// execution.json, load-store.json: the same events as on Zen 4.
static ZEN_5: CounterTable = CounterTable {
    processors: "AMD Zen 5",
    folder: "amdzen5",
    events: ZEN_4.events,
    rule: Rule::NoRetirement,
};

/// memory.json: `ls_dmnd_fills_from_sys.mem_io_local` and `.mem_io_remote` in one mask. No event of
/// perf's table counts cycles that wait for loads.
static ZEN_3: CounterTable = CounterTable {
    processors: "AMD Zen 3",
    folder: "amdzen3",
    events: &[HardwareEvent::CYCLES, HardwareEvent::INSTRUCTIONS, amd(0x43, 0x48)],
    rule: Rule::Misses,
};

/// memory.json: `ls_refills_from_sys.ls_mabresp_lcl_dram` and `.ls_mabresp_rmt_dram` in one mask.
static ZEN_2: CounterTable = CounterTable {
    processors: "AMD Zen 2",
    folder: "amdzen2",
    events: ZEN_3.events,
    rule: Rule::Misses,
};

/// Events that the kernel encodes for each processor that has them.
static GENERIC: CounterTable = CounterTable {
    processors: "processors without a table of their own",
    folder: "generic",
    events: &[
        HardwareEvent::CYCLES,
        HardwareEvent::INSTRUCTIONS,
        HardwareEvent::miss(Miss::LastCacheLoad),
    ],
    rule: Rule::Misses,
};

impl CounterTable {
    /// The table for a processor.
    ///
    /// # Errors
    ///
    /// The reason why there is none.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_pair::class::CounterTable;
    /// use daiko_sys::processor::{Processor, Vendor};
    ///
    /// let genoa =
    ///     Processor { vendor: Vendor::Amd, family: 25, model: 0x11, is_hybrid: false };
    /// assert_eq!(CounterTable::of(genoa).unwrap().folder, "amdzen4");
    /// ```
    pub fn of(processor: Processor) -> Result<&'static Self, &'static str> {
        let Processor { vendor, family, model, is_hybrid } = processor;
        if is_hybrid {
            return Err("it has two kinds of cores, whose counts cannot be added");
        }
        Ok(match (vendor, family, model) {
            (Vendor::Intel, 6, 0x55) => &SKYLAKE_X,
            (Vendor::Intel, 6, 0x6a | 0x6c) => &ICE_LAKE_X,
            (Vendor::Intel, 6, 0x8f | 0xcf) => &SAPPHIRE_RAPIDS,
            (Vendor::Intel, 6, 0xad | 0xae) => &GRANITE_RAPIDS,
            (Vendor::Amd, 23, 0x30..) => &ZEN_2,
            (Vendor::Amd, 25, ..0x10 | 0x20..0x30 | 0x40..0x60) => &ZEN_3,
            (Vendor::Amd, 25, _) => &ZEN_4,
            // Later models are Zen 6.
            (Vendor::Amd, 26, ..0x50 | 0x60..0x80) => &ZEN_5,
            _ => &GENERIC,
        })
    }

    /// The events in the order of their counts.
    pub fn events(&self) -> &'static [HardwareEvent] {
        self.events
    }

    /// Bounds of a thread's waiting time by the difference of two readings of the events.
    ///
    /// # Errors
    ///
    /// The reason why they tell nothing.
    pub fn bounds(&self, reading: &GroupReading) -> Result<WaitBounds, String> {
        let GroupReading { wanted_ns, counted_ns, ref counts } = *reading;
        let cycles = *counts.first().ok_or("no event was counted")?;
        match (wanted_ns, counted_ns, cycles) {
            (0, ..) => return Err("it sleeps, or is in the kernel".into()),
            (_, 0, _) => return Err("other programs use all counters".into()),
            (.., ..LEAST_CYCLES) => {
                return Err(format!(
                    "{cycles} cycles in user space, of {LEAST_CYCLES} that are needed: it sleeps, \
                     or is in the kernel"
                ));
            }
            _ => {}
        }
        let counts: Vec<f64> = counts.iter().map(|count| *count as f64 / cycles as f64).collect();
        let (at_least, at_most) = self.rule.bounds(&counts).ok_or_else(|| {
            format!("the counts contradict each other, in parts of all cycles: {counts:.2?}")
        })?;
        let at_least = at_least.clamp(0.0, 1.0);
        Ok(WaitBounds {
            at_least,
            at_most: at_most.clamp(at_least, 1.0),
            sees_flushes: self.rule.sees_flushes(),
            surest: self.rule.surest(),
        })
    }
}

impl Rule {
    /// The least and the largest share of cycles in which the thread waits, from counts divided by
    /// the number of cycles. `None` if there are too few or too many counts, or more cycles with an
    /// event than cycles.
    fn bounds(self, counts: &[f64]) -> Option<(f64, f64)> {
        let are_possible = |cycles: &[f64]| cycles.iter().all(|share| *share <= MOST_OF_ALL);
        match (self, counts) {
            // A full store buffer is no wait by itself: sequential stores fill it as well.
            (Self::NoExecution, &[_, idle, far, stores]) => {
                let is_possible = are_possible(&[idle, far, stores]) && far <= idle * MOST_OF_ALL;
                is_possible.then_some((far, idle + stores))
            }
            (Self::NoRetirement, &[_, idle, loads, second, third]) => {
                let is_possible = are_possible(&[idle, loads]) && loads <= idle * MOST_OF_ALL;
                let caches = second * SECOND_CACHE + third * THIRD_CACHE;
                is_possible.then_some((loads - caches, idle))
            }
            // No instruction completes in at least one minus IPC of the cycles.
            (Self::Misses, &[_, instructions, misses]) => {
                let idle = 1.0 - instructions;
                Some((idle.min(misses * NEAREST_MEMORY), misses * FARTHEST_MEMORY))
            }
            _ => None,
        }
    }

    /// Returns true if waits for flushes and fences are part of the upper bound, as all cycles
    /// without work are. Loads that miss do not show them.
    fn sees_flushes(self) -> bool {
        !matches!(self, Self::Misses)
    }

    fn surest(self) -> f64 {
        match self {
            Self::NoExecution | Self::NoRetirement => SUREST_STALLS,
            Self::Misses => SUREST_MISSES,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn all() -> [&'static CounterTable; 9] {
        [
            &SKYLAKE_X,
            &ICE_LAKE_X,
            &SAPPHIRE_RAPIDS,
            &GRANITE_RAPIDS,
            &ZEN_2,
            &ZEN_3,
            &ZEN_4,
            &ZEN_5,
            &GENERIC,
        ]
    }

    pub(crate) fn by_folder(folder: &str) -> &'static CounterTable {
        all().into_iter().find(|table| table.folder == folder).expect(folder)
    }

    /// A reading of a thread that was counted all the time.
    pub(crate) fn reading(counts: &[u64]) -> GroupReading {
        let ns = 1_000_000_000;
        GroupReading { wanted_ns: ns, counted_ns: ns, counts: counts.to_vec() }
    }

    /// Models from `mapfile.csv`.
    #[test]
    fn each_model_has_the_table_of_its_family() {
        let folder = |vendor, family, model| {
            let processor = Processor { vendor, family, model, is_hybrid: false };
            CounterTable::of(processor).unwrap().folder
        };
        let intel = |model| folder(Vendor::Intel, 6, model);
        assert_eq!([0x55, 0x6a, 0x6c].map(intel), ["skylakex", "icelakex", "icelakex"]);
        assert_eq!([0x8f, 0xcf].map(intel), ["sapphirerapids"; 2]);
        assert_eq!([0xad, 0xae].map(intel), ["graniterapids"; 2]);
        assert_eq!([0x2d, 0x3f, 0xaf].map(intel), ["generic"; 3], "Sandy Bridge, Haswell, Sierra");
        let zen = |(family, model)| folder(Vendor::Amd, family, model);
        assert_eq!([(23, 0x01), (23, 0x1f)].map(zen), ["generic"; 2], "Zen 1");
        assert_eq!([(23, 0x31), (23, 0x71)].map(zen), ["amdzen2"; 2]);
        assert_eq!([(25, 0x01), (25, 0x21), (25, 0x50)].map(zen), ["amdzen3"; 3]);
        assert_eq!([(25, 0x11), (25, 0x61), (25, 0xa0)].map(zen), ["amdzen4"; 3]);
        assert_eq!([(26, 0x02), (26, 0x44), (26, 0x70)].map(zen), ["amdzen5"; 3]);
        assert_eq!([(26, 0x50), (26, 0x90)].map(zen), ["generic"; 2], "Zen 6");
        assert_eq!(folder(Vendor::Other, 24, 1), "generic");
    }

    #[test]
    fn a_hybrid_processor_has_no_table() {
        let hybrid = Processor { vendor: Vendor::Intel, family: 6, model: 0x97, is_hybrid: true };
        assert!(CounterTable::of(hybrid).unwrap_err().contains("two kinds of cores"));
    }

    #[test]
    fn each_table_counts_cycles_first_and_no_event_twice() {
        for table in all() {
            let events = table.events();
            assert_eq!(events[0], HardwareEvent::CYCLES);
            let twice = |at: usize| events[..at].contains(&events[at]);
            assert!(!(0..events.len()).any(twice), "{}", table.folder);
            // Two hyperthreads have four counters each, one of which the watchdog may use; cycles
            // and instructions have their own on Intel's.
            assert!(events.len() <= 5, "{}", table.folder);
        }
    }
}
