//! `daiko`: a call with a deadline, from a fiber to a service of another process.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use daiko::Runtime;
use daiko::shm::{Client, Segment, Service};

use super::client::{Calls, answer};
use super::method::Link;
use crate::kit::Failure;

/// Bytes of the segment: its tables and the slots.
const BYTES: usize = 1 << 20;
/// Timeout of each call. No answer takes this long.
const TIMEOUT: Duration = Duration::from_secs(10);
const NAME: &str = "lab";

pub(super) struct Daiko {
    segment: Segment,
}

impl Link for Daiko {
    const NAME: &'static str = "daiko";

    fn open(_clients: usize) -> Result<Self, Failure> {
        let segment = Segment::anonymous(BYTES).map_err(broken)?;
        Service::create(&segment, NAME, Service::options()).map_err(broken)?;
        Ok(Self { segment })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let runtime = runtime()?;
        let segment = self.attach()?;
        let service = Service::open(&segment, NAME).map_err(io::Error::other)?;
        let server = service.serve_on(&runtime, 2, |call| {
            let question: [u64; WORDS] = call.read().expect("all ask the same size");
            call.reply(&answer(question));
        });
        server.map_err(io::Error::other)?.join();
        Err(io::Error::other("the server's fibers have ended"))
    }

    fn ask<const WORDS: usize>(&self, _client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let segment = self.attach()?;
        let client = Client::connect(&segment, NAME).map_err(io::Error::other)?;
        let runtime = runtime()?;
        runtime.scope(|s| {
            let asks = s.spawn(|| {
                wait_for_server(&client)?;
                calls.make(|message| {
                    let reply = client.call_timeout(message, TIMEOUT).map_err(io::Error::other)?;
                    *message = reply.read().map_err(io::Error::other)?;
                    Ok(())
                })
            });
            asks.join().unwrap_or_else(|error| Err(io::Error::other(error.to_string())))
        })
    }
}

impl Daiko {
    /// Attaches the calling process, which was forked from the creator of the segment.
    fn attach(&self) -> io::Result<Segment> {
        self.segment.as_fd(Segment::from_fd).map_err(io::Error::other)
    }
}

fn broken(error: impl std::error::Error) -> Failure {
    Failure::Broken(error.to_string())
}

/// A runtime of one worker, on the single CPU of the process.
fn runtime() -> io::Result<Runtime> {
    Runtime::builder().workers(1).build().map_err(io::Error::other)
}

fn wait_for_server(client: &Client) -> io::Result<()> {
    while !client.service().is_served() {
        daiko::time::sleep(Duration::from_millis(1));
    }
    Ok(())
}
