//! Traces of processes, decoded by Perfetto's definitions.

#[path = "../../../tests/child.rs"]
mod child;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use child::{ReadyChild, ready};
use daiko_core::trace::{Departure, Event, RING_EVENTS};
use daiko_inspect::{RecorderRow, Subject, WorkerRow, draw_events, trace};
use micromegas_perfetto::protos::{
    DebugAnnotation, Trace, TracePacket, TrackDescriptor, debug_annotation, trace_packet,
    track_descriptor, track_event,
};
use proptest::prelude::*;
use prost::Message;
use track_event::Type;

/// Longer than a trace in these tests ever lasts.
const LONG: Duration = Duration::from_secs(3600);
const LONG_NAME: &str = "a name of several pieces, as it is so long";

/// Fibers of two workers that wake each other, and wait in every way that a trace is to show.
fn busy() {
    let runtime = daiko::Runtime::builder().workers(2).build().unwrap();
    runtime.run(|| {
        let (to, from) = daiko::sync::channel::bounded::<u32>(1);
        let (back, answers) = daiko::sync::channel::bounded::<u32>(1);
        let on = |worker, name: &str| daiko::Builder::new().on(worker).name(name);
        let ask = move || {
            for number in 0.. {
                to.send(number).unwrap();
                answers.recv().unwrap();
                daiko::sleep(Duration::from_micros(100));
            }
        };
        let answer = move || from.iter().for_each(|number| back.send(number).unwrap());
        let _asks = on(0, "asks").spawn(ask).unwrap();
        let _answers = on(1, "answers").spawn(answer).unwrap();
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        let _lockers = ["one", "other"].map(|name| {
            let lock = Arc::clone(&lock);
            let locks = move || {
                loop {
                    let held = lock.lock();
                    daiko::sleep(Duration::from_micros(50));
                    drop(held);
                    daiko::yield_now();
                }
            };
            on(0, name).spawn(locks).unwrap()
        });
        let spawns = || {
            loop {
                let child = daiko::Builder::new().name(LONG_NAME).spawn(|| daiko::blocking(|| ()));
                child.unwrap().join().unwrap();
            }
        };
        let _spawns = on(1, "spawns").spawn(spawns).unwrap();
        daiko::blocking(ready);
        std::process::exit(0);
    });
}

/// Two fibers that hop faster than a reader can follow.
fn fast() {
    let runtime = daiko::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let _hoppers = [(); 2].map(|()| {
            daiko::spawn(|| {
                loop {
                    daiko::yield_now();
                }
            })
        });
        daiko::blocking(ready);
        std::process::exit(0);
    });
}

/// Runtimes, one after the other, each for some looks of the tracer.
fn one_after_another() {
    let begun = std::thread::spawn(|| {
        loop {
            let runtime = daiko::Runtime::builder().workers(1).build().unwrap();
            let begin = Instant::now();
            runtime.run(move || {
                while begin.elapsed() < Duration::from_millis(300) {
                    daiko::spawn(daiko::yield_now).join().unwrap();
                }
            });
        }
    });
    ready();
    drop(begun);
    std::process::exit(0);
}

/// A fiber, in a process that gets no more memory.
fn without_memory() {
    let runtime = daiko::Runtime::builder().workers(1).build().unwrap();
    runtime.run(|| {
        let _yields = daiko::spawn(|| {
            loop {
                daiko::yield_now();
            }
        });
        // The thread that waits is there before.
        daiko::blocking(|| ());
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a live local.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const none) }, 0);
        daiko::blocking(ready);
        std::process::exit(0);
    });
}

/// Returns the recorders of all workers.
fn recorders(subject: &Subject) -> Vec<RecorderRow> {
    let readers = subject.readers().unwrap();
    readers[0].workers().filter_map(|worker| readers[0].recorder(worker.id)).collect()
}

/// A track of a decoded trace.
#[derive(Debug, Default)]
struct DecodedTrack {
    name: String,
    parent: Option<u64>,
    tid: Option<i32>,
    pid: Option<i32>,
    /// The slices and instants, in their order.
    events: Vec<DecodedEvent>,
}

#[derive(Debug)]
struct DecodedEvent {
    kind: Type,
    name: String,
    ns: u64,
    notes: HashMap<String, String>,
    flows: Vec<u64>,
    flow_ends: Vec<u64>,
}

/// Decodes a trace, and asserts that it is one that Perfetto takes: interned names come before
/// their use, tracks before their events, times do not go back, slices end in the order of a stack.
fn decode(bytes: &[u8]) -> HashMap<u64, DecodedTrack> {
    let trace = Trace::decode(bytes).unwrap();
    let (mut tracks, mut names) = (HashMap::<u64, DecodedTrack>::new(), HashMap::new());
    assert_eq!(trace.packet[0].sequence_flags(), 3, "the state is cleared, and is needed");
    for packet in trace.packet {
        assert_eq!(sequence(&packet), 1);
        for entry in packet.interned_data.iter().flat_map(|data| &data.event_names) {
            assert!(names.insert(entry.iid(), entry.name().to_owned()).is_none());
        }
        match &packet.data {
            Some(trace_packet::Data::TrackDescriptor(track)) => {
                let thread = track.thread.as_ref();
                let thread_name = thread.map(|thread| thread.thread_name().to_owned());
                let track_name = thread_name.unwrap_or_else(|| name_of(track));
                let decoded = DecodedTrack {
                    name: track_name,
                    parent: track.parent_uuid,
                    tid: thread.and_then(|thread| thread.tid),
                    pid: track.process.as_ref().and_then(|process| process.pid),
                    events: Vec::new(),
                };
                assert!(tracks.insert(track.uuid(), decoded).is_none());
            }
            Some(trace_packet::Data::TrackEvent(event)) => {
                let name = match event.name_field {
                    Some(track_event::NameField::NameIid(iid)) => names[&iid].clone(),
                    _ => String::new(),
                };
                let decoded = DecodedEvent {
                    kind: event.r#type(),
                    name,
                    ns: packet.timestamp(),
                    notes: event.debug_annotations.iter().map(note).collect(),
                    flows: event.flow_ids.clone(),
                    flow_ends: event.terminating_flow_ids.clone(),
                };
                tracks.get_mut(&event.track_uuid()).unwrap().events.push(decoded);
            }
            other => panic!("{other:?}"),
        }
    }
    for track in tracks.values() {
        let mut depth = 0;
        for event in &track.events {
            match event.kind {
                Type::SliceBegin => depth += 1,
                Type::SliceEnd => depth -= 1,
                _ => {}
            }
            assert!((0..=2).contains(&depth), "{}: {event:?}", track.name);
        }
        assert_eq!(depth, 0, "{}: all slices have an end", track.name);
    }
    tracks
}

fn name_of(track: &TrackDescriptor) -> String {
    match &track.static_or_dynamic_name {
        Some(track_descriptor::StaticOrDynamicName::Name(name)) => name.clone(),
        _ => String::new(),
    }
}

fn sequence(packet: &TracePacket) -> u32 {
    let Some(trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(id)) =
        packet.optional_trusted_packet_sequence_id
    else {
        panic!("a packet without a sequence")
    };
    id
}

fn note(annotation: &DebugAnnotation) -> (String, String) {
    let Some(debug_annotation::NameField::Name(name)) = &annotation.name_field else {
        panic!("a note without a name")
    };
    let text = match &annotation.value {
        Some(debug_annotation::Value::StringValue(text)) => text.clone(),
        Some(debug_annotation::Value::PointerValue(address)) => format!("{address:#x}"),
        other => panic!("{other:?}"),
    };
    (name.clone(), text)
}

/// Returns the times and names of the slices of a track, and the notes at their ends.
fn slices(track: &DecodedTrack) -> Vec<(&DecodedEvent, &DecodedEvent)> {
    let (mut open, mut slices) = (Vec::new(), Vec::new());
    for event in &track.events {
        match event.kind {
            Type::SliceBegin => open.push(event),
            Type::SliceEnd => slices.push((open.pop().unwrap(), event)),
            _ => {}
        }
    }
    slices
}

#[test]
fn a_trace_shows_who_ran_where_woken_by_whom_and_why_it_left() {
    let name = "a_trace_shows_who_ran_where_woken_by_whom_and_why_it_left";
    let child = ReadyChild::of(name, busy);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let subject = Subject::process(child.id()).unwrap();
    let goes_on = || recorders(&subject).iter().filter(|row| row.recorded > 3000).count() < 2;
    let traced = trace(child.id(), LONG, &path, goes_on).unwrap();
    assert!(!traced.has_ended && traced.refused == 0 && traced.switches <= traced.switches_counted);
    let tracks = decode(&fs::read(&path).unwrap());
    let named = |name: &str| tracks.iter().find(|(_, track)| track.name == name);
    let process = tracks.iter().find(|(_, track)| track.pid.is_some()).unwrap();
    assert_eq!(process.1.pid, Some(child.id() as i32));
    let workers = ["worker 0", "worker 1"].map(|name| named(name).unwrap().1);
    let threads: HashSet<_> = workers.iter().map(|worker| worker.tid.unwrap()).collect();
    for tid in &threads {
        assert!(Path::new(&format!("/proc/{}/task/{tid}", child.id())).exists());
    }
    assert_eq!(threads.len(), 2);

    // Each worker runs its own fibers, by the names of those that were there before the trace, and
    // of those that have started since.
    let names: Vec<HashSet<&str>> =
        workers.map(|worker| slices(worker).iter().map(|(begin, _)| &*begin.name).collect()).into();
    for (worker, name) in
        [(0, "asks"), (0, "one"), (0, "other"), (1, "answers"), (1, "spawns"), (1, LONG_NAME)]
    {
        assert!(names[worker].contains(name), "worker {worker}: {name}");
    }
    assert!(!names[0].contains("answers") && !names[1].contains("asks"));
    assert!(names.iter().any(|names| names.contains("agent")));

    // The reasons.
    let reasons = |of: &str| -> HashSet<String> {
        let slices = workers.into_iter().flat_map(slices);
        let of = slices.filter(|(begin, _)| begin.name == of);
        of.filter_map(|(_, end)| end.notes.get("then").cloned()).collect()
    };
    for (fiber, reason) in [
        ("asks", "channel"),
        ("asks", "sleep"),
        ("one", "Mutex"),
        ("one", "yields"),
        ("spawns", "join"),
        (LONG_NAME, "blocking"),
        (LONG_NAME, "ends"),
    ] {
        assert!(reasons(fiber).contains(reason), "{fiber}: {:?}", reasons(fiber));
    }

    // A track for each fiber tells its waits, and where it runs.
    let (group, _) = named("fibers").unwrap();
    let asks = tracks.values().find(|track| track.name == "asks").unwrap();
    assert_eq!(asks.parent, Some(*group));
    let states: HashSet<&str> = slices(asks).iter().map(|(begin, _)| &*begin.name).collect();
    for state in ["channel", "sleep", "runnable", "runs on worker 0"] {
        assert!(states.contains(state), "{states:?}");
    }
    assert!(asks.events[0].notes["spawned at"].contains("traces.rs:"));
    assert!(asks.events[0].notes["fiber"].starts_with("0x"));

    // Arrows lead from wakes to the slices that they have begun, also to another worker.
    let mut begun = HashMap::new();
    for (track, events) in tracks.iter().map(|(id, track)| (id, &track.events)) {
        for wake in events.iter().filter(|event| !event.flows.is_empty()) {
            assert_eq!((wake.name.as_str(), wake.kind), ("wake", Type::Instant));
            assert!(begun.insert(wake.flows[0], (*track, wake.ns)).is_none());
        }
    }
    let mut across = 0;
    for (track, events) in tracks.iter().map(|(id, track)| (id, &track.events)) {
        for run in events.iter().filter(|event| !event.flow_ends.is_empty()) {
            let (from, ns) = begun.remove(&run.flow_ends[0]).unwrap();
            assert!(ns <= run.ns, "a wake comes before its run");
            across += u32::from(from != *track);
        }
    }
    assert!(across > 10, "asks and answers wake each other: {across}");

    // The process is as it was.
    assert!(recorders(&subject).iter().all(|row| row.reader == 0));
}

#[test]
fn a_ring_that_is_filled_before_it_is_read_leaves_a_gap_that_is_told() {
    let name = "a_ring_that_is_filled_before_it_is_read_leaves_a_gap_that_is_told";
    let child = ReadyChild::of(name, fast);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let subject = Subject::process(child.id()).unwrap();
    let recorded = || recorders(&subject)[0].recorded;
    let goes_on = || {
        // Nothing is taken before the first ring is full.
        while recorded() > 0 && recorded() < RING_EVENTS as u64 {}
        recorded() < RING_EVENTS as u64 + 1000
    };
    let traced = trace(child.id(), LONG, &path, goes_on).unwrap();
    assert!(traced.gaps > 0 && traced.switches < traced.switches_counted, "{traced:?}");
    let tracks = decode(&fs::read(&path).unwrap());
    let events = tracks.values().flat_map(|track| &track.events);
    let gaps = events.filter(|event| event.name == "events are missing before").count();
    assert_eq!(gaps as u64, traced.gaps);
}

#[test]
fn a_process_that_ends_leaves_a_whole_trace() {
    let mut child = ReadyChild::of("a_process_that_ends_leaves_a_whole_trace", busy);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let subject = Subject::process(child.id()).unwrap();
    let id = child.id();
    let mut is_killed = false;
    let goes_on = || {
        if !is_killed && recorders(&subject).iter().any(|row| row.recorded > 1000) {
            is_killed = true;
            child.child.send(libc::SIGKILL);
            let _ = child.child.0.wait();
        }
        true
    };
    let traced = trace(id, LONG, &path, goes_on).unwrap();
    assert!(traced.has_ended);
    assert!(!decode(&fs::read(&path).unwrap()).is_empty());
}

#[test]
fn runtimes_that_begin_and_end_meanwhile_are_part_of_the_trace() {
    let name = "runtimes_that_begin_and_end_meanwhile_are_part_of_the_trace";
    let mut child = ReadyChild::of(name, one_after_another);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let subject = Subject::process(child.id()).unwrap();
    let mut workers = HashSet::new();
    let goes_on = || {
        // The workers of four runtimes have recorded events.
        let rows = recorders(&subject);
        workers.extend(rows.iter().filter(|row| row.recorded > 100).map(|row| row.reader_at));
        workers.len() < 4
    };
    trace(child.id(), LONG, &path, goes_on).unwrap();
    assert!(child.child.lives());
    let tracks = decode(&fs::read(&path).unwrap());
    let of_workers = tracks.values().filter(|track| track.name == "worker 0");
    assert!(of_workers.filter(|track| track.events.len() > 100).count() >= 3);
}

#[test]
fn a_worker_without_memory_for_events_is_told() {
    let child = ReadyChild::of("a_worker_without_memory_for_events_is_told", without_memory);
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::process(child.id()).unwrap();
    let goes_on = || !recorders(&subject).iter().any(|row| row.is_refused);
    let traced = trace(child.id(), LONG, &folder.path().join("trace"), goes_on).unwrap();
    assert_eq!((traced.refused, traced.events), (1, 0));
}

/// A worker that with any events.
fn worker(index: u32) -> WorkerRow {
    WorkerRow {
        id: u64::from(index),
        index,
        running: None,
        thread: index + 1,
        is_active: true,
        is_stuck: false,
        counters: Vec::new(),
    }
}

/// Any events of few fibers, so that they contradict each other often.
fn any_events() -> impl Strategy<Value = Vec<[u64; 2]>> {
    let fiber = 0u64..4;
    let left = prop_oneof![
        Just(Departure::Agent),
        Just(Departure::Yields),
        Just(Departure::Ended),
        any::<u8>().prop_map(Departure::Waits),
    ];
    let event = prop_oneof![
        4 => (fiber.clone(), left).prop_map(|(to, left)| Event::Switch { to, left }),
        2 => fiber.clone().prop_map(Event::Wake),
        1 => fiber.prop_map(Event::Start),
        1 => any::<u64>().prop_map(Event::SpawnedAt),
        1 => any::<[u8; 15]>().prop_map(Event::Name),
        1 => Just(Event::Sleep),
        1 => Just(Event::Awake),
        1 => Just(Event::PollHit),
        1 => any::<u64>().prop_map(Event::Steal),
    ];
    let words = prop_oneof![
        9 => (event, 0u64..1000).prop_map(|(event, ticks)| event.raw(ticks).0),
        1 => any::<[u64; 2]>(),
    ];
    prop::collection::vec(words, 0..60)
}

proptest! {
    #[test]
    fn any_events_become_a_trace_that_perfetto_takes(one in any_events(), other in any_events()) {
        // The table of a runtime, which names the kinds of waits.
        let _ = daiko::try_current();
        let subject = Subject::process(std::process::id()).unwrap();
        let readers = subject.readers().unwrap();
        let mut bytes = Vec::new();
        draw_events(&readers[0], &[(worker(0), one), (worker(1), other)], &mut bytes).unwrap();
        prop_assert!(decode(&bytes).len() >= 4);
    }
}
