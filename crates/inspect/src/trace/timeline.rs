//! The order of events of all workers, and the picture that they become.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::rc::Rc;

use daiko_core::inspect::{FiberRow, FiberState, Memory, Place, Reader, WorkerRow, plain_text};
use daiko_core::trace::{Departure, Event};
use daiko_sys::clock;

use super::perfetto::{Flow, Note, TraceWriter, Track};
use super::ring::TakenEvents;
use super::ticks::Ticks;

/// Most bytes of a name, but for its last piece.
const MOST_NAME: usize = 256;

/// An event of a worker that has not been drawn yet.
struct Pending {
    ticks: u64,
    event: Event,
    follows_gap: bool,
}

/// A worker as its events have left it.
struct WorkerLine {
    track: Track,
    /// The name of the slices of fibers that run here.
    runs_here: Rc<str>,
    pending: VecDeque<Pending>,
    /// True if the slice of a fiber, or of the agent, has begun.
    is_open: bool,
    /// True if a sleep has begun, within that slice or alone.
    sleeps: bool,
    /// The fiber that runs; 0: the agent, or not known.
    running: u64,
    /// The fiber that the last events describe, as it starts.
    starting: u64,
}

/// A fiber as events have left it.
#[derive(Default)]
struct FiberLine {
    name: String,
    /// True if `name` is the name given at the spawn, as far as its pieces have come.
    is_named: bool,
    spawned_at: Option<Rc<Place>>,
    track: Option<Track>,
    /// True if a slice has begun on its track.
    is_open: bool,
    /// True while it runs.
    runs: bool,
    /// The arrow from the event that has made it runnable.
    woken: Option<Flow>,
}

/// Numbers of drawn events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawn {
    pub(super) events: u64,
    /// Switches to fibers.
    pub(super) switches: u64,
    pub(super) gaps: u64,
}

/// Draws the events of all workers of one process, in the order of their times.
pub(super) struct Timeline<'r, M: Memory, W: Write> {
    reader: &'r Reader<M>,
    out: TraceWriter<W>,
    process: u32,
    fibers_track: Track,
    workers: HashMap<u64, WorkerLine>,
    fibers: HashMap<u64, FiberLine>,
    places: HashMap<u64, Option<Rc<Place>>>,
    drawn: Drawn,
}

impl<'r, M: Memory, W: Write> Timeline<'r, M, W> {
    pub(super) fn new(process: u32, name: &str, reader: &'r Reader<M>, out: W) -> io::Result<Self> {
        let mut out = TraceWriter::new(out);
        let process_track = out.process(process, name)?;
        let fibers_track = out.child(process_track, "fibers")?;
        Ok(Timeline {
            reader,
            out,
            process,
            fibers_track,
            workers: HashMap::new(),
            fibers: HashMap::new(),
            places: HashMap::new(),
            drawn: Drawn::default(),
        })
    }

    /// Adds a worker.
    pub(super) fn add_worker(&mut self, worker: &WorkerRow) -> io::Result<()> {
        // Another worker may have been there.
        self.close(worker.id, clock::boottime_ns(), &[])?;
        let name = format!("worker {}", worker.index);
        let track = self.out.thread(self.process, worker.thread, &name)?;
        let line = WorkerLine {
            track,
            runs_here: format!("runs on {name}").into(),
            pending: VecDeque::new(),
            is_open: false,
            sleeps: false,
            running: 0,
            starting: 0,
        };
        self.workers.insert(worker.id, line);
        Ok(())
    }

    /// Names the fibers that are there before the first event.
    pub(super) fn name_fibers(&mut self, rows: &[FiberRow]) {
        for row in rows.iter().filter(|row| row.state != FiberState::Finished) {
            let fiber = FiberLine {
                name: label(row.name.as_deref(), row.spawned_at.as_deref()),
                spawned_at: row.spawned_at.clone(),
                ..FiberLine::default()
            };
            self.fibers.insert(row.id, fiber);
        }
    }

    /// Adds events that were taken.
    pub(super) fn add(&mut self, taken: TakenEvents, ticks: &Ticks) {
        let Some(line) = self.workers.get_mut(&taken.worker) else { return };
        let mut follows_gap = taken.follows_gap;
        for (event, time) in taken.events {
            let ticks = match event {
                // A piece of a name has none, and comes behind an event that has.
                Event::Name(_) => line.pending.back().map_or(0, |last| last.ticks),
                _ => ticks.whole(time),
            };
            line.pending.push_back(Pending { ticks, event, follows_gap });
            follows_gap = false;
        }
    }

    /// Draws the events before `end`, of which all have been added.
    pub(super) fn draw_until(&mut self, end: u64, ticks: &Ticks) -> io::Result<()> {
        loop {
            let due = |line: &WorkerLine| {
                line.pending.front().map(|next| next.ticks).filter(|&next| next < end)
            };
            let next = self.workers.iter().filter_map(|(id, line)| Some((due(line)?, *id))).min();
            let Some((_, worker)) = next else { return Ok(()) };
            let Some(line) = self.workers.get_mut(&worker) else { return Ok(()) };
            let Some(pending) = line.pending.pop_front() else { return Ok(()) };
            self.draw(worker, &pending, ticks)?;
        }
    }

    /// Ends the slices that are left, and returns the numbers of events.
    pub(super) fn finish(mut self, ns: u64) -> io::Result<Drawn> {
        let workers: Vec<_> = self.workers.keys().copied().collect();
        for worker in workers {
            self.close(worker, ns, &[])?;
        }
        for (_, fiber) in std::mem::take(&mut self.fibers) {
            self.end_fiber(ns, fiber)?;
        }
        self.out.finish()?;
        Ok(self.drawn)
    }

    fn draw(&mut self, worker: u64, pending: &Pending, ticks: &Ticks) -> io::Result<()> {
        let ns = ticks.ns(pending.ticks);
        self.drawn.events += 1;
        if pending.follows_gap {
            self.drawn.gaps += 1;
            self.forget(worker, ns)?;
        }
        let Some(line) = self.workers.get_mut(&worker) else { return Ok(()) };
        let track = line.track;
        match pending.event {
            Event::Switch { to, left } => self.switch(worker, ns, to, left)?,
            Event::Start(fiber) => {
                line.starting = fiber;
                // The spawn comes before, under the address alone.
                let before = self.fibers.remove(&fiber).unwrap_or_default();
                self.fibers
                    .insert(fiber, FiberLine { woken: before.woken, ..FiberLine::default() });
                self.end_fiber(ns, before)?;
            }
            Event::SpawnedAt(place) => {
                let starting = line.starting;
                let place = self.place(place);
                let fiber = self.fibers.entry(starting).or_default();
                fiber.name = label(None, place.as_deref());
                fiber.spawned_at = place;
            }
            Event::Name(piece) => {
                let starting = line.starting;
                self.fibers.entry(starting).or_default().add_name(&piece);
            }
            Event::Wake(fiber) => {
                let is_known = self.fibers.contains_key(&fiber);
                let line = self.fibers.entry(fiber).or_default();
                // An event for a fiber that runs, or is runnable, is no wake.
                if !line.runs && line.woken.is_none() {
                    line.woken = Some(self.out.cause(ns, track, "wake")?);
                    // One that has just been spawned has no name yet.
                    if is_known {
                        self.fiber_begins(ns, fiber, "runnable")?;
                    }
                }
            }
            Event::Sleep => {
                if !std::mem::replace(&mut line.sleeps, true) {
                    self.out.begin(ns, track, "sleeps", None, &[])?;
                }
            }
            Event::Awake => {
                // A sleep may have begun before the trace.
                if std::mem::take(&mut line.sleeps) {
                    self.out.end(ns, track, &[])?;
                }
            }
            Event::PollHit => self.out.instant(ns, track, "poll hit", &[])?,
            Event::Steal(victim) => {
                let from = format!("worker {victim}");
                self.out.instant(ns, track, "steal", &[Note::Text("from", &from)])?;
            }
        }
        Ok(())
    }

    fn switch(&mut self, worker: u64, ns: u64, to: u64, left: Departure) -> io::Result<()> {
        let why = match left {
            Departure::Agent => None,
            Departure::Yields => Some(Rc::from("yields")),
            Departure::Ended => Some(Rc::from("ends")),
            Departure::Waits(kind) => {
                Some(self.reader.wait_kind(kind).unwrap_or_else(|| "something".into()))
            }
        };
        let notes: Vec<_> = why.iter().map(|why| Note::Text("then", why)).collect();
        self.close(worker, ns, &notes)?;
        let Some(line) = self.workers.get_mut(&worker) else { return Ok(()) };
        let (track, name) = (line.track, Rc::clone(&line.runs_here));
        let before = std::mem::replace(&mut line.running, to);
        line.is_open = true;
        if before != 0 {
            self.leave(ns, before, left, why.as_deref())?;
        }
        if to == 0 {
            return self.out.begin(ns, track, "agent", None, &[]);
        }
        self.drawn.switches += 1;
        let fiber = self.fibers.entry(to).or_default();
        fiber.runs = true;
        let from = fiber.woken.take();
        self.out.begin(ns, track, fiber.label(), from, &[])?;
        self.fiber_begins(ns, to, &name)
    }

    /// Draws on the track of `fiber` that it has left its worker.
    fn leave(&mut self, ns: u64, fiber: u64, left: Departure, why: Option<&str>) -> io::Result<()> {
        let line = self.fibers.entry(fiber).or_default();
        line.runs = false;
        match (left, why) {
            (Departure::Ended, _) => {
                let line = std::mem::take(line);
                self.fibers.remove(&fiber);
                self.end_fiber(ns, line)
            }
            (Departure::Waits(_), Some(why)) => self.fiber_begins(ns, fiber, why),
            _ => self.fiber_begins(ns, fiber, "runnable"),
        }
    }

    /// Ends the slice on the track of a fiber that is gone.
    fn end_fiber(&mut self, ns: u64, fiber: FiberLine) -> io::Result<()> {
        match fiber.track.filter(|_| fiber.is_open) {
            Some(track) => self.out.end(ns, track, &[]),
            None => Ok(()),
        }
    }

    /// Begins a slice on the track of `fiber`, which ends the one before.
    fn fiber_begins(&mut self, ns: u64, fiber: u64, name: &str) -> io::Result<()> {
        let line = self.fibers.entry(fiber).or_default();
        let was_open = std::mem::replace(&mut line.is_open, true);
        if let Some(track) = line.track {
            if was_open {
                self.out.end(ns, track, &[])?;
            }
            return self.out.begin(ns, track, name, None, &[]);
        }
        let track = *line.track.insert(self.out.child(self.fibers_track, line.label())?);
        // The first slice says more about the fiber.
        let place = line.spawned_at.as_ref().map(ToString::to_string);
        let place = place.as_ref().map(|place| Note::Text("spawned at", place));
        let notes: Vec<_> = place.into_iter().chain([Note::Address("fiber", fiber)]).collect();
        self.out.begin(ns, track, name, None, &notes)
    }

    /// Ends the slices of a worker.
    fn close(&mut self, worker: u64, ns: u64, notes: &[Note<'_>]) -> io::Result<()> {
        let Some(line) = self.workers.get_mut(&worker) else { return Ok(()) };
        if std::mem::take(&mut line.sleeps) {
            self.out.end(ns, line.track, &[])?;
        }
        match std::mem::take(&mut line.is_open) {
            true => self.out.end(ns, line.track, notes),
            false => Ok(()),
        }
    }

    /// Begins anew behind a gap in a worker's events: the running fiber is not known.
    fn forget(&mut self, worker: u64, ns: u64) -> io::Result<()> {
        self.close(worker, ns, &[Note::Text("then", "events are missing")])?;
        let Some(line) = self.workers.get_mut(&worker) else { return Ok(()) };
        let track = line.track;
        let running = std::mem::take(&mut line.running);
        if let Some(fiber) = self.fibers.get_mut(&running) {
            fiber.runs = false;
        }
        self.out.instant(ns, track, "events are missing before", &[])
    }

    fn place(&mut self, at: u64) -> Option<Rc<Place>> {
        let read = || self.reader.place_at(at).map(Rc::new);
        self.places.entry(at).or_insert_with(read).clone()
    }
}

impl FiberLine {
    fn label(&self) -> &str {
        if self.name.is_empty() { "fiber" } else { &self.name }
    }

    /// Appends a piece of its name, which takes the place of the label by the spawn.
    fn add_name(&mut self, piece: &[u8]) {
        let end = piece.iter().position(|&byte| byte == 0).unwrap_or(piece.len());
        let text = plain_text(&piece[..end]);
        match self.is_named {
            true if self.name.len() >= MOST_NAME => {}
            true => self.name.push_str(&text),
            false => self.name = text,
        }
        self.is_named = true;
    }
}

/// Returns the name of a fiber, or one by the place of its spawn.
fn label(name: Option<&str>, spawned_at: Option<&Place>) -> String {
    match (name, spawned_at) {
        (Some(name), _) => name.to_owned(),
        (None, Some(place)) => format!("fiber of {}:{}", place.file, place.line),
        (None, None) => String::new(),
    }
}
