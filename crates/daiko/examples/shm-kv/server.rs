//! The server process.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::sync::Arc;

use daiko::Runtime;
use daiko::shm::{Call, Segment, SegmentError, Service};
use daiko::sync::Event;

use crate::problem::Problem;
use crate::protocol::{Outcome, Refusal, Request, SERVICE, encode_outcome};
use crate::store::Store;

pub(crate) struct Options {
    pub(crate) slots: u32,
    /// The bytes of a slot; `None`: those of an existing segment, or the default.
    pub(crate) slot_bytes: Option<u32>,
}

const USUAL_SLOT_BYTES: u32 = 1024;
/// Fibers that serve on each worker: so many requests may wait for the lock of the store while
/// more are carried out.
const FIBERS: usize = 4;

/// Serves the store `name` until a client asks to stop.
pub(crate) fn run(name: &OsStr, options: Options) -> Result<(), Problem> {
    let (segment, service) = open(name, &options)?;
    let runtime = Runtime::builder().build().map_err(Problem::failed)?;
    let answers = Arc::new(Answers {
        store: Store::default(),
        segment: segment.clone(),
        stop: Event::manual(),
    });
    let handler = {
        let answers = answers.clone();
        move |call: &mut Call<'_>| answers.answer(call)
    };
    let server = service.serve_on(&runtime, FIBERS, handler).map_err(Problem::failed)?;
    // It serves even if standard output is closed.
    let _ = writeln!(io::stdout(), "serves {}", segment.path().display());
    answers.stop.wait();
    // Waits for the calls in hand; the call that asked to stop is among them.
    drop(server);
    segment.remove().map_err(Problem::failed)
}

/// The state that the serving fibers share.
struct Answers {
    store: Store,
    segment: Segment,
    stop: Event,
}

impl Answers {
    fn answer(&self, call: &mut Call<'_>) {
        let request = call.request().to_vec();
        let outcome = match Request::decode(&request) {
            Some(Request::Stop) => self.stop(),
            Some(request) => self.store.carry_out(request, call.memory().len()),
            None => Err(Refusal::Malformed),
        };
        call.reply_bytes(&encode_outcome(outcome));
    }

    fn stop(&self) -> Outcome {
        // Removes it before the reply, so that a client that reads the reply may start another
        // server. `run` reports a failure.
        let _ = self.segment.remove();
        self.stop.set();
        Ok(Vec::new())
    }
}

/// Opens the segment and its service. Those that a killed server has left are taken over.
fn open(name: &OsStr, options: &Options) -> Result<(Segment, Service), Problem> {
    let suits = |service: &Service| {
        options.slot_bytes.is_none_or(|asked| asked as usize == service.slot_bytes())
    };
    if let Ok(segment) = Segment::open(name)
        && let Ok(service) = Service::open(&segment, SERVICE)
        && suits(&service)
    {
        return Ok((segment, service));
    }
    let slot_bytes = options.slot_bytes.unwrap_or(USUAL_SLOT_BYTES);
    let shape = Service::options().slots(options.slots).slot_bytes(slot_bytes);
    let made = Segment::open_or_create(name, room(options.slots, slot_bytes))
        .and_then(|segment| Ok((Service::open_or_create(&segment, SERVICE, shape)?, segment)));
    match made {
        Ok((service, segment)) if suits(&service) => Ok((segment, service)),
        // The segment exists, and is not to be replaced: it is in use, or as large as asked for.
        Ok(_) | Err(SegmentError::Size { .. } | SegmentError::NoRoom { .. }) => {
            Err(other_size(name))
        }
        Err(error) => Err(Problem::failed(error)),
    }
}

/// Returns the bytes of a segment for so many slots, with room for its tables and for the words
/// around a message.
fn room(slots: u32, slot_bytes: u32) -> usize {
    (1 << 20) + slots as usize * (slot_bytes as usize + 256)
}

fn other_size(name: &OsStr) -> Problem {
    Problem::Failed(format!(
        "the segment {} is there, and has slots of another size; leave --slot-bytes out, or end its users and remove it",
        name.display()
    ))
}
