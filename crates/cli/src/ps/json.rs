//! `--json`: an object in one line for each release of the runtime in a process. Fields may be
//! added; these keep their names and meanings.
//!
//! Addresses are strings, in hexadecimal. A fiber has its `id`, `state`, `migratable`, and where
//! they are known `name`, `thread` (the kernel's id of a thread that has lent its context),
//! `spawned_at`, `wait` (`kind` and `object`), `worker` (its index), and with `--stacks` its
//! `stack`: a list of frames, the innermost first, with `function`, and where they are known `file`
//! and `line`.

use daiko_inspect::{FiberRow, Frame, RuntimeRow, Stack, WorkerRow};
use serde_json::{Map, Value, json};

use super::view::View;

pub(super) fn of(view: &View<'_>) -> Value {
    let fibers = view.listing.fibers.iter().enumerate().map(|(at, row)| {
        let stack = view.stacks.as_ref().map(|stacks| &stacks[at]);
        fiber(view, row, stack)
    });
    json!({
        "subject": view.listing.name,
        "release": view.listing.release,
        "runtimes": view.listing.runtimes.iter().map(|row| runtime(view, row)).collect::<Vec<_>>(),
        "fibers": fibers.collect::<Vec<_>>(),
    })
}

fn runtime(view: &View<'_>, row: &RuntimeRow) -> Value {
    let worker = |worker: &WorkerRow| {
        let names = view.counter_names.iter().cloned();
        let counters = worker.counters.iter().map(|&count| Value::from(count));
        json!({
            "index": worker.index,
            "thread": worker.thread,
            "running": worker.running.map(address),
            "active": worker.is_active,
            "stuck": worker.is_stuck,
            "counters": names.zip(counters).collect::<Map<_, _>>(),
        })
    };
    json!({ "id": address(row.id), "workers": row.workers.iter().map(worker).collect::<Vec<_>>() })
}

fn fiber(view: &View<'_>, row: &FiberRow, stack: Option<&Stack>) -> Value {
    let mut fields = Map::new();
    let mut add = |name: &str, value: Value| _ = fields.insert(name.to_owned(), value);
    add("id", address(row.id));
    add("runtime", address(row.runtime));
    add("state", row.state.name().into());
    add("migratable", row.is_migratable.into());
    if let Some(name) = &row.name {
        add("name", (**name).into());
    }
    if let Some(thread) = row.thread {
        add("thread", thread.into());
    }
    if let Some(place) = &row.spawned_at {
        add("spawned_at", place.to_string().into());
    }
    if let Some(wait) = &row.wait {
        let object = (wait.object != 0).then(|| address(wait.object));
        add("wait", json!({ "kind": &*wait.kind, "object": object }));
    }
    if let Some(worker) = view.listing.worker(row) {
        add("worker", worker.into());
    }
    if let Some(stack @ Stack::Frames(_)) = stack {
        add("stack", view.frames(stack).iter().map(frame).collect());
    }
    Value::Object(fields)
}

fn frame(frame: &Frame) -> Value {
    match &frame.line {
        Some((file, line)) => json!({ "function": frame.function, "file": file, "line": line }),
        None => json!({ "function": frame.function }),
    }
}

fn address(address: u64) -> Value {
    format!("{address:#x}").into()
}
