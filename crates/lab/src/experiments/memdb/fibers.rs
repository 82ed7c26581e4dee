//! `daiko`: a fiber for each session.

#![allow(clippy::duplicate_mod, reason = "each library has its own copy of the modules that wait")]

#[path = "../../../memdb/converse.rs"]
mod converse;
#[path = "../../../memdb/database.rs"]
mod database;
#[path = "../../../log/file.rs"]
#[allow(dead_code, reason = "no log is rewritten")]
mod file;
#[path = "../../../log/log.rs"]
#[allow(dead_code, reason = "no log is rewritten")]
mod log;
#[path = "../../../log/platform.rs"]
mod platform;
#[path = "../../../memdb/session.rs"]
#[allow(dead_code, reason = "there is no service")]
mod session;

use std::convert::Infallible;
use std::hint::black_box;
use std::io;
use std::sync::Arc;

use daiko::net::TcpListener;
use daiko::{Fiber, Runtime};

use self::converse::converse;
use self::database::{DatabaseOptions, MemDb};
use self::log::{Fsync, LogOptions};
use self::platform::on_warm_stack;
use super::in_process::{Mailboxes, WakeSession};
use super::parts::mix::Mix;
use super::parts::{contents, record, replay, request, schema, tables, transactions};
use super::setup::{DatabaseSetup, SCALE, SEED, segment};
use crate::kit::Failure;
use crate::kit::address::Address;

pub(super) fn start(
    setup: &DatabaseSetup<'_>,
    mailboxes: Arc<Mailboxes>,
) -> Result<WakeSession, Failure> {
    let database = open(setup).map_err(Failure::Broken)?;
    let runtime = Runtime::builder().workers(1).build()?;
    let spawn = |session| {
        let (database, mailboxes) = (Arc::clone(&database), Arc::clone(&mailboxes));
        let body = move || converse_here(session, &database, &mailboxes);
        runtime.spawn(body).fiber().clone()
    };
    let fibers: Vec<Fiber> = (0..setup.sessions).map(spawn).collect();
    // The fibers end with the process.
    std::mem::forget(runtime);
    Ok(Box::new(move |session| fibers[session].unpark()))
}

/// The session of a fiber.
fn converse_here(session: usize, database: &MemDb, mailboxes: &Mailboxes) {
    let mut mix = Mix::new(SEED, session, SCALE);
    loop {
        while !mailboxes.take(session) {
            daiko::park();
        }
        let position = on_warm_stack(|| {
            let (reply, position) = database.execute(&mix.next().1);
            black_box(&reply);
            position
        });
        let reached = database.log().is_none_or(|log| log.reach(position).is_ok());
        mailboxes.note(session, reached);
    }
}

pub(super) fn serve(address: &Address, setup: &DatabaseSetup<'_>) -> io::Result<Infallible> {
    let database = open(setup).map_err(io::Error::other)?;
    let runtime = Runtime::builder().workers(1).build().map_err(io::Error::other)?;
    let address = address.tcp()?;
    runtime.run(move || {
        let listener = TcpListener::bind(address)?;
        loop {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let database = Arc::clone(&database);
            // The load tells if a session ends.
            daiko::spawn(move || drop(converse(&mut stream, &database)));
        }
    })
}

fn open(setup: &DatabaseSetup<'_>) -> Result<Arc<MemDb>, String> {
    let log = |path| LogOptions {
        fsync: Fsync::Always,
        rewrite_bytes: u64::MAX,
        ..LogOptions::new(path)
    };
    let options = DatabaseOptions { log: setup.log.map(log), scale: Some(SCALE), seed: SEED };
    MemDb::open(&options, segment).map(Arc::new)
}
