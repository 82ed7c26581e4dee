//! State of Receive Flow Steering, by which packets follow their readers.

use std::{fmt, fs, path::Path};

/// The settings of Receive Flow Steering. It is on for a queue if both its own table and the common
/// table have entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    /// `net.core.rps_sock_flow_entries`; `None` if the kernel does not report it.
    pub entries: Option<u64>,
    /// The receive queues of all devices but the loopback.
    pub queues: Vec<Queue>,
}

/// A receive queue of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The device and the queue, such as `eth0 rx-0`.
    pub name: String,
    /// Number of flows in its table (`rps_flow_cnt`).
    pub flows: u64,
}

impl Steering {
    /// The settings of this network namespace.
    pub fn here() -> Self {
        Self::read(Path::new("/proc/sys/net/core"), Path::new("/sys/class/net"))
    }

    fn read(core: &Path, devices: &Path) -> Self {
        let number = |file: &Path| fs::read_to_string(file).ok()?.trim().parse().ok();
        let mut queues = Vec::new();
        for device in entries(devices).iter().filter(|device| *device != "lo") {
            let folder = devices.join(device).join("queues");
            for queue in entries(&folder).iter().filter(|queue| queue.starts_with("rx-")) {
                let flows = number(&folder.join(queue).join("rps_flow_cnt")).unwrap_or(0);
                queues.push(Queue { name: format!("{device} {queue}"), flows });
            }
        }
        Steering { entries: number(&core.join("rps_sock_flow_entries")), queues }
    }

    /// Returns true if the packets of any queue follow their readers.
    pub fn is_on(&self) -> bool {
        self.entries.unwrap_or(0) > 0 && self.queues.iter().any(|queue| queue.flows > 0)
    }
}

/// The names in a folder, in order; none if there is no such folder.
fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.is_on() { "on" } else { "off" })?;
        match self.entries {
            Some(entries) => write!(f, " (net.core.rps_sock_flow_entries {entries}")?,
            None => write!(f, " (net.core.rps_sock_flow_entries is not there")?,
        }
        for Queue { name, flows } in &self.queues {
            write!(f, ", {name} rps_flow_cnt {flows}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_on_where_both_tables_have_entries() {
        let root = std::env::temp_dir().join(format!("daiko-scx-{}-rfs", std::process::id()));
        let (core, devices) = (root.join("core"), root.join("net"));
        let set = |file: &Path, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(Steering::read(&core, &devices), Steering { entries: None, queues: vec![] });
        set(&core.join("rps_sock_flow_entries"), "0\n");
        set(&devices.join("eth0/queues/rx-0/rps_flow_cnt"), "64\n");
        set(&devices.join("eth0/queues/rx-1/rps_flow_cnt"), "0\n");
        set(&devices.join("eth0/queues/tx-0/xps_cpus"), "0\n");
        set(&devices.join("lo/queues/rx-0/rps_flow_cnt"), "9\n");
        assert!(!Steering::read(&core, &devices).is_on());
        set(&core.join("rps_sock_flow_entries"), "128\n");
        let steering = Steering::read(&core, &devices);
        assert!(steering.is_on());
        assert_eq!(
            steering.to_string(),
            "on (net.core.rps_sock_flow_entries 128, eth0 rx-0 rps_flow_cnt 64, eth0 rx-1 rps_flow_cnt 0)"
        );
        fs::remove_dir_all(root).unwrap();
    }
}
