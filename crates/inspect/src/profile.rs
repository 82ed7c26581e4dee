//! Profiles: how long fibers wait, and where; how long they run. By looks at a process from
//! outside, again and again.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use daiko_core::inspect::{FiberRow, FiberState, Place, Reader};
use daiko_sys::process::PidFd;

use crate::pprof::{ProfileWriter, ValueType};
use crate::problem::InspectError;
use crate::source::Subject;
use crate::stacks::{Stack, stack_of};
use crate::symbols::{Frame, Symbols, without_runtime};
use crate::unwind::Backtracer;

/// The values of a sample, in their order.
const VALUES: [ValueType; 4] = [
    ("looks", "count"),
    ("waiting", "nanoseconds"),
    ("runnable", "nanoseconds"),
    ("running", "nanoseconds"),
];
/// The positions among them. The first one is shown first.
const WAITING: usize = 1;
const RUNNABLE: usize = 2;
const RUNNING: usize = 3;

/// The result of [`profile`].
#[derive(Clone, Copy, Debug)]
pub struct Profiled {
    /// Number of looks.
    pub looks: u64,
    /// Number of different samples: stacks, with the names of fibers.
    pub samples: usize,
    /// True if the process ended before the time was over.
    pub has_ended: bool,
}

/// Fibers that do the same.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    name: Option<Rc<str>>,
    spawned_at: Option<Rc<Place>>,
    /// The kind of the wait, or the state of a fiber that does not wait.
    activity: Rc<str>,
    stack: Stack,
}

/// A fiber as it was at the last look.
struct Seen {
    row: FiberRow,
    /// The position of its sample.
    sample: usize,
}

/// The samples of one process.
struct Samples<'s> {
    reader: &'s Reader<&'s Subject>,
    backtracer: Backtracer,
    symbols: Symbols<'s>,
    positions: HashMap<Rc<Key>, usize>,
    samples: Vec<(Rc<Key>, Vec<Frame>, [u64; VALUES.len()])>,
    seen: HashMap<u64, Seen>,
}

/// Looks at a process every `period` for so long, or for as long as `goes_on` returns true, and
/// writes a profile for pprof to a new file at `path`.
///
/// A look counts for the time since the one before it. So a fiber that waits for a part of the time
/// is seen in that part of the looks. A fiber that runs has no stack here.
///
/// # Errors
///
/// The process cannot be read, or has no runtime; the file cannot be written.
pub fn profile(
    process: u32,
    duration: Duration,
    period: Duration,
    path: &Path,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Profiled, InspectError> {
    let process_fd = PidFd::open(process).map_err(|_| InspectError::Gone { process })?;
    let subject = Subject::process(process)?;
    let readers = subject.readers()?;
    let Some(reader) = readers.first() else { unreachable!("without a table it is refused") };
    let mut samples = Samples::new(&subject, reader);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin = Instant::now();
    let (mut last, mut looks, mut has_ended) = (begin, 0, false);
    while begin.elapsed() < duration && goes_on() && !has_ended {
        let now = Instant::now();
        // The first look has none before it.
        let weight = if looks == 0 { period } else { now - last };
        last = now;
        samples.look(nanoseconds(weight));
        looks += 1;
        has_ended = process_fd.has_ended();
        thread::sleep(period.saturating_sub(now.elapsed()));
    }
    let mut writer = ProfileWriter::new(&VALUES, WAITING);
    let times = [since_epoch, begin.elapsed(), period].map(nanoseconds);
    writer.set_times(times[0], times[1], times[2]);
    samples.write(&mut writer);
    let failed = |error| InspectError::File { path: path.to_owned(), error };
    fs::write(path, writer.finish()).map_err(failed)?;
    Ok(Profiled { looks, samples: samples.samples.len(), has_ended })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<'s> Samples<'s> {
    fn new(subject: &'s Subject, reader: &'s Reader<&'s Subject>) -> Self {
        Samples {
            reader,
            backtracer: Backtracer::new(subject),
            symbols: Symbols::new(subject),
            positions: HashMap::new(),
            samples: Vec::new(),
            seen: HashMap::new(),
        }
    }

    /// Looks at all fibers once; the look counts for so long.
    fn look(&mut self, weight_ns: u64) {
        let (runtimes, rows) = self.reader.all();
        let mut before = std::mem::take(&mut self.seen);
        for mut row in rows {
            // A fiber that has not moved has the same stack.
            let seen = before
                .remove(&row.id)
                .filter(|seen| seen.row == row && seen.row.state.is_suspended());
            let sample = match seen {
                Some(seen) => seen.sample,
                None => {
                    let stack = stack_of(self.reader, &runtimes, &mut self.backtracer, &mut row);
                    self.sample_of(&row, stack)
                }
            };
            let place = match row.state {
                FiberState::Parked | FiberState::Waiting => WAITING,
                FiberState::Unstarted | FiberState::Runnable => RUNNABLE,
                FiberState::Running => RUNNING,
                FiberState::Finished => continue,
            };
            let values = &mut self.samples[sample].2;
            values[0] += 1;
            values[place] += weight_ns;
            self.seen.insert(row.id, Seen { row, sample });
        }
    }

    /// Returns the position of the sample of a fiber.
    fn sample_of(&mut self, row: &FiberRow, stack: Stack) -> usize {
        let activity = match &row.wait {
            Some(wait) => Rc::clone(&wait.kind),
            None => row.state.name().into(),
        };
        let (name, spawned_at) = (row.name.clone(), row.spawned_at.clone());
        let key = Rc::new(Key { name, spawned_at, activity, stack });
        let next = self.samples.len();
        let position = *self.positions.entry(Rc::clone(&key)).or_insert(next);
        if position == next {
            let frames = self.frames(&key);
            self.samples.push((key, frames, [0; VALUES.len()]));
        }
        position
    }

    /// Returns the frames of a sample, the innermost first: its activity, the functions of the
    /// program, and the place of the spawn.
    fn frames(&mut self, key: &Key) -> Vec<Frame> {
        let frames: Vec<_> = key
            .stack
            .addresses()
            .iter()
            .enumerate()
            .flat_map(|(at, &address)| self.symbols.frames(address, at > 0).to_vec())
            .collect();
        let plain = |function: String, line| Frame { function, line, is_inlined: false };
        let mut all = vec![plain(format!("[{}]", key.activity), None)];
        all.extend_from_slice(without_runtime(&frames));
        if let Some(place) = &key.spawned_at {
            let line = Some((place.file.clone(), place.line));
            all.push(plain(format!("spawned at {}:{}", place.file, place.line), line));
        }
        all
    }

    fn write(&self, writer: &mut ProfileWriter) {
        for (key, frames, values) in &self.samples {
            let name = key.name.as_ref().map(|name| ("fiber", &**name));
            let labels: Vec<_> = name.into_iter().chain([("activity", &*key.activity)]).collect();
            writer.sample(frames, values, &labels);
        }
    }
}
