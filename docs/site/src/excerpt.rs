//! An excerpt of a trace of `daiko trace`, for the picture on the front page.
//!
//! The file is a list of Perfetto's packets (perfetto.dev, "Trace Packet Reference"), as
//! `crates/inspect` writes them. Nothing is added to their events.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// A field of a message: its number, and a number or bytes.
enum Field<'b> {
    Number(u64, u64),
    Bytes(u64, &'b [u8]),
}

/// Splits a message into its fields (protobuf.dev, "Encoding"). Returns `None` if it is cut off.
fn fields(mut bytes: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let field = key >> 3;
        fields.push(match key & 7 {
            0 => Field::Number(field, varint(&mut bytes)?),
            1 => {
                let (value, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Field::Number(field, u64::from_le_bytes(*value))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Field::Bytes(field, value)
            }
            _ => return None,
        });
    }
    Some(fields)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn number(message: &[Field<'_>], wanted: u64) -> Option<u64> {
    message.iter().find_map(|field| match *field {
        Field::Number(number, value) if number == wanted => Some(value),
        _ => None,
    })
}

fn bytes<'b>(message: &[Field<'b>], wanted: u64) -> impl Iterator<Item = &'b [u8]> {
    let found = message.iter().filter_map(move |field| match *field {
        Field::Bytes(number, bytes) if number == wanted => Some(bytes),
        _ => None,
    });
    found.collect::<Vec<_>>().into_iter()
}

fn text(message: &[Field<'_>], wanted: u64) -> Option<String> {
    bytes(message, wanted).next().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Begin,
    End,
    Instant,
}

struct TraceEvent {
    ns: u64,
    track: u64,
    kind: Kind,
    name: String,
    /// The first note: the reason of an end, the victim of a theft.
    note: Option<String>,
    /// The arrow that begins or ends here.
    flow: Option<u64>,
}

struct Trace {
    /// Names by numbers of tracks.
    tracks: BTreeMap<u64, String>,
    events: Vec<TraceEvent>,
}

fn parse(file: &[u8]) -> Option<Trace> {
    let (mut names, mut tracks, mut events) = (HashMap::new(), BTreeMap::new(), Vec::new());
    for packet in bytes(&fields(file)?, 1) {
        let packet = fields(packet)?;
        for interned in bytes(&packet, 12) {
            for entry in bytes(&fields(interned)?, 2) {
                let entry = fields(entry)?;
                names.insert(number(&entry, 1)?, text(&entry, 2)?);
            }
        }
        for track in bytes(&packet, 60) {
            let track = fields(track)?;
            let thread = bytes(&track, 4).next();
            let name = match thread {
                Some(thread) => text(&fields(thread)?, 5)?,
                None => text(&track, 2).unwrap_or_default(),
            };
            tracks.insert(number(&track, 1)?, name);
        }
        for event in bytes(&packet, 11) {
            let event = fields(event)?;
            let kind = match number(&event, 9)? {
                1 => Kind::Begin,
                2 => Kind::End,
                3 => Kind::Instant,
                _ => continue,
            };
            let note = match bytes(&event, 4).next() {
                Some(note) => text(&fields(note)?, 6),
                None => None,
            };
            let name = number(&event, 10).and_then(|name| names.get(&name)).cloned();
            events.push(TraceEvent {
                ns: number(&packet, 8)?,
                track: number(&event, 11)?,
                kind,
                name: name.unwrap_or_default(),
                note,
                flow: number(&event, 47).or_else(|| number(&event, 48)),
            });
        }
    }
    // A stable sort: events of one moment stay in the order in which they were written.
    events.sort_by_key(|event| event.ns);
    Some(Trace { tracks, events })
}

/// A time in which one thing lasted on a row.
#[derive(Clone)]
struct Span {
    begin: u64,
    end: u64,
    name: String,
    then: Option<String>,
    flow: Option<u64>,
}

/// Returns the spans of a row, each of which ends where a span inside of it begins.
fn spans(trace: &Trace, track: u64) -> Vec<Span> {
    let mut done = Vec::new();
    let mut open: Vec<Span> = Vec::new();
    let mut close = |mut span: Span, end, then| {
        (span.end, span.then) = (end, then);
        if span.end > span.begin {
            done.push(span);
        }
    };
    for event in trace.events.iter().filter(|event| event.track == track) {
        match event.kind {
            Kind::Begin => {
                if let Some(outer) = open.last() {
                    close(outer.clone(), event.ns, None);
                }
                let (begin, end, name) = (event.ns, event.ns, event.name.clone());
                open.push(Span { begin, end, name, then: None, flow: event.flow });
            }
            Kind::End => {
                if let Some(span) = open.pop() {
                    close(span, event.ns, event.note.clone());
                }
                if let Some(outer) = open.last_mut() {
                    outer.begin = event.ns;
                }
            }
            Kind::Instant => {}
        }
    }
    done
}

/// The rows of a trace.
struct Rows {
    workers: Vec<(String, Vec<Span>)>,
    fibers: Vec<(String, Vec<Span>)>,
    marks: Vec<Mark>,
}

/// A wake, a theft or the hit of a poll.
struct Mark {
    ns: u64,
    /// The index of its worker.
    worker: usize,
    name: String,
    note: Option<String>,
    flow: Option<u64>,
}

fn rows(trace: &Trace) -> Rows {
    let (mut workers, mut fibers, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    for (&track, name) in &trace.tracks {
        let spans = spans(trace, track);
        if spans.is_empty() {
            continue;
        }
        if !name.starts_with("worker ") {
            fibers.push((name.clone(), spans));
            continue;
        }
        for event in trace.events.iter().filter(|event| event.track == track) {
            if event.kind == Kind::Instant {
                let (name, note) = (event.name.clone(), event.note.clone());
                let (ns, worker, flow) = (event.ns, workers.len(), event.flow);
                marks.push(Mark { ns, worker, name, note, flow });
            }
        }
        workers.push((name.clone(), spans));
    }
    marks.sort_by_key(|mark| mark.ns);
    Rows { workers, fibers, marks }
}

/// Returns where the most telling excerpt begins.
///
/// That is the one with most kinds of events on each worker; of several, the one in which the
/// longest time without an event is the shortest, so that the kernel took no worker off its CPU.
fn best_begin(rows: &Rows, length: u64) -> Option<u64> {
    // The times and names of each worker's events.
    let lane = |(at, (_, spans)): (usize, &(String, Vec<Span>))| {
        let marks = rows.marks.iter().filter(|mark| mark.worker == at);
        let mut events: Vec<(u64, String)> =
            spans.iter().map(|span| (span.begin, span.name.clone())).collect();
        events.extend(marks.map(|mark| (mark.ns, mark.name.clone())));
        events.sort();
        events
    };
    let lanes: Vec<_> = rows.workers.iter().enumerate().map(lane).collect();
    let score = |begin: u64| {
        let (mut kinds, mut longest) = (0, 0);
        for events in &lanes {
            let inside = |time: u64| events.partition_point(|event| event.0 < time);
            let events = &events[inside(begin)..inside(begin + length)];
            let mut before = begin;
            for time in events.iter().map(|event| event.0).chain([begin + length]) {
                longest = longest.max(time - before);
                before = time;
            }
            let mut names: Vec<&str> = events.iter().map(|event| event.1.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            // Thefts are rare.
            kinds += names.len() + 6 * usize::from(names.contains(&"steal"));
        }
        (longest < length / 3).then_some((kinds, Reverse(longest)))
    };
    let begins = rows.marks.iter().map(|mark| mark.ns);
    begins.filter_map(|begin| Some((score(begin)?, begin))).max().map(|(_, begin)| begin)
}

/// Returns the excerpt that begins at `begin`.
fn excerpt(rows: &Rows, begin: u64, length: u64) -> Value {
    let end = begin + length;
    let cut = |spans: &[Span]| -> Vec<Span> {
        let inside = spans.iter().filter(|span| span.end > begin && span.begin < end);
        let cut = |span: &Span| Span {
            begin: span.begin.max(begin) - begin,
            end: span.end.min(end) - begin,
            ..span.clone()
        };
        inside.map(cut).collect()
    };
    let mut names: Vec<&str> = rows.fibers.iter().map(|(name, _)| name.as_str()).collect();
    let workers: Vec<Vec<Span>> = rows.workers.iter().map(|(_, spans)| cut(spans)).collect();
    names.retain(|name| workers.iter().flatten().any(|span| span.name == *name));
    let index = |name: &str| match name {
        "agent" => json!(-1),
        "sleeps" => json!(-2),
        name => names.iter().position(|one| *one == name).map_or(json!(-3), |at| json!(at)),
    };
    let lanes: Vec<Value> = workers
        .iter()
        .map(|spans| {
            spans
                .iter()
                .map(|span| json!([span.begin, span.end, index(&span.name), span.then]))
                .collect()
        })
        .collect();
    // The fiber that an arrow leads to, and the time and the worker at which that begins to run.
    let woken = |flow: Option<u64>| {
        let lanes = rows.workers.iter().enumerate();
        let mut spans = lanes.flat_map(|(at, (_, spans))| spans.iter().map(move |span| (at, span)));
        spans.find(|(_, span)| span.flow.is_some() && span.flow == flow)
    };
    let mut instants = Vec::new();
    for Mark { ns, worker, name, note, flow } in &rows.marks {
        if !(begin..end).contains(ns) {
            continue;
        }
        let at = ns - begin;
        instants.push(match woken(*flow) {
            Some((lane, span)) if name == "wake" => {
                json!([at, worker, name, index(&span.name), [span.begin - begin, lane]])
            }
            _ => json!([at, worker, name, note]),
        });
    }
    let states: Vec<Value> = rows
        .fibers
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(_, spans)| {
            cut(spans).iter().map(|span| json!([span.begin, span.end, span.name])).collect()
        })
        .collect();
    json!({
        "length": length,
        "workers": lanes,
        "fibers": names,
        "states": states,
        "instants": instants,
    })
}

/// Prints an excerpt of so many nanoseconds, with `about`: JSON with the program, the machine, the
/// date and the command.
pub(crate) fn print(file: &Path, length: &str, about: &str) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let trace = parse(&bytes)
        .ok_or_else(|| format!("{} is no trace of daiko trace; record it again", file.display()))?;
    let length: u64 =
        length.parse().map_err(|_| format!("{length} is no number of nanoseconds"))?;
    let about: Value = serde_json::from_str(about).map_err(|error| format!("ABOUT: {error}"))?;
    let rows = rows(&trace);
    let begin = best_begin(&rows, length).ok_or_else(|| {
        format!(
            "{} has no {length} ns without long pauses; record it on an idle machine",
            file.display()
        )
    })?;
    let mut excerpt = excerpt(&rows, begin, length);
    excerpt["about"] = about;
    println!("{excerpt}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ns: u64, kind: Kind, name: &str) -> TraceEvent {
        TraceEvent { ns, track: 1, kind, name: name.into(), note: None, flow: None }
    }

    #[test]
    fn a_span_ends_where_an_inner_one_begins_and_goes_on_after_it() {
        let events = vec![
            event(1, Kind::Begin, "agent"),
            event(3, Kind::Begin, "sleeps"),
            event(5, Kind::End, ""),
            event(8, Kind::End, ""),
        ];
        let trace = Trace { tracks: BTreeMap::new(), events };
        let spans: Vec<_> =
            spans(&trace, 1).into_iter().map(|span| (span.begin, span.end, span.name)).collect();
        let expected = [(1, 3, "agent"), (3, 5, "sleeps"), (5, 8, "agent")];
        assert_eq!(spans, expected.map(|(begin, end, name)| (begin, end, name.to_owned())));
    }

    #[test]
    fn a_file_that_is_cut_off_is_refused() {
        // Field 1 with 5 bytes, of which 2 are there.
        assert!(parse(&[0x0a, 5, 0, 0]).is_none());
        assert!(parse(&[]).is_some_and(|trace| trace.events.is_empty()));
    }
}
