//! A segment with a service, over words that a peer overwrites: all objects lie inside, and calls
//! and servers end.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use daiko::Runtime;
use daiko::shm::{
    Barrier, Call, Client, Condvar, MpmcChannel, Mutex, Once, Segment, Server, Service, Words,
};
use daiko_ipc::{MIN_BYTES, ObjectSpec};
use daiko_sys::file::{Populate, SharedFile};
use daiko_sys::memory::Mapping;

const BYTES: usize = MIN_BYTES + (64 << 10);
/// A wait that ends by its timeout, if the words say that it has to wait.
const WAIT: Duration = Duration::from_micros(20);
/// Largest number of servers: a server that cannot be rung for takes a second longer to end.
const MOST_SERVERS: usize = 3;

/// Each twelve bytes are a step: operation, caller, a size or place, and the new value of a word.
pub(super) fn fuzz(data: &[u8]) {
    let segment = Segment::anonymous(BYTES).expect("memory");
    let service = Service::create(&segment, "s", Service::options().slots(3)).expect("room");
    let client = Client::of(service.clone());
    let kinds = Kinds::create(&segment);
    let (memory, mut server, mut servers) = (theirs(&segment), None, 0);
    for &[what, by, low, high, word @ ..] in data.as_chunks::<12>().0 {
        let number = usize::from(u16::from_le_bytes([low, high]));
        match what % 8 {
            0..=2 => write(&memory, number % (BYTES / 8), u64::from_le_bytes(word)),
            3 => call(&client, &service, by),
            4 => use_tables(&segment, number),
            5 if by % 2 == 0 => use_objects(&segment, number),
            5 => kinds.use_one(by / 2),
            6 => attach_once_more(&segment, number),
            _ if servers < MOST_SERVERS => {
                drop(server.take());
                (server, servers) = (serve(&service), servers + 1);
            }
            _ => {}
        }
    }
}

/// The segment's memory in the view of a peer.
fn theirs(segment: &Segment) -> Mapping {
    let descriptor = segment.as_fd(|fd| fd.try_clone_to_owned()).expect("a descriptor");
    SharedFile::from_memfd(descriptor).and_then(|file| file.map(Populate::OnUse)).expect("memory")
}

fn write(memory: &Mapping, at: usize, word: u64) {
    assert!(8 * at < memory.len());
    // SAFETY: an aligned word of a live mapping.
    unsafe { memory.start().cast::<AtomicU64>().add(at).as_ref() }.store(word, Relaxed);
}

fn serve(service: &Service) -> Option<Server> {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Runtime::builder().workers(1).build().expect("a runtime"));
    let handler = |call: &mut Call<'_>| {
        let _ = (call.read::<u64>(), call.timeout());
        let request = call.request().to_vec();
        call.reply_bytes(&request);
    };
    service.serve_on(&RUNTIME, 2, handler).ok()
}

fn call(client: &Client, service: &Service, by: u8) {
    let most = service.slot_bytes();
    let timeout = Duration::from_micros(u64::from(by % 4) * 100);
    if let Ok(reply) = client.call_bytes(&vec![by; usize::from(by) % (most + 1)], Some(timeout)) {
        assert!(reply.len() <= most && reply.to_vec().len() == reply.len());
    }
    let draft = client.draft(Some(Duration::ZERO));
    let _ = draft.and_then(|draft| draft.call(usize::from(by))?.read::<u64>());
    service.is_served();
}

fn use_tables(segment: &Segment, number: usize) {
    if let Ok(bell) = segment.doorbell() {
        bell.doorbell().park();
        let _ = bell.company(bell.doorbell().cpu());
        bell.seat(number as u32).take(bell.number());
        segment.ring_bell(bell.number(), None);
    }
    segment.ring_bell(number, None);
    segment.watch_all();
    assert!(segment.attached().len() <= daiko_ipc::MAX_ATTACHED);
}

fn use_objects(segment: &Segment, number: usize) {
    let spec = ObjectSpec { kind: 77, bytes: number, agreed: 0, chosen: [0; 4] };
    let name = (number % 3).to_string();
    // SAFETY: its bytes are read as `Bytes`. Any other access stands for another process.
    let made = unsafe { segment.make_object(&name, spec, |_| ()) };
    if let Ok(object) = made {
        assert_eq!(object.bytes(0, number).to_vec().len(), number);
    }
    assert!(segment.free_bytes() < segment.bytes());
    for name in segment.objects() {
        // SAFETY: as above.
        let found = unsafe { segment.object(&name, "an object", |_| Ok(())) };
        let Ok(object) = found else { continue };
        let bytes = object.spec().bytes;
        assert!(object.bytes(0, bytes).to_vec().len() <= segment.bytes());
    }
}

/// Objects that wait for other processes.
struct Kinds {
    mutex: Mutex<u64>,
    condvar: Condvar,
    barrier: Barrier,
    once: Once,
    channel: MpmcChannel<u64>,
    words: Words<AtomicU64>,
}

impl Kinds {
    fn create(segment: &Segment) -> Self {
        let options = MpmcChannel::options().capacity(4).senders(2).receivers(2);
        Kinds {
            mutex: Mutex::create(segment, "mutex", 0).expect("room"),
            condvar: Condvar::create(segment, "condvar").expect("room"),
            barrier: Barrier::create(segment, "barrier", 3).expect("room"),
            once: Once::create(segment, "once").expect("room"),
            channel: MpmcChannel::create(segment, "channel", options).expect("room"),
            words: Words::create(segment, "words", 8).expect("room"),
        }
    }

    fn use_one(&self, what: u8) {
        match what % 5 {
            0 => {
                self.condvar.notify_one();
                self.condvar.notify_all();
                if let Ok(guard) = self.mutex.lock_timeout(WAIT) {
                    let _ = self.condvar.wait_timeout(guard, WAIT);
                }
                self.mutex.clear_poison();
            }
            1 => {
                let parties = [self.barrier.party(), self.barrier.party()];
                for mut party in parties.into_iter().flatten() {
                    let _ = (party.wait_timeout(WAIT), party.wait_timeout(Duration::ZERO));
                }
            }
            2 => {
                let _ = self.once.call_once_force_timeout(WAIT, |_| ());
            }
            3 => {
                let ends = (self.channel.sender(), self.channel.receiver());
                if let (Ok(sender), Ok(receiver)) = ends {
                    let _ = (sender.send_timeout(1, WAIT), sender.clone().try_send(2));
                    let _ = (receiver.recv_timeout(WAIT), receiver.clone().try_recv());
                    let _ = (sender.is_disconnected(), receiver.is_disconnected());
                }
            }
            _ => {
                assert_eq!(self.words.len(), 8);
                self.words.iter().for_each(|word| _ = word.load(Relaxed));
            }
        }
    }
}

fn attach_once_more(segment: &Segment, number: usize) {
    let Ok(other) = segment.as_fd(Segment::from_fd) else { return };
    assert_eq!(other.bytes(), segment.bytes());
    use_tables(&other, number);
    if let Ok(service) = Service::open(&other, "s") {
        call(&Client::of(service.clone()), &service, number as u8);
    }
}
