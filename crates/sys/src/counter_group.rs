//! Hardware counters of a thread that run during the same time, so that their counts have ratios.
//!
//! The kernel shares its counters by time if there are too few. It runs all members of a group at
//! once or none, so no count of a group has to be scaled before it is divided by another one.

use std::fs::File;
use std::io::{self, Read};

use crate::counters::{CounterError, HardwareEvent};
use crate::perf::{self, Attributes};

/// Opens one event of a thread, in the group of a leader if there is one.
type OpenEvent<'a> =
    &'a mut dyn FnMut(HardwareEvent, u32, Option<&File>) -> Result<File, CounterError>;

/// Events of one thread in user space, counted during the same time from the opening on.
#[derive(Debug)]
pub struct CounterGroup {
    leader: File,
    /// Kept open, as a closed event leaves its group.
    members: Vec<File>,
}

/// A reading of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupReading {
    /// Nanoseconds for which the thread ran while the group was open.
    pub wanted_ns: u64,
    /// Nanoseconds of these for which the group was counted.
    pub counted_ns: u64,
    /// The counts, in the order of the events.
    pub counts: Vec<u64>,
}

impl GroupReading {
    /// The difference from an earlier reading of the same group. `None` if any number is less.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let counts = self.counts.iter().zip(&earlier.counts);
        Some(Self {
            wanted_ns: self.wanted_ns.checked_sub(earlier.wanted_ns)?,
            counted_ns: self.counted_ns.checked_sub(earlier.counted_ns)?,
            counts: counts.map(|(now, before)| now.checked_sub(*before)).collect::<Option<_>>()?,
        })
    }
}

impl CounterGroup {
    /// Counts these events of the thread with id `thread`, of any process that the caller may
    /// trace.
    ///
    /// # Errors
    ///
    /// [`CounterError::Missing`] on many virtual machines; [`CounterError::Refused`] if the
    /// processor cannot count all of them at once.
    ///
    /// # Panics
    ///
    /// If there is no event.
    pub fn open(events: &[HardwareEvent], thread: u32) -> Result<Self, CounterError> {
        Self::open_by(&mut open_event, events, thread)
    }

    /// [`open`](Self::open) with an injected `perf_event_open`, for tests. The first file that it
    /// returns is the leader, which gives its readings by `read`.
    ///
    /// # Errors
    ///
    /// Those of `open_event`.
    ///
    /// # Panics
    ///
    /// If there is no event.
    #[doc(hidden)]
    pub fn open_by(
        open_event: OpenEvent<'_>,
        events: &[HardwareEvent],
        thread: u32,
    ) -> Result<Self, CounterError> {
        let (first, rest) = events.split_first().expect("a group has an event");
        let leader = open_event(*first, thread, None)?;
        let members = rest.iter().map(|event| open_event(*event, thread, Some(&leader)));
        let members = members.collect::<Result<_, _>>()?;
        Ok(Self { leader, members })
    }

    /// The counts so far.
    ///
    /// # Errors
    ///
    /// The error of `read`; `InvalidData` if the kernel counts another number of events;
    /// `UnexpectedEof` if the group was in error, as when it can never run.
    pub fn read(&self) -> io::Result<GroupReading> {
        let mut bytes = vec![0; (3 + 1 + self.members.len()) * 8];
        (&self.leader).read_exact(&mut bytes)?;
        let words = bytes.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
        let words: Vec<u64> = words.collect();
        match words[..] {
            [count, wanted_ns, counted_ns, ref counts @ ..] if count == counts.len() as u64 => {
                Ok(GroupReading { wanted_ns, counted_ns, counts: counts.to_vec() })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn open_event(
    event: HardwareEvent,
    thread: u32,
    leader: Option<&File>,
) -> Result<File, CounterError> {
    let HardwareEvent { kind, config } = event;
    let attributes = Attributes {
        kind,
        config,
        read_format: perf::TIMES | perf::WHOLE_GROUP,
        flags: perf::NOT_KERNEL | perf::NOT_BELOW,
        ..Attributes::default()
    };
    perf::open(&attributes, thread, leader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    /// A file with these words, to be read from the beginning.
    fn recorded(words: &[u64]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        words.iter().for_each(|word| file.write_all(&word.to_ne_bytes()).unwrap());
        file.rewind().unwrap();
        file
    }

    const EVENTS: [HardwareEvent; 2] = [HardwareEvent::CYCLES, HardwareEvent::INSTRUCTIONS];

    fn group(words: &[u64]) -> CounterGroup {
        CounterGroup::open_by(&mut |_, _, _| Ok(recorded(words)), &EVENTS, 1).unwrap()
    }

    #[test]
    fn a_reading_has_the_counts_in_the_order_of_the_events() {
        let group = group(&[2, 100, 50, 7, 8, 2, 200, 60, 9, 10]);
        let reading = |wanted_ns, counted_ns, counts: [u64; 2]| GroupReading {
            wanted_ns,
            counted_ns,
            counts: counts.to_vec(),
        };
        assert_eq!(group.read().unwrap(), reading(100, 50, [7, 8]));
        assert_eq!(group.read().unwrap(), reading(200, 60, [9, 10]));
        assert_eq!(group.read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_difference_of_counts_that_go_backwards_is_none() {
        let reading = |wanted_ns, counts: [u64; 2]| GroupReading {
            wanted_ns,
            counted_ns: wanted_ns,
            counts: counts.to_vec(),
        };
        let before = reading(10, [4, 4]);
        assert_eq!(reading(13, [4, 6]).since(&before), Some(reading(3, [0, 2])));
        assert_eq!(reading(13, [5, 3]).since(&before), None);
        assert_eq!(reading(9, [5, 5]).since(&before), None);
    }

    #[test]
    fn a_reading_of_another_number_of_events_is_an_error() {
        let error = group(&[1, 100, 50, 7, 0]).read().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn all_members_join_the_first_event() {
        let mut leaders = Vec::new();
        let mut open = |event, thread, leader: Option<&File>| {
            leaders.push((event, thread, leader.is_some()));
            Ok(recorded(&[]))
        };
        CounterGroup::open_by(&mut open, &EVENTS, 7).unwrap();
        assert_eq!(leaders, [(EVENTS[0], 7, false), (EVENTS[1], 7, true)]);
    }

    #[test]
    fn a_refused_member_refuses_the_group() {
        let mut open = |_, _, leader: Option<&File>| match leader {
            None => Ok(recorded(&[])),
            Some(_) => Err(CounterError::Missing),
        };
        let refused = CounterGroup::open_by(&mut open, &EVENTS, 7).unwrap_err();
        assert_eq!(refused, CounterError::Missing);
    }

    /// Uses events that the kernel counts itself and that exist everywhere: the run time of a
    /// thread, by two clocks.
    #[test]
    fn the_kernel_counts_a_group_as_it_is_read() {
        let clock = |config| HardwareEvent { kind: perf::SOFTWARE, config };
        let group = match CounterGroup::open(&[clock(0), clock(1)], crate::thread::id()) {
            Ok(group) => group,
            Err(error) => return println!("skipped: {error}"),
        };
        let first = group.read().unwrap();
        let start = crate::clock::thread_cpu_ns();
        while crate::clock::thread_cpu_ns() - start < 20_000_000 {}
        let second = group.read().unwrap();
        assert_eq!(second.wanted_ns, second.counted_ns);
        let ran = second.wanted_ns - first.wanted_ns;
        for (count, before) in second.counts.iter().zip(&first.counts) {
            assert!(count - before > 0 && count - before <= ran * 2, "{first:?} {second:?}");
        }
    }

    #[test]
    fn events_of_this_thread_are_counted_or_refused_with_a_remedy() {
        match CounterGroup::open(&EVENTS, crate::thread::id()) {
            Ok(group) => assert_eq!(group.read().unwrap().counts.len(), 2),
            Err(error) => {
                assert!(!matches!(error, CounterError::Refused { .. }), "{error}");
                println!("skipped: {error}");
            }
        }
    }
}
