//! Counts the instructions of operations of the hot path.
//!
//! ```text
//! instructions                      # counts all operations, by single steps
//! instructions OPERATION...         # counts these
//! instructions OPERATION COUNT      # performs one of them COUNT times, for callgrind
//! ```
//!
//! A count is the difference of two runs, with N and 2N operations, divided by N. Callgrind has no
//! FSGSBASE, so it counts other paths wherever a fiber has thread-locals of its own, and wherever
//! the worker is asked for; single steps count those that the processor takes.

use std::env;
use std::hint::black_box;
use std::io;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use daiko::sync::{Mutex, channel};
use daiko::{Builder, Runtime};
use daiko_sys::process::{count_steps, mark};

/// Makes a builder of fibers of one kind.
type Kind = fn() -> Builder;

/// An operation: its name, the kind of its fibers, and the function that performs it so many times.
type Operation = (&'static str, Kind, fn(Kind, u32));

const OPERATIONS: [Operation; 14] = [
    ("park-own", Builder::new, park_in_turn),
    ("park-own-mover", own_mover, park_in_turn),
    ("park-borrowed", borrowed, park_in_turn),
    ("park-borrowed-mover", borrowed_mover, park_in_turn),
    ("yield-own", Builder::new, take_turns),
    ("yield-own-mover", own_mover, take_turns),
    ("yield-borrowed", borrowed, take_turns),
    ("yield-borrowed-mover", borrowed_mover, take_turns),
    ("mutex", Builder::new, lock_and_unlock),
    ("mutex-borrowed", borrowed, lock_and_unlock),
    ("spawn-own", Builder::new, spawn_and_join),
    ("spawn-borrowed", borrowed, spawn_and_join),
    ("recv-own", Builder::new, receive),
    ("recv-borrowed", borrowed, receive),
];

/// Operations of the shorter run that is counted.
const COUNT: u32 = 200;
/// Set in the process that is counted.
const IS_COUNTED: &str = "DAIKO_INSTRUCTIONS_COUNTED";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let done = match &args[..] {
        [operation, count] if count.parse::<u32>().is_ok() => {
            perform(operation, count.parse().expect("checked"))
        }
        [] => OPERATIONS.iter().try_for_each(|(name, ..)| print(name)),
        names => names.iter().try_for_each(|name| print(name)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("instructions: {line}");
            ExitCode::from(2)
        }
    }
}

/// Prints the instructions of an operation.
fn print(operation: &str) -> Result<(), String> {
    find(operation)?;
    let counted =
        |count| counted(operation, count).map_err(|error| format!("{operation}: {error}"));
    let steps = counted(2 * COUNT)? - counted(COUNT)?;
    println!("{operation:24}{:8.1}", steps as f64 / f64::from(COUNT));
    Ok(())
}

/// Counts the instructions of so many operations, by a process that performs them.
fn counted(operation: &str, count: u32) -> io::Result<u64> {
    let mut command = Command::new(env::current_exe()?);
    count_steps(command.args([operation, &count.to_string()]).env(IS_COUNTED, "1"))
}

/// Performs an operation so many times, in a fiber of its kind, after a few times to get warm.
fn perform(operation: &str, count: u32) -> Result<(), String> {
    let (_, kind, run) = find(operation)?;
    let runtime = Runtime::builder().workers(1).build().map_err(|error| error.to_string())?;
    let body = move || {
        run(kind, 10);
        marked(|| run(kind, count));
    };
    let fiber = runtime.spawn_with(kind(), body).map_err(|error| error.to_string())?;
    fiber.join().map_err(|error| error.to_string())
}

fn find(operation: &str) -> Result<Operation, String> {
    let found = OPERATIONS.into_iter().find(|(name, ..)| *name == operation);
    found.ok_or_else(|| {
        let names = OPERATIONS.map(|(name, ..)| name).join(", ");
        format!("no operation is named '{operation}'; there are: {names}")
    })
}

/// Calls `body`, between two marks if this process is counted.
fn marked(body: impl FnOnce()) {
    if env::var_os(IS_COUNTED).is_none() {
        return body();
    }
    // SAFETY: the variable is set by `counted` only.
    unsafe { mark() };
    body();
    // SAFETY: as above.
    unsafe { mark() };
}

fn own_mover() -> Builder {
    Builder::new().migratable()
}

fn borrowed() -> Builder {
    // SAFETY: the fibers of this program use no thread-local but those of the runtime and of the
    // allocator, which neither suspend nor are in use across a suspension.
    unsafe { Builder::new().borrowed() }
}

fn borrowed_mover() -> Builder {
    // SAFETY: as in `borrowed`; and there is one worker.
    unsafe { Builder::new().borrowed_migratable() }
}

/// Makes two fibers yield to each other; a switch is half of a turn.
fn take_turns(kind: Kind, count: u32) {
    let yields = move || (0..count / 2).for_each(|_| daiko::yield_now());
    let other = kind().spawn(yields).unwrap();
    yields();
    other.join().unwrap();
}

/// Makes two fibers unpark each other and park.
fn park_in_turn(kind: Kind, count: u32) {
    let first = daiko::current();
    let second = kind().spawn(move || {
        for _ in 0..count / 2 {
            daiko::park();
            first.unpark();
        }
    });
    let second = second.unwrap();
    for _ in 0..count / 2 {
        second.fiber().unpark();
        daiko::park();
    }
    second.join().unwrap();
}

fn lock_and_unlock(_: Kind, count: u32) {
    let mutex = Mutex::new(0u32);
    (0..count).for_each(|_| *mutex.lock().unwrap() += 1);
    black_box(&mutex);
}

fn spawn_and_join(kind: Kind, count: u32) {
    (0..count).for_each(|n| {
        let _ = black_box(kind().spawn(move || n).unwrap().join());
    });
}

/// Receives messages of a neighbour; the receiver has to wait for each.
fn receive(kind: Kind, count: u32) {
    let (sender, receiver) = channel::bounded::<u32>(1);
    let sender = Arc::new(sender);
    let neighbour = kind().spawn(move || (0..count).for_each(|n| sender.send(n).unwrap()));
    (0..count).for_each(|_| {
        black_box(receiver.recv().unwrap());
    });
    neighbour.unwrap().join().unwrap();
}
