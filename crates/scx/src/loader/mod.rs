//! Loads the scheduler into the kernel, and reaches the running scheduler.
//!
//! Its settings and counters lie in maps, which are pinned while it is attached, so that other
//! processes find them. It stays attached as long as the process that has started it lives. The
//! kernel's report of the active scheduler distinguishes pinned maps in use from those left by a
//! killed process.

mod classes;
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

use libbpf_rs::{
    ErrorKind, Link, MapCore, Object, ObjectBuilder,
    btf::{Btf, types::Struct},
};

use crate::{Counters, Ending, Error, Kernel, NAME, Processor, Settings, State, Switch};
use maps::{Maps, Setting};

pub use classes::Classes;
pub use recording::Recording;

/// The compiled scheduler.
const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schedule.bpf.o"));
/// Its tables of operations: for all tasks, and for tasks of `SCHED_EXT` only.
const OPERATIONS: [&str; 2] = ["daiko_all", "daiko_partial"];
/// The bytes of its operations for control groups, at the beginning of a table
/// (`struct sched_ext_ops` of `bpf/kernel.h`).
const GROUP_OPERATIONS: usize = 4 * size_of::<usize>();
/// Number of bits in its masks of CPUs (`MOST_CPUS`).
const MOST_CPUS: u32 = 128;
/// Time limit for the kernel to detach the scheduler.
const END_WITHIN: Duration = Duration::from_secs(20);

/// The scheduler, attached by this process. Dropping this value detaches it.
pub struct Running {
    maps: Maps,
    /// Dropped first, so that no process finds maps of a detached scheduler.
    _pins: maps::Pins,
    _link: Link,
    _object: Object,
    knows_groups: bool,
}

/// Loads the scheduler for a machine with these CPUs, in order of their numbers, and attaches it.
///
/// # Errors
///
/// The kernel has no sched_ext or refuses the scheduler, another one is attached, the caller is not
/// root, or the machine has too many CPUs.
pub fn start(
    settings: Settings,
    switch: Switch,
    processors: &[Processor],
) -> Result<Running, Error> {
    check()?;
    messages::keep();
    let mut opened = ObjectBuilder::default().open_memory(OBJECT).map_err(refused)?;
    let [chosen, unused] = match switch {
        Switch::All => OPERATIONS,
        Switch::Partial => [OPERATIONS[1], OPERATIONS[0]],
    };
    for mut map in opened.maps_mut().filter(|map| map.name() == unused) {
        map.set_autocreate(false).map_err(refused)?;
    }
    let knows_groups = has_groups();
    for mut map in opened.maps_mut().filter(|map| map.name() == chosen && !knows_groups) {
        let table = map.initial_value_mut().and_then(|table| table.get_mut(..GROUP_OPERATIONS));
        table
            .ok_or_else(|| Error::new("the scheduler's table of operations is too short"))?
            .fill(0);
    }
    let mut object = opened.load().map_err(refused)?;
    let pins = maps::Pins::make(&mut object)?;
    let maps = Maps::open()?;
    maps.change(settings)?;
    maps::describe(&mut object, processors)?;
    let mut scheduler = object
        .maps_mut()
        .find(|map| map.name() == chosen)
        .ok_or_else(|| Error::new("the scheduler was built without its table of operations"))?;
    let link = scheduler.attach_struct_ops().map_err(refused)?;
    Ok(Running { maps, _pins: pins, _link: link, _object: object, knows_groups })
}

/// Returns true if this kernel tells schedulers about control groups (`CONFIG_EXT_GROUP_SCHED`).
fn has_groups() -> bool {
    let Ok(types) = Btf::from_vmlinux() else { return false };
    types.type_by_name::<Struct<'_>>("sched_ext_ops").is_some_and(|operations| {
        operations.iter().any(|member| member.name.is_some_and(|name| name == "cgroup_init"))
    })
}

fn check() -> Result<(), Error> {
    require_root()?;
    let kernel = Kernel::here();
    kernel.ensure_attachable()?;
    match kernel.cpus()? {
        cpus if cpus > MOST_CPUS => Err(Error::new(format!(
            "this machine may have {cpus} CPUs; the scheduler is for {MOST_CPUS} at most"
        ))),
        _ => Ok(()),
    }
}

fn require_root() -> Result<(), Error> {
    // The folder belongs to the effective user of the process.
    match fs::metadata("/proc/self").map(|folder| folder.uid()) {
        Ok(0) => Ok(()),
        _ => Err(Error::new("schedulers are root's to see and change: run it with sudo")),
    }
}

/// The error for a refusal by the kernel or by libbpf.
fn refused(error: libbpf_rs::Error) -> Error {
    let told = messages::take();
    let because = if told.is_empty() { error.to_string() } else { told };
    Error::new(match (error.kind(), Kernel::here().state()) {
        (_, State::Attached(name)) => {
            format!("another scheduler was attached meanwhile: {name}; there can be one only")
        }
        (ErrorKind::PermissionDenied, _) => format!(
            "this machine permits no BPF scheduler, not even for root ({because}): see kernel.lockdown, and the permissions of the container"
        ),
        _ => format!("the kernel refuses the scheduler: {because}"),
    })
}

impl Running {
    /// The counters since it was attached.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.maps.counters()
    }

    /// The current settings.
    pub fn settings(&self) -> Result<Settings, Error> {
        self.maps.settings()
    }

    /// The declared classes of threads.
    pub fn classes(&self) -> Classes<'_> {
        Classes::of(&self.maps)
    }

    /// Returns true if the kernel tells the scheduler the weights of control groups.
    pub fn honours_weights(&self) -> bool {
        self.knows_groups
    }

    /// Returns true if the scheduler was told to end.
    pub fn is_to_stop(&self) -> Result<bool, Error> {
        Ok(self.maps.get(Setting::Stop)? != 0)
    }

    /// The reason for the end of the scheduler, if the kernel has detached it.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.maps.ending()
    }

    /// Detaches the scheduler and waits until the kernel has released all tasks.
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
    /// The attached scheduler, if it is this crate's.
    pub fn find() -> Result<Option<Self>, Error> {
        if Kernel::here().state() != State::Attached(NAME.into()) {
            return Ok(None);
        }
        require_root()?;
        Ok(Some(Attached { maps: Maps::open()? }))
    }

    /// The counters since it was attached.
    pub fn counters(&self) -> Result<Counters, Error> {
        self.maps.counters()
    }

    /// The current settings.
    pub fn settings(&self) -> Result<Settings, Error> {
        self.maps.settings()
    }

    /// The declared classes of threads.
    pub fn classes(&self) -> Classes<'_> {
        Classes::of(&self.maps)
    }

    /// The reason for the end of the scheduler, if the kernel has detached it.
    pub fn ending(&self) -> Result<Option<Ending>, Error> {
        self.maps.ending()
    }

    /// Changes the settings from the next wake-up on.
    pub fn change(&self, settings: Settings) -> Result<(), Error> {
        self.maps.change(settings)
    }

    /// Tells the process that has started the scheduler to end, and waits until the kernel has
    /// released all tasks.
    pub fn stop(self) -> Result<(), Error> {
        self.maps.set(Setting::Stop, 1)?;
        wait_for_end()
    }

    /// Reports each wake-up from now on.
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
                "the scheduler is still there after {seconds} s: end the process that has started it"
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
