//! Loads the scheduler into the kernel, and reaches the one that runs.
//!
//! What it reads and counts lies in maps, which are pinned while it is attached, so that other processes find them. It is
//! attached as long as the process that has started it lives; what that leaves behind when it is killed is told from
//! what is in use by the kernel's own word on who schedules.

mod maps;
mod messages;
mod recording;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use libbpf_rs::{ErrorKind, Link, MapCore, Object, ObjectBuilder};

use crate::{Counters, Ending, Error, Kernel, NAME, Settings, State};
use maps::{Maps, Setting};

pub use recording::Recording;

/// The scheduler, compiled.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/follow.bpf.o"));
/// How many CPUs its masks have bits for (`MOST_CPUS`).
const MOST_CPUS: u32 = 128;
/// The longest that the kernel may take for letting go of it.
const END_WITHIN: Duration = Duration::from_secs(20);

/// The scheduler, attached by this process. It is detached when this goes out of scope.
pub struct Running {
    maps: Maps,
    /// Dropped first: nobody has to find maps of a scheduler that decides no more.
    _pins: maps::Pins,
    _link: Link,
    _object: Object,
}

/// Loads the scheduler and attaches it.
pub fn start(settings: Settings) -> Result<Running, Error> {
    check()?;
    messages::keep();
    let opened = ObjectBuilder::default().open_memory(OBJECT).map_err(refused)?;
    let mut object = opened.load().map_err(refused)?;
    let pins = maps::Pins::make(&mut object)?;
    let maps = Maps::open()?;
    maps.change(settings)?;
    let mut scheduler = object
        .maps_mut()
        .find(|map| map.name() == NAME)
        .ok_or_else(|| Error::new("the scheduler was built without its table of operations"))?;
    let link = scheduler.attach_struct_ops().map_err(refused)?;
    Ok(Running { maps, _pins: pins, _link: link, _object: object })
}

fn check() -> Result<(), Error> {
    is_root()?;
    let kernel = Kernel::here();
    kernel.is_free()?;
    match kernel.cpus()? {
        cpus if cpus > MOST_CPUS => Err(Error::new(format!(
            "this machine may have {cpus} CPUs; the scheduler is for {MOST_CPUS} at most"
        ))),
        _ => Ok(()),
    }
}

fn is_root() -> Result<(), Error> {
    // The folder belongs to whom the process acts as.
    match fs::metadata("/proc/self").map(|folder| folder.uid()) {
        Ok(0) => Ok(()),
        _ => Err(Error::new("schedulers are root's to see and change: run it with sudo")),
    }
}

/// What the kernel, or the library before it, did not like.
fn refused(error: libbpf_rs::Error) -> Error {
    let told = messages::take();
    let because = if told.is_empty() { error.to_string() } else { told };
    Error::new(match (error.kind(), Kernel::here().state()) {
        (_, State::Attached(name)) => {
            format!("another scheduler was attached meanwhile: {name}; there can be one only")
        }
        (ErrorKind::PermissionDenied, _) => format!(
            "this machine permits no BPF scheduler, not even root's ({because}): see kernel.lockdown, and what the container may do"
        ),
        _ => format!("the kernel refuses the scheduler: {because}"),
    })
}

impl Running {
    /// What it has counted since it was attached.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.maps.counters()
    }

    /// What it reads at each wake-up.
    pub fn settings(&self) -> Result<Settings, Error> {
        self.maps.settings()
    }

    /// Whether `daiko follow stop` was called.
    pub fn is_to_stop(&self) -> Result<bool, Error> {
        Ok(self.maps.get(Setting::Stop)? != 0)
    }

    /// Why the kernel has let go of it, if it has.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.maps.ending()
    }

    /// Detaches it, and waits until the kernel has let go of all tasks.
    pub fn stop(self) -> Result<(), Error> {
        drop(self);
        wait_for_end()
    }
}

/// The scheduler, attached by another process.
pub struct Attached {
    maps: Maps,
}

impl Attached {
    /// The one that is attached now, if it is ours.
    pub fn find() -> Result<Option<Self>, Error> {
        if Kernel::here().state() != State::Attached(NAME.into()) {
            return Ok(None);
        }
        is_root()?;
        Ok(Some(Attached { maps: Maps::open()? }))
    }

    /// What it has counted since it was attached.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.maps.counters()
    }

    /// What it reads at each wake-up.
    pub fn settings(&self) -> Result<Settings, Error> {
        self.maps.settings()
    }

    /// Goes on with another policy or bound, from the next wake-up on.
    pub fn change(&self, settings: Settings) -> Result<(), Error> {
        self.maps.change(settings)
    }

    /// Asks the process that has started it to end, and waits until the kernel has let go of all tasks.
    pub fn stop(self) -> Result<(), Error> {
        self.maps.set(Setting::Stop, 1)?;
        wait_for_end()
    }

    /// Has each wake-up told from now on.
    pub fn record(&self) -> Result<Recording<'_>, Error> {
        Recording::start(&self.maps)
    }
}

fn wait_for_end() -> Result<(), Error> {
    let begin = Instant::now();
    let ours = |state: &State| matches!(state, State::Attached(name) if name == NAME);
    let is_over = || match Kernel::here().state() {
        State::Changing(_) => false,
        state => !ours(&state) && !Path::new(maps::FOLDER).exists(),
    };
    while !is_over() {
        if begin.elapsed() > END_WITHIN {
            let seconds = END_WITHIN.as_secs();
            return Err(Error::new(format!(
                "the scheduler is still there after {seconds} s: end the process of `daiko follow start`"
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
