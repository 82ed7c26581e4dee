//! Segments with a file that is cut short, or that a peer fills with arbitrary words.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::child::{Killed, command, in_child_well, is_child};
use crate::support::segments::segment_name;
use crate::support::{until, workers};
use daiko::shm::{CallError, Client, Segment, SegmentError, ServeError, Service};
use daiko_core::doorbell::Doorbell;
use daiko_sys::file::{Populate, SharedFile};
use daiko_sys::memory::Mapping;
use proptest::prelude::*;

const SEGMENT: &str = "DAIKO_TEST_SEGMENT";
/// The offset where objects begin. The tables of the segment precede them.
const OBJECTS: usize = 172 << 10;
const BYTES: usize = OBJECTS + (64 << 10);

/// Creates a segment with a service, each slot of which takes some pages.
fn place(name: &str) -> (Segment, Service) {
    let segment = Segment::create(segment_name(name), BYTES).unwrap();
    let options = Service::options().slots(4).slots_per_client(4).slot_bytes(8192);
    let service = Service::create(&segment, "service", options).unwrap();
    (segment, service)
}

fn cut(segment: &Segment, bytes: usize) {
    let file = fs::File::options().write(true).open(segment.path()).unwrap();
    file.set_len(bytes as u64).unwrap();
}

/// Waits until so many threads sleep in the segment.
fn until_asleep(segment: &Segment, threads: usize) {
    let file = fs::File::open(segment.path()).unwrap();
    until("they sleep", || {
        let mut doorbells = [0; 64 * 64];
        file.read_exact_at(&mut doorbells, 20 << 10).unwrap();
        let words =
            doorbells.chunks(64).map(|line| u32::from_ne_bytes(*line.first_chunk().unwrap()));
        words.filter(|&word| word == Doorbell::PARKED).count() >= threads
    });
}

/// Calls the service as a fiber, and as a thread, and returns how to wait for both errors.
fn ask(client: &Arc<Client>, runtime: &daiko::Runtime) -> impl FnOnce() -> [CallError; 2] + use<> {
    let (one, other) = (client.clone(), client.clone());
    let waits = runtime.spawn(move || one.call(&1u64).map(drop).unwrap_err());
    let blocks = std::thread::spawn(move || other.call(&1u64).map(drop).unwrap_err());
    move || [waits.join().unwrap(), blocks.join().unwrap()]
}

/// Sizes that cut the file before the tables, the service, or a slot.
const CUTS: [usize; 5] = [0, 4096, 96 << 10, OBJECTS, OBJECTS + 4096];

#[test]
fn sleepers_in_a_truncated_segment_are_told() {
    in_child_well("bad_peers::sleepers_in_a_truncated_segment_are_told", || {
        for bytes in CUTS {
            let (segment, service) = place("sleep");
            let runtime = workers(2);
            let server = service.serve_on(&runtime, 1, |_| daiko::park()).unwrap();
            let client = Arc::new(Client::of(service.clone()));
            let taken = ask(&client, &runtime);
            let not_taken = ask(&client, &runtime);
            let waits_for_room = ask(&Arc::new(Client::of(service.clone())), &runtime);
            // The third pair does not sleep in the segment: it waits for a slot of its own client.
            until_asleep(&segment, 2);
            cut(&segment, bytes);
            for error in [taken(), not_taken(), waits_for_room()].into_iter().flatten() {
                assert!(matches!(error, CallError::Truncated), "{bytes}: {error:?}");
            }
            assert!(segment.is_truncated());
            // Server fibers that wait for requests have ended; those that carry out a request are
            // cancelled.
            drop(runtime);
            drop(server);
            segment.remove().unwrap();
        }
    });
}

#[test]
fn all_requests_to_a_truncated_segment_are_refused() {
    in_child_well("bad_peers::all_requests_to_a_truncated_segment_are_refused", || {
        let (segment, service) = place("ask");
        let runtime = workers(1);
        let client = Client::of(service.clone());
        let server = service.serve_on(&runtime, 1, |call| call.reply(&7u64)).unwrap();
        let reply = client.call(&1u64).unwrap();
        let draft = client.draft(None).unwrap();
        draft.bytes().write(b"before");
        cut(&segment, 0);
        let is_truncated = |error| matches!(error, CallError::Truncated);
        assert!(is_truncated(reply.read::<u64>().unwrap_err()));
        assert!(is_truncated(draft.call(6).unwrap_err()));
        assert!(is_truncated(client.call(&1u64).unwrap_err()));
        server.join();
        let refused = service.serve_on(&runtime, 1, |_| ()).unwrap_err();
        assert!(matches!(refused, ServeError::Segment(SegmentError::Truncated { .. })));
        let refused = Service::create(&segment, "another", Service::options()).unwrap_err();
        assert!(matches!(refused, SegmentError::Truncated { .. }));
        let refused = Service::open_or_create(&segment, "service", Service::options()).unwrap_err();
        assert!(matches!(refused, SegmentError::Truncated { .. }));
        segment.remove().unwrap();
    });
}

#[test]
fn clients_in_other_processes_are_told() {
    const NAME: &str = "bad_peers::clients_in_other_processes_are_told";
    if is_child() {
        let segment = Segment::open(std::env::var_os(SEGMENT).unwrap()).unwrap();
        let client = Client::connect(&segment, "service").unwrap();
        let error = workers(1).run(move || client.call(&1u64).map(drop).unwrap_err());
        assert!(matches!(error, CallError::Truncated), "{error:?}");
        std::process::exit(0);
    }
    let (segment, service) = place("others");
    let runtime = workers(1);
    let began = Arc::new(AtomicBool::new(false));
    let begins = began.clone();
    let server = service.serve_on(&runtime, 1, move |_| {
        begins.store(true, Ordering::Relaxed);
        daiko::park();
    });
    let mut child = command(NAME);
    let child = child.env(SEGMENT, segment.path()).stdout(Stdio::null()).spawn().unwrap();
    let mut child = Killed(child);
    until("a call in hand", || began.load(Ordering::Relaxed));
    until_asleep(&segment, 1);
    cut(&segment, 0);
    child.ends_well();
    drop((runtime, server));
    segment.remove().unwrap();
}

/// Words that a peer writes, into the service or into the tables before it.
fn scribbles() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let at = prop_oneof![
        4 => OBJECTS / 8..OBJECTS / 8 + 48_usize,
        // The words of the slots.
        4 => (0usize..4, 0usize..3).prop_map(|(slot, word)| (OBJECTS + 640 + slot * 8320) / 8 + word),
        2 => OBJECTS / 8..BYTES / 8,
        // The tables: attached processes, doorbells, and the owners of the doorbells.
        2 => (4 << 10) / 8..(4 << 10) / 8 + 32_usize,
        2 => (20 << 10) / 8..(20 << 10) / 8 + 64_usize,
        1 => (84 << 10) / 8..(84 << 10) / 8 + 16_usize,
        1 => 1024 / 8..OBJECTS / 8,
    ];
    let word = prop_oneof![
        any::<u64>(),
        0u64..16,
        Just(u64::MAX),
        // An attachment; the state of a slot, with a length.
        (0u64..3, 0u64..3).prop_map(|(generation, index)| generation << 32 | index << 16),
        (0u64..16, 0u64..100, 0u64..20000)
            .prop_map(|(phase, number, len)| { len << 32 | number << 4 | phase }),
    ];
    prop::collection::vec((at, word), 1..40)
}

fn write(mapping: &Mapping, (at, word): (usize, u64)) {
    assert!(8 * at < mapping.len());
    // SAFETY: a word of a live mapping, aligned.
    let place = unsafe { mapping.start().cast::<AtomicU64>().add(at).as_ref() };
    place.store(word, Ordering::Relaxed);
}

/// Makes calls. Each returns in time, with an arbitrary result.
fn call_all(client: &Client, service: &Service) {
    for _ in 0..3 {
        let reply = client.call_timeout(&[7u8; 24], Duration::from_millis(2));
        if let Ok(reply) = reply {
            assert!(reply.len() <= service.slot_bytes());
            let _ = (reply.read::<u64>(), reply.to_vec());
        }
    }
    let draft = client.draft(Some(Duration::ZERO));
    let _ = draft.and_then(|draft| draft.call(1000)?.read::<u8>());
    service.is_served();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn calls_and_servers_end_with_any_words_in_a_service(rounds in prop::collection::vec(scribbles(), 1..8)) {
        let (segment, service) = place("hostile");
        let theirs = SharedFile::open(segment.path()).unwrap().map(Populate::OnUse).unwrap();
        segment.remove().unwrap();
        let runtime = workers(1);
        let handler = |call: &mut daiko::shm::Call<'_>| {
            let _ = (call.read::<u64>(), call.timeout());
            let bytes = call.request().to_vec();
            call.reply_bytes(&bytes);
        };
        let (ends, rounds) = (AtomicBool::new(false), &rounds);
        std::thread::scope(|s| {
            // The peer goes on writing while the calls are made.
            let (ends, theirs) = (&ends, &theirs);
            s.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    rounds.iter().flatten().for_each(|&scribble| write(theirs, scribble));
                    std::thread::yield_now();
                }
            });
            for _ in rounds {
                let server = service.serve_on(&runtime, 2, handler);
                let client = Client::of(service.clone());
                call_all(&client, &service);
                let fiber = {
                    let service = service.clone();
                    runtime.spawn(move || call_all(&Client::of(service.clone()), &service))
                };
                fiber.join().unwrap();
                let _ = Service::open_or_create(&segment, "other", Service::options());
                drop((client, server));
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
