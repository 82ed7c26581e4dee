//! The server: sessions over TCP, and calls of other processes through a segment.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use daiko::net::{TcpListener, TcpStream};
use daiko::shm::{Call, Segment, SegmentError, Server, Service};
use daiko::sync::Event;

use super::converse::{converse, settle};
use super::database::MemDb;
use super::file::tell;
use super::options::ServeOptions;
use super::request::{DbRequest, MOST_REPLY_BYTES, MOST_REQUEST_BYTES, Refusal, Reply};
use super::schema::Scale;
use super::session::UnsentReplies;
use super::tables::Tables;

/// The name of the service in its segment. Raise the number with every change of `request`, so that
/// programs of different versions do not find each other.
pub(crate) const SERVICE: &str = "memdb/1";
const SLOT_BYTES: usize =
    if MOST_REQUEST_BYTES > MOST_REPLY_BYTES { MOST_REQUEST_BYTES } else { MOST_REPLY_BYTES };
/// Bytes of a segment beside its tables and its service: the list of its objects.
const SEGMENT_BYTES: usize = 1 << 20;

/// Serves until a client asks to stop.
///
/// # Errors
///
/// One line for the user.
pub(crate) fn serve(options: &ServeOptions) -> Result<(), String> {
    let office = Arc::new(Office::default());
    let mut place_of_calls = None;
    let database = MemDb::open(&options.database, |scale| match &options.segment {
        None => Segment::anonymous(Tables::bytes(scale) + SEGMENT_BYTES).map_err(told),
        Some(name) => {
            let calls = Calls::begin(name, scale, options.slots, &office)?;
            let segment = calls.segment.clone();
            place_of_calls = Some(calls);
            Ok(segment)
        }
    })?;
    let database = Arc::new(database);
    if database.log().is_some() {
        let kept = Arc::clone(&database);
        daiko::spawn(move || kept.log().map(super::log::Log::keep));
    }
    let listener = match &options.tcp {
        None => None,
        Some(address) => Some(listen(address)?),
    };
    office.open(&database);
    if let Some(calls) = &place_of_calls {
        say(&calls.segment.path().display());
    }
    if let Some((listener, at)) = listener {
        say(&at);
        daiko::spawn(move || accept(&listener, &database));
    }
    office.stop.wait();
    place_of_calls.map_or(Ok(()), Calls::end)
}

/// Tells that it serves. It serves even if standard output is closed.
fn say(at: &impl Display) {
    let _ = writeln!(io::stdout(), "serves {at}");
}

fn listen(address: &str) -> Result<(TcpListener, std::net::SocketAddr), String> {
    let cannot = |error| {
        format!("cannot listen on {address:?}: {error}; give --tcp another address, as 127.0.0.1:0")
    };
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    Ok((listener, at))
}

/// Starts a session for each client that connects.
fn accept(listener: &TcpListener, database: &Arc<MemDb>) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => start(stream, database),
            // An example is too many open descriptors. The error comes after a pause, in which
            // clients may leave.
            Err(error) => tell(&format!("cannot accept: {error}")),
        }
    }
}

fn start(mut stream: TcpStream, database: &Arc<MemDb>) {
    let database = Arc::clone(database);
    // Without memory for a fiber the connection is closed. An error that ends a connection concerns
    // its client only.
    let _ = daiko::Builder::new().spread().spawn(move || {
        let _ = stream.set_nodelay(true);
        let _ = converse(&mut stream, &database);
    });
}

/// The place of calls of other processes, which is taken before the database is open: so no two
/// servers write to one segment.
struct Calls {
    segment: Segment,
    server: Server,
}

/// The database as soon as it is open.
struct Office {
    segment: OnceLock<Segment>,
    database: OnceLock<Arc<MemDb>>,
    is_open: Event,
    stop: Event,
}

impl Calls {
    /// Makes the segment and its service, or takes those over that a killed server has left. Calls
    /// wait until the office is open.
    fn begin(
        name: &OsStr,
        scale: Scale,
        slots: u32,
        office: &Arc<Office>,
    ) -> Result<Calls, String> {
        let shape = Service::options().slots(slots).slot_bytes(SLOT_BYTES as u32);
        let bytes = SEGMENT_BYTES + shape.bytes() + Tables::bytes(scale);
        let segment = Segment::open_or_create(name, bytes).map_err(told)?;
        let service = Service::open_or_create(&segment, SERVICE, shape);
        let other = |error: SegmentError| {
            let path = segment.path().display();
            format!(
                "{path} is of other numbers of rows or slots ({error}): remove it, or name another segment"
            )
        };
        let service = service.map_err(other)?;
        office.segment.get_or_init(|| segment.clone());
        let office = Arc::clone(office);
        // As many fibers as there are slots: each may wait for the log.
        let answer = move |call: &mut Call<'_>| office.answer(call);
        let server = service.serve(slots as usize, answer).map_err(told)?;
        // Tables of other numbers of rows are found here, before any row is written.
        Tables::place(&segment, scale).map_err(other)?;
        Ok(Calls { segment, server })
    }

    /// Ends the service, after the calls in hand.
    fn end(self) -> Result<(), String> {
        drop(self.server);
        self.segment.remove().map_err(told)
    }
}

impl Default for Office {
    fn default() -> Office {
        let (segment, database) = (OnceLock::new(), OnceLock::new());
        Office { segment, database, is_open: Event::manual(), stop: Event::manual() }
    }
}

impl Office {
    fn open(&self, database: &Arc<MemDb>) {
        self.database.get_or_init(|| Arc::clone(database));
        self.is_open.set();
    }

    fn answer(&self, call: &mut Call<'_>) {
        self.is_open.wait();
        let Some(database) = self.database.get() else { return };
        let mut replies = UnsentReplies::default();
        let (reply, position) = match DbRequest::decode(&call.request().to_vec()) {
            Some(DbRequest::Stop) => (self.stop(), Default::default()),
            Some(request) => database.execute(&request),
            None => (Reply::Refused(Refusal::Malformed), Default::default()),
        };
        replies.add(&reply, position);
        settle(database, &mut replies);
        call.reply_bytes(replies.only());
    }

    fn stop(&self) -> Reply {
        // Removes it before the reply, so that a client that reads the reply may start another
        // server. `Calls::end` reports a failure.
        let _ = self.segment.get().map(Segment::remove);
        self.stop.set();
        Reply::Stopped
    }
}

fn told(error: impl Display) -> String {
    error.to_string()
}
