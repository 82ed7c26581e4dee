//! Request and reply between processes.

use std::ffi::{c_char, c_void};
use std::time::Duration;

use daiko::shm::{Call, CallError, Client, Segment, ServeError, Server, Service};
use libc::timespec;

use super::{code_of_segment, name};
use crate::answer::{answer, caller, wait};
use crate::deadline;
use crate::life::{code_of_spawn, default_runtime};
use crate::pointer::{Code, OutPlace, Parcel, Passed, bytes, give};

/// `daiko_handler`: gets the request in the memory of a slot, writes the reply there, and returns
/// the length of the reply.
type Handler = unsafe extern "C" fn(*mut c_void, *mut u8, usize, usize) -> usize;

fn code_of_call(error: &CallError) -> Code {
    match error {
        CallError::TimedOut { .. } => libc::ETIMEDOUT,
        CallError::NotServed => libc::ECONNREFUSED,
        CallError::ServerDied => libc::EOWNERDEAD,
        CallError::TooLarge { .. } => libc::EMSGSIZE,
        CallError::Panicked => libc::ENOTRECOVERABLE,
        _ => libc::EIO,
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_client_connect(
    client: OutPlace<*const Client>,
    segment: Passed<Segment>,
    called: *const c_char,
) -> Code {
    answer(|| {
        client.check()?;
        let connected = Client::connect(segment.get()?, name(called)?);
        client.put(give(connected.map_err(|error| code_of_segment(&error))?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_client_call(
    client: Passed<Client>,
    request: *const u8,
    size: usize,
    until: Passed<timespec>,
    reply: *mut u8,
    room: usize,
    len: OutPlace<usize>,
) -> Code {
    wait(|| {
        len.check()?;
        if reply.is_null() && room > 0 {
            return Err(libc::EINVAL);
        }
        let timeout: Option<Duration> = deadline::named_or_never(&until)?.left();
        let (client, request) = (client.get()?, bytes(request, size)?);
        let got = client.call_bytes(request, timeout).map_err(|error| code_of_call(&error))?;
        let got = got.to_vec();
        len.put(got.len())?;
        if got.len() > room {
            return Err(libc::EMSGSIZE);
        }
        if !got.is_empty() {
            // SAFETY: by `daiko.h`, there is room for so many bytes, in memory of the caller alone.
            unsafe { reply.copy_from_nonoverlapping(got.as_ptr(), got.len()) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_client_close(client: Passed<Client>) -> Code {
    answer(|| client.take().map(drop))
}

/// Serves one call by the function of C.
fn serve(call: &mut Call<'_>, handler: Handler, argument: Parcel) {
    let (request, memory) = (call.request().len(), call.memory());
    // SAFETY: by `daiko.h`, the function accepts the argument that was passed with it. The memory
    // is that of a slot, which only this call and a client that breaks the protocol use.
    let len = unsafe { handler(argument.0, memory.start().as_ptr(), request, memory.len()) };
    if len <= memory.len() {
        call.reply_in_place(len);
    }
}

/// Serves the service of this name, which it creates if there is none.
fn start(
    server: OutPlace<*const Server>,
    segment: Passed<Segment>,
    called: *const c_char,
    [slots, slot_bytes]: [u32; 2],
    handler: Option<Handler>,
    argument: *mut c_void,
    is_shared: bool,
) -> Result<(), Code> {
    server.check()?;
    let (handler, argument) = (handler.ok_or(libc::EINVAL)?, Parcel(argument));
    let options = Service::options().slots(slots).slot_bytes(slot_bytes);
    let service = Service::open_or_create(segment.get()?, name(called)?, options);
    let service = service.map_err(|error| code_of_segment(&error))?;
    let serves = move |call: &mut Call<'_>| serve(call, handler, argument);
    let builder = Server::builder(&service);
    let builder = if is_shared { builder.shared() } else { builder };
    let served = match caller() {
        Some(_) => builder.serve(serves),
        None => builder.on(default_runtime()?.get()?).serve(serves),
    };
    let served = served.map_err(|error| match error {
        ServeError::Served | ServeError::Full => libc::EBUSY,
        ServeError::Spawn(error) => code_of_spawn(&error),
        ServeError::Segment(error) => code_of_segment(&error),
        _ => libc::EAGAIN,
    });
    server.put(give(served?))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_service_serve(
    server: OutPlace<*const Server>,
    segment: Passed<Segment>,
    called: *const c_char,
    slots: u32,
    slot_bytes: u32,
    handler: Option<Handler>,
    argument: *mut c_void,
) -> Code {
    let sizes = [slots, slot_bytes];
    answer(|| start(server, segment, called, sizes, handler, argument, false))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_service_share(
    server: OutPlace<*const Server>,
    segment: Passed<Segment>,
    called: *const c_char,
    slots: u32,
    slot_bytes: u32,
    handler: Option<Handler>,
    argument: *mut c_void,
) -> Code {
    let sizes = [slots, slot_bytes];
    answer(|| start(server, segment, called, sizes, handler, argument, true))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_server_stop(server: Passed<Server>) -> Code {
    wait(|| {
        let server = server.take()?;
        // The server is gone at the end, so no cancel may end the wait for its calls.
        match caller() {
            Some(fiber) => fiber.flags.shield(|| drop(server)),
            None => drop(server),
        }
        Ok(())
    })
}
