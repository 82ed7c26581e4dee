//! Receive Flow Steering: the CPU on which the kernel processes a socket's packets, and the setting
//! that lets it follow the reader.
//!
//! A system-wide table (`net.core.rps_sock_flow_entries`) records the CPU on which a flow was last
//! read. A device's receive queue sends a flow's packets there if it counts flows (`rps_flow_cnt`).

mod error;
mod namespace;
mod table;

pub use error::SteeringError;
pub use namespace::PrivateNetwork;
pub use table::{FlowTable, Leftover, Loan};

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::descriptor::check;
use crate::limits::text;

/// Visible only in the `/proc` of the system's first network namespace, though it applies to all.
const TABLE: &str = "/proc/sys/net/core/rps_sock_flow_entries";
/// The devices of the network namespace in which this file system was mounted.
const DEVICES: &str = "/sys/class/net";

/// The CPU on which the kernel processed the last packet that a connected socket received; `None`
/// before the first packet, and for sockets that receive no packets.
///
/// # Examples
///
/// ```
/// use std::os::fd::AsFd;
/// use std::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let socket = TcpStream::connect(listener.local_addr()?)?;
/// assert!(
///     daiko_sys::steering::incoming_cpu(socket.as_fd())?.is_some(), "the other side's answer"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// `ENOTSOCK` if the descriptor is not a socket.
pub fn incoming_cpu(socket: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    let (mut cpu, mut len) = (-1, size_of::<libc::c_int>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_INCOMING_CPU);
    let value = (&raw mut cpu).cast();
    // SAFETY: the value and its length are live locals and match.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, value, &mut len) })?;
    // The value starts as -1.
    Ok(usize::try_from(cpu).ok())
}

/// Returns true if packets follow their readers, for any device in `/sys`.
///
/// Both the table and a queue must have room for flows. Other network namespaces than the system's
/// first do not show the table: there a queue that counts flows is enough.
pub fn is_on() -> bool {
    is_on_in(Path::new(TABLE), Path::new(DEVICES))
}

/// [`is_on`] for this device alone.
pub fn is_on_for(device: &str) -> bool {
    number(Path::new(TABLE)) != Some(0)
        && queues_of(&Path::new(DEVICES).join(device)).iter().any(|queue| has_flows(queue))
}

fn is_on_in(table: &Path, devices: &Path) -> bool {
    number(table) != Some(0) && queues(devices).iter().any(|queue| has_flows(queue))
}

fn has_flows(queue: &Path) -> bool {
    number(&queue.join("rps_flow_cnt")).is_some_and(|flows| flows > 0)
}

/// The receive queues of all devices.
fn queues(devices: &Path) -> Vec<PathBuf> {
    children(devices).iter().flat_map(|device| queues_of(device)).collect()
}

fn queues_of(device: &Path) -> Vec<PathBuf> {
    let is_receiving = |queue: &PathBuf| {
        queue.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rx-"))
    };
    children(&device.join("queues")).into_iter().filter(is_receiving).collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::cpu;

    #[test]
    fn a_descriptor_that_is_no_socket_is_refused() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = incoming_cpu(reader.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }

    #[test]
    fn sockets_without_packets_have_no_cpu() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(incoming_cpu(one.as_fd()).unwrap(), None);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_eq!(incoming_cpu(listener.as_fd()).unwrap(), None);
    }

    /// The loopback is not steered here, so the sender's CPU does the work.
    #[test]
    fn a_packet_is_processed_where_it_is_sent_unless_it_is_steered() {
        if is_on() {
            return println!("skipped: this host steers the packets that it receives");
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let allowed = cpu::allowed().unwrap();
        for cpu in allowed.iter() {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    cpu::bind_current(&cpu::CpuSet::from_iter([cpu])).unwrap();
                    sender.write_all(b"x").unwrap();
                });
            });
            receiver.read_exact(&mut [0]).unwrap();
            assert_eq!(incoming_cpu(receiver.as_fd()).unwrap(), Some(cpu));
        }
    }

    #[test]
    fn it_is_on_where_both_the_table_and_a_queue_have_room() {
        let folder = Folder::new();
        let (table, devices) = (folder.0.join("table"), folder.0.join("net"));
        assert!(!is_on_in(&table, &devices), "nothing is there");
        for (device, queue) in [("lo", "rx-0"), ("eth0", "rx-1"), ("eth0", "tx-0")] {
            fs::create_dir_all(devices.join(device).join("queues").join(queue)).unwrap();
        }
        let flows = |device, queue, count| {
            fs::write(devices.join(device).join("queues").join(queue).join("rps_flow_cnt"), count)
                .unwrap();
        };
        fs::write(&table, "32768\n").unwrap();
        flows("lo", "rx-0", "0\n");
        flows("eth0", "tx-0", "512\n");
        assert!(!is_on_in(&table, &devices), "no queue counts flows");
        flows("eth0", "rx-1", "512\n");
        assert!(is_on_in(&table, &devices));
        fs::write(&table, "0\n").unwrap();
        assert!(!is_on_in(&table, &devices), "the table is empty");
        fs::remove_file(&table).unwrap();
        assert!(is_on_in(&table, &devices), "the table is not to be seen");
    }

    /// A folder that is removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let name = format!("daiko-steering-{}", crate::thread::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
