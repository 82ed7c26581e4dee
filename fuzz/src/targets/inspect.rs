//! Views of a process from outside: of this process, while words that are read are wrong; the
//! mappings of a process; core files.

use std::cell::Cell;
use std::sync::{Arc, Once};

use daiko_core::inspect::{Image, Memory, Reader, Span};
use daiko_inspect::{Backtracer, FiberState, Subject, parse_mapped_files, parse_maps};

/// Most fibers that are looked at once more, with their stacks.
const MOST_STACKS: usize = 16;

/// The first byte selects: mappings, the note of a core file, an image, or the memory. Each twelve
/// further bytes spoil one read: its number, the offset of a word, and the word.
pub(super) fn fuzz(data: &[u8]) {
    let Some((&what, data)) = data.split_first() else { return };
    match what % 4 {
        0 => mappings(data),
        1 => _ = parse_mapped_files(data),
        2 => _ = Image::read(&Bytes(data), 0).map(|image| image.table(&Bytes(data))),
        _ => spoiled(data),
    }
}

fn mappings(data: &[u8]) {
    for mapping in parse_maps(&String::from_utf8_lossy(data)) {
        assert!(mapping.range.start < mapping.range.end);
    }
}

/// Memory that begins at address 0.
struct Bytes<'d>(&'d [u8]);

impl Memory for Bytes<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let from = usize::try_from(address).ok().and_then(|at| self.0.get(at..));
        let bytes = from.and_then(|from| from.get(..into.len()));
        bytes.inspect(|bytes| into.copy_from_slice(bytes)).is_some()
    }
}

/// The memory of a process, with wrong words.
struct Spoiled<'d> {
    subject: &'d Subject,
    faults: &'d [[u8; 12]],
    reads: Cell<u16>,
}

impl Memory for &Spoiled<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        assert!(into.len() <= 16 << 20, "a length is not bounded");
        if !self.subject.read(address, into) {
            return false;
        }
        let number = self.reads.replace(self.reads.get().wrapping_add(1));
        for &[low, high, near, far, word @ ..] in self.faults {
            let at = usize::from(u16::from_le_bytes([near, far]));
            if u16::from_le_bytes([low, high]) == number
                && let Some(place) = into.get_mut(at..at + word.len())
            {
                place.copy_from_slice(&word);
            }
        }
        true
    }
}

fn spoiled(data: &[u8]) {
    start_fibers();
    let subject = Subject::process(std::process::id()).expect("the own process");
    let table = subject.files().iter().find_map(|file| file.table);
    let table = table.expect("this program has a runtime");
    let faults = data.as_chunks::<12>().0;
    let memory = Spoiled { subject: &subject, faults, reads: Cell::new(0) };
    let Ok(reader) = Reader::new(&memory, table) else { return };
    let (runtimes, fibers) = reader.all();
    let _ = (reader.holders(), reader.thread_waits(), reader.tracks_locks());
    for worker in runtimes.iter().flat_map(|runtime| &runtime.workers) {
        if let Some(row) = reader.recorder(worker.id)
            && let Some(events) = reader.events(&row, row.recorded, u64::MAX)
        {
            assert_eq!(events.len() as u64, row.ring_events);
        }
    }
    let mut backtracer = Backtracer::new(&subject);
    for fiber in fibers.iter().take(MOST_STACKS) {
        assert!(FiberState::ALL.contains(&fiber.state));
        if let Some((context, stack)) = reader.context(fiber) {
            let frames = backtracer.backtrace(&context, &stack);
            assert!(frames.len() <= 1024);
        }
        let _ = reader.look_again(fiber, &runtimes);
    }
    let range = Span { start: table, len: usize::from(u16::MAX) };
    assert!((&memory).read_up_to(range).len() <= range.len);
}

/// Starts some fibers that wait, once.
fn start_fibers() {
    static START: Once = Once::new();
    START.call_once(|| {
        let lock = Arc::new(daiko::sync::Mutex::new(()));
        drop(daiko::spawn({
            let lock = Arc::clone(&lock);
            move || {
                let _held = lock.lock();
                daiko::park();
            }
        }));
        for index in 0..4 {
            let (lock, fiber) = (Arc::clone(&lock), daiko::Builder::new());
            let fiber = fiber.name(format!("fiber-{index}"));
            drop(fiber.spawn(move || drop(lock.lock())).expect("memory"));
        }
    });
}
