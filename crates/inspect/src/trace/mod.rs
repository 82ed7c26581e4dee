//! Traces: the events of a process's workers, read while it runs, in Perfetto's format.

mod perfetto;
mod ring;
mod ticks;
mod timeline;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use daiko_core::inspect::{FiberRow, Memory, Place, Reader, WorkerRow};
use daiko_core::trace::{RING_EVENTS, RawEvent};
use daiko_sys::clock;
use daiko_sys::process::PidFd;

use crate::problem::InspectError;
use crate::source::{Subject, command_of};
use ring::{Rings, TakenEvents};
use ticks::{Moment, Ticks};
use timeline::{Drawn, Timeline};

/// Time between two looks at the rings.
const PERIOD: Duration = Duration::from_millis(2);
/// Time between two looks for new workers.
const WORKERS_PERIOD: Duration = Duration::from_millis(100);

/// The result of [`trace`].
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// Number of events in the file.
    pub events: u64,
    /// Number of switches to fibers among them.
    pub switches: u64,
    /// Number of switches that the workers have counted meanwhile.
    pub switches_counted: u64,
    /// Number of gaps: times at which a worker has filled its ring before it was read.
    pub gaps: u64,
    /// Number of workers without memory for a ring, of which the file has nothing.
    pub refused: usize,
    /// True if the process ended before the time was over.
    pub has_ended: bool,
    /// False if the processor does not promise that its time stamp counter has a fixed rate, so
    /// that times may be wrong.
    pub is_ticking_evenly: bool,
}

/// Records the events of a process's workers for so long, or for as long as `goes_on` returns true,
/// and writes them to a new file at `path`.
///
/// The workers record into rings of their own; this process empties them. A worker that fills its
/// ring before that records nothing until then.
///
/// # Errors
///
/// The process cannot be read or written, has no runtime, or is traced by another process; the file
/// cannot be written.
pub fn trace(
    process: u32,
    duration: Duration,
    path: &Path,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Traced, InspectError> {
    let process_fd = PidFd::open(process).map_err(|_| InspectError::Gone { process })?;
    let subject = Subject::process(process)?;
    let readers = subject.readers()?;
    let Some(reader) = readers.first() else { unreachable!("without a table it is refused") };
    let failed = |error| InspectError::File { path: path.to_owned(), error };
    let mut rings = Rings::new(process, reader);
    let workers = rings.enter_workers()?;
    let file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    let mut timeline =
        Timeline::new(process, &command_of(process), reader, file).map_err(failed)?;
    for worker in &workers {
        timeline.add_worker(worker).map_err(failed)?;
    }
    let mut before = Some(identities(&reader.all().1));
    let mut ticks = Ticks::new(Moment::now());
    let counted = switches(reader);
    let begin = Instant::now();
    let (mut has_ended, mut look_for_workers) = (false, begin);
    // Returns nothing of a process that ends meanwhile.
    fn unless_gone<T>(taken: Result<Vec<T>, InspectError>) -> Result<Vec<T>, InspectError> {
        match taken {
            Err(InspectError::Gone { .. }) => Ok(Vec::new()),
            taken => taken,
        }
    }
    loop {
        let is_over = begin.elapsed() >= duration || !goes_on();
        has_ended |= process_fd.has_ended();
        if rings.is_empty() || look_for_workers.elapsed() >= WORKERS_PERIOD {
            look_for_workers = Instant::now();
            for worker in unless_gone(rings.enter_workers())? {
                timeline.add_worker(&worker).map_err(failed)?;
            }
        }
        let moment = Moment::now();
        ticks.add(moment);
        let taken = unless_gone(rings.take(!is_over))?;
        if rings.have_begun()
            && let Some(before) = before.take()
        {
            // A fiber that both lists have was there when the first worker got credit.
            let mut rows = reader.all().1;
            rows.retain(|row| before.get(&row.id) == Some(&identity(row)));
            timeline.name_fibers(&rows);
        }
        let most = taken.iter().map(|taken| taken.events.len()).max().unwrap_or(0);
        taken.into_iter().for_each(|taken| timeline.add(taken, &ticks));
        let is_last = is_over || has_ended;
        let end = if is_last { u64::MAX } else { moment.ticks };
        timeline.draw_until(end, &ticks).map_err(failed)?;
        if is_last {
            break;
        }
        if most < RING_EVENTS / 4 {
            thread::sleep(PERIOD);
        }
    }
    let counted = switches(reader).saturating_sub(counted);
    let refused = rings.refused();
    drop(rings);
    let Drawn { events, switches, gaps } = timeline.finish(clock::boottime_ns()).map_err(failed)?;
    Ok(Traced {
        events,
        switches,
        switches_counted: counted,
        gaps,
        refused,
        has_ended,
        is_ticking_evenly: clock::is_ticking_evenly(),
    })
}

/// Draws events of workers, each in the form of a ring, as if they had been taken at one time; for
/// tests, which have no process with such events.
///
/// # Errors
///
/// Those of `out`.
#[doc(hidden)]
pub fn draw_events(
    reader: &Reader<impl Memory>,
    workers: &[(WorkerRow, Vec<[u64; 2]>)],
    out: impl Write,
) -> io::Result<()> {
    let ticks = Ticks::new(Moment::now());
    let mut timeline = Timeline::new(1, "events", reader, out)?;
    for (worker, events) in workers {
        timeline.add_worker(worker)?;
        let events = events.iter().filter_map(|words| RawEvent(*words).parse()).collect();
        let taken = TakenEvents { worker: worker.id, follows_gap: false, events };
        timeline.add(taken, &ticks);
    }
    timeline.draw_until(u64::MAX, &ticks)?;
    timeline.finish(clock::boottime_ns()).map(|_| ())
}

/// The properties that tell a fiber from another fiber that takes over its stack.
type Identity = (Option<Rc<str>>, Option<Rc<Place>>);

fn identity(row: &FiberRow) -> Identity {
    (row.name.clone(), row.spawned_at.clone())
}

fn identities(rows: &[FiberRow]) -> HashMap<u64, Identity> {
    rows.iter().map(|row| (row.id, identity(row))).collect()
}

/// Returns the number of switches to fibers that all workers have counted.
fn switches(reader: &Reader<impl Memory>) -> u64 {
    let Some(place) = reader.counter_names().iter().position(|name| name == "switches") else {
        return 0;
    };
    reader.workers().filter_map(|worker| worker.counters.get(place).copied()).sum()
}
