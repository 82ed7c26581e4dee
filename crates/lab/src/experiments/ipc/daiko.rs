//! `daiko`: a call with a deadline, from a fiber to a service of another process.
//!
//! A short message is a value. A long one lies in a slot as long as the message: its client copies
//! it in and out once, and the server answers in the slot, piece by piece.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use daiko::shm::bytemuck::{cast_slice, cast_slice_mut};
use daiko::shm::{Call, Client, Segment, Service};

use super::client::{Calls, answer};
use super::method::{IpcSpec, Link};
use super::silent::runtime;
use crate::kit::Failure;

/// Bytes of the segment beside the service.
const TABLES: usize = 1 << 20;
/// Bytes of the longest message that is passed as a value.
const MOST_VALUE: usize = 64;
/// Words of a long message that the server answers at a time; a part of every long message.
const PIECE: usize = 128;
/// Timeout of each call. No answer takes this long.
const TIMEOUT: Duration = Duration::from_secs(10);
const NAME: &str = "lab";

pub(super) struct Daiko {
    segment: Segment,
}

impl Link for Daiko {
    const NAME: &'static str = "daiko";

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        let options = match spec.bytes {
            ..=MOST_VALUE => Service::options(),
            bytes => Service::options().slot_bytes(bytes as u32),
        };
        let segment = Segment::anonymous(TABLES + options.bytes()).map_err(broken)?;
        Service::create(&segment, NAME, options).map_err(broken)?;
        Ok(Self { segment })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let runtime = runtime()?;
        let segment = self.attach()?;
        let service = Service::open(&segment, NAME).map_err(io::Error::other)?;
        let server = service.serve_on(&runtime, 2, |call| {
            if size_of::<[u64; WORDS]>() <= MOST_VALUE {
                let mut message: [u64; WORDS] = call.read().expect("all ask the same size");
                answer(&mut message);
                call.reply(&message);
            } else {
                answer_in_place(call);
            }
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
                    if size_of::<[u64; WORDS]>() <= MOST_VALUE {
                        *message = reply.read().map_err(io::Error::other)?;
                    } else if reply.len() == size_of::<[u64; WORDS]>() {
                        reply.bytes().read(cast_slice_mut(message));
                    } else {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
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

/// Answers a question of several pieces in the memory where it lies.
fn answer_in_place(call: &mut Call<'_>) {
    let (question, memory) = (call.request(), call.memory());
    let mut piece = [0; PIECE];
    for start in (0..question.len()).step_by(size_of_val(&piece)) {
        question.behind(start).read(cast_slice_mut(&mut piece));
        answer(&mut piece);
        memory.behind(start).write(cast_slice(&piece));
    }
    call.reply_in_place(question.len());
}

fn wait_for_server(client: &Client) -> io::Result<()> {
    while !client.service().is_served() {
        daiko::time::sleep(Duration::from_millis(1));
    }
    Ok(())
}
