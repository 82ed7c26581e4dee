//! The maps that the scheduler shares with the processes of this crate.

use std::{fs, io, path::PathBuf};

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, Object};

use crate::{Counters, Ending, Error, Policy, Processor, Settings};

/// Folder of the maps that are pinned while the scheduler is attached.
pub(super) const FOLDER: &str = "/sys/fs/bpf/daiko";
const NAMES: [&str; 5] = ["settings", "counters", "events", "endings", "classes"];
/// The only key of maps with one value.
const FIRST: [u8; 4] = [0; 4];

/// The settings of the scheduler (`enum setting` in `bpf/state.h`).
#[derive(Clone, Copy)]
pub(super) enum Setting {
    Policy = 0,
    Bound = 1,
    /// The process that records, or 0.
    Recorder = 2,
    /// 1 if the process that has started the scheduler is to end.
    Stop = 3,
    /// 1 if tasks are paired.
    Pair = 4,
}

/// The pinned maps. Dropping this value removes their names.
pub(super) struct Pins;

impl Pins {
    /// Pins the maps of `object`, replacing those left by a killed process.
    pub(super) fn make(object: &mut Object) -> Result<Self, Error> {
        let _ = fs::remove_dir_all(FOLDER);
        fs::create_dir_all(FOLDER).map_err(cannot_pin)?;
        let pins = Pins;
        for mut map in object.maps_mut() {
            if let Some(name) = NAMES.iter().find(|name| map.name() == **name) {
                map.pin(path(name)).map_err(|error| cannot_pin(io::Error::other(error)))?;
            }
        }
        Ok(pins)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        // The next start removes the rest.
        let _ = fs::remove_dir_all(FOLDER);
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(name)
}

fn cannot_pin(error: io::Error) -> Error {
    Error::new(format!(
        "cannot pin maps in {FOLDER}: {error}; is it there? mount -t bpf bpf /sys/fs/bpf"
    ))
}

/// Describes the CPUs of the machine to a loaded scheduler.
pub(super) fn describe(object: &mut Object, processors: &[Processor]) -> Result<(), Error> {
    let map = object.maps_mut().find(|map| map.name() == "processors");
    let map = map.ok_or_else(|| Error::new("the scheduler was built without its map of CPUs"))?;
    for (cpu, processor) in (0_u32..).zip(processors) {
        map.update(&cpu.to_ne_bytes(), &processor.to_bytes(), MapFlags::ANY).map_err(|error| {
            Error::new(format!("cannot describe CPU {cpu} to the scheduler: {error}"))
        })?;
    }
    Ok(())
}

/// Handles of the pinned maps.
pub(super) struct Maps {
    settings: MapHandle,
    counters: MapHandle,
    pub(super) events: MapHandle,
    endings: MapHandle,
    pub(super) classes: MapHandle,
}

impl Maps {
    pub(super) fn open() -> Result<Self, Error> {
        let open = |name| {
            MapHandle::from_pinned_path(path(name)).map_err(|error| {
                Error::new(match error.kind() {
                    ErrorKind::NotFound => {
                        format!("{FOLDER} lacks the map {name}: end the process that has started the scheduler, and start again")
                    }
                    _ => format!("cannot open the scheduler's map {name}: {error}"),
                })
            })
        };
        let [settings, counters, events, endings, classes] = NAMES.map(open);
        Ok(Maps {
            settings: settings?,
            counters: counters?,
            events: events?,
            endings: endings?,
            classes: classes?,
        })
    }

    pub(super) fn set(&self, setting: Setting, value: u32) -> Result<(), Error> {
        let key = (setting as u32).to_ne_bytes();
        self.settings
            .update(&key, &value.to_ne_bytes(), MapFlags::ANY)
            .map_err(|error| Error::new(format!("cannot change the scheduler's settings: {error}")))
    }

    pub(super) fn get(&self, setting: Setting) -> Result<u32, Error> {
        let value = self.settings.lookup(&(setting as u32).to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(unreadable)?.unwrap_or_default();
        Ok(value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)))
    }

    /// The bound goes first, so that no task is held by the bound of another policy.
    pub(super) fn change(&self, settings: Settings) -> Result<(), Error> {
        self.set(Setting::Bound, settings.bound.into())?;
        self.set(Setting::Pair, settings.pair.into())?;
        self.set(Setting::Policy, settings.policy.number())
    }

    pub(super) fn settings(&self) -> Result<Settings, Error> {
        let number = self.get(Setting::Policy)?;
        let policy = Policy::from_number(number).ok_or_else(|| {
            Error::new(format!("the scheduler has a policy {number}: is it of another version?"))
        })?;
        let bound = self.get(Setting::Bound)?.try_into().unwrap_or(u8::MAX);
        Ok(Settings { policy, bound, pair: self.get(Setting::Pair)? != 0 })
    }

    pub(super) fn counters(&self) -> Result<Counters, Error> {
        let cpus = self.counters.lookup_percpu(&FIRST, MapFlags::ANY).map_err(unreadable)?;
        Ok(Counters::sum(cpus.iter().flatten().map(Vec::as_slice)))
    }

    pub(super) fn ending(&self) -> Result<Option<Ending>, Error> {
        let value = self.endings.lookup(&FIRST, MapFlags::ANY).map_err(unreadable)?;
        Ok(value.and_then(|value| Ending::read(&value)))
    }
}

fn unreadable(error: libbpf_rs::Error) -> Error {
    Error::new(format!("cannot read the scheduler's maps: {error}"))
}
