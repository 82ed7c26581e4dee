//! A private network with a loopback that may be steered. It has no name and ends with its last
//! process.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use super::{DEVICES, SteeringError};
use crate::cpu::CpuSet;
use crate::descriptor::check;
use crate::limits::text;

const ENTER: &str = "enter a network of its own";
const LOOPBACK: &CStr = c"lo";
const VIRTUAL_DEVICES: &CStr = c"/sys/devices/virtual/net";
/// Mount point of the new `/sys` until the needed folders are taken from it. Each `/sys` has this
/// folder.
const STAGE: &CStr = c"/sys/kernel";

/// Proof that the calling thread, and all threads and processes that it starts from now on, have a
/// private network with a running loopback and nothing else.
///
/// `/sys/class/net` shows that loopback to them. The network and its steering disappear with the
/// last of them.
#[derive(Debug)]
pub struct PrivateNetwork {
    // Belongs to the thread that has entered the network.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl PrivateNetwork {
    /// Enters a private network, for good.
    ///
    /// # Errors
    ///
    /// [`SteeringError::NotAllowed`] without root of the host.
    pub fn enter() -> Result<Self, SteeringError> {
        let refused = SteeringError::of(ENTER);
        // SAFETY: the call takes a plain integer.
        check(unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) })
            .map_err(&refused)?;
        show_own_devices().map_err(&refused)?;
        raise_loopback().map_err(&refused)?;
        Ok(Self { _not_send: std::marker::PhantomData })
    }

    /// Checks that the caller's capabilities allow it to enter a private network. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`SteeringError::NotAllowed`].
    pub fn probe() -> Result<(), SteeringError> {
        const NET_ADMIN: u32 = 12;
        const SYS_ADMIN: u32 = 21;
        let status = text(Path::new("/proc/self/status")).unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let has = |bit| effective.unwrap_or(0) >> bit & 1 != 0;
        if has(NET_ADMIN) && has(SYS_ADMIN) {
            Ok(())
        } else {
            Err(SteeringError::NotAllowed { action: ENTER })
        }
    }

    /// Processes packets of the loopback on the CPU among `cpus` that reads them, for up to `flows`
    /// flows at the same time; 0: on the CPU that sends them. In force while the system's
    /// [table](super::FlowTable) has room.
    ///
    /// # Errors
    ///
    /// [`SteeringError::NoQueue`] with a kernel that does not steer.
    pub fn steer(&self, cpus: &CpuSet, flows: u32) -> Result<(), SteeringError> {
        let cpus = if flows == 0 { CpuSet::new() } else { cpus.clone() };
        let queue = Path::new(DEVICES).join("lo/queues/rx-0");
        for (file, value) in [("rps_cpus", mask(&cpus)), ("rps_flow_cnt", flows.to_string())] {
            fs::write(queue.join(file), value).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => SteeringError::NoQueue,
                _ => SteeringError::of("steer the loopback")(error),
            })?;
        }
        Ok(())
    }
}

/// The set in the kernel's format: hexadecimal words of 32 bits, the highest first.
fn mask(cpus: &CpuSet) -> String {
    let words = cpus.iter().max().map_or(1, |cpu| cpu / 32 + 1);
    let word = |index| {
        let bits = (0..32).filter(|bit| cpus.contains(index * 32 + bit));
        format!("{:08x}", bits.map(|bit| 1u32 << bit).sum::<u32>())
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
}

/// Shows the devices of this network in `/sys`, which otherwise shows those of the network in which
/// it was mounted. The rest of `/sys` stays (control groups).
fn show_own_devices() -> io::Result<()> {
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Some(c"sysfs"), STAGE, Some(c"sysfs"), 0)?;
    mount(Some(c"/sys/kernel/class/net"), c"/sys/class/net", None, libc::MS_BIND)?;
    mount(Some(c"/sys/kernel/devices/virtual/net"), VIRTUAL_DEVICES, None, libc::MS_BIND)?;
    // SAFETY: the path is a live C string.
    check(unsafe { libc::umount2(STAGE.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    let (source, kind) = (pointer(source), pointer(kind));
    // SAFETY: all paths are live C strings or null; no file system here takes data.
    check(unsafe { libc::mount(source, target.as_ptr(), kind, flags, ptr::null()) }).map(drop)
}

fn raise_loopback() -> io::Result<()> {
    // SAFETY: the call takes plain integers.
    let socket =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: the structure consists of integers and a union of integers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(LOOPBACK.to_bytes()) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the request is a live local of the type that both commands take; the first command
    // fills in the flags.
    unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::cpu;
    use crate::steering::{FlowTable, incoming_cpu, is_on, is_on_for, queues};
    use crate::testing::{forked, in_fork, reap};

    /// Calls `body` in a process of its own, in a private network.
    fn in_network(test: &str, body: impl FnOnce(&PrivateNetwork)) {
        in_fork(|| match PrivateNetwork::enter() {
            Ok(network) => body(&network),
            Err(error) => skip(test, &error),
        });
    }

    /// Writes directly, as the test harness does not capture the output of a forked process.
    fn skip(test: &str, error: &SteeringError) {
        let line = format!("{test}: skipped: {error}\n");
        assert!(!matches!(error, SteeringError::Refused { .. }), "{line}");
        crate::signal::write_stderr(&[line.as_bytes()]);
    }

    fn network_of(process: &str) -> Option<u64> {
        Some(fs::metadata(format!("/proc/{process}/ns/net")).ok()?.ino())
    }

    #[test]
    fn the_masks_are_those_of_the_kernel() {
        assert_eq!(mask(&CpuSet::new()), "00000000");
        assert_eq!(mask(&CpuSet::from_iter([0, 1, 31])), "80000003");
        assert_eq!(mask(&CpuSet::from_iter([2, 32, 64])), "00000001,00000001,00000004");
    }

    #[test]
    fn a_probe_tells_whether_the_caller_may_enter() {
        let probed = PrivateNetwork::probe();
        in_fork(|| match PrivateNetwork::enter() {
            Ok(_) => assert_eq!(probed, Ok(())),
            // A filter of system calls, or a read-only `/sys`, may forbid more than the
            // capabilities do.
            Err(error) => skip("a_probe_tells_whether_the_caller_may_enter", &error),
        });
        in_fork(|| {
            // SAFETY: the call takes a plain integer.
            if unsafe { libc::setuid(65_534) } == 0 {
                assert_eq!(PrivateNetwork::probe(), PrivateNetwork::enter().map(drop));
            }
        });
    }

    #[test]
    fn its_loopback_serves_and_is_the_only_device_to_be_seen() {
        in_network("its_loopback_serves", |_| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            one.write_all(b"daiko").unwrap();
            let mut bytes = [0; 5];
            listener.accept().unwrap().0.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"daiko");
            let devices = fs::read_dir(DEVICES).unwrap();
            let names: Vec<_> = devices.map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(names, ["lo"]);
        });
    }

    #[test]
    fn the_network_that_it_came_from_is_left_as_it_was() {
        let outside = || {
            let queues = queues(Path::new(DEVICES)).into_iter();
            let settings = queues.map(|queue| {
                ["rps_cpus", "rps_flow_cnt"].map(|file| fs::read(queue.join(file)).ok())
            });
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
            let of_sys = mounts.lines().filter(|mount| mount.contains(" /sys"));
            let of_sys: Vec<_> = of_sys.map(str::to_owned).collect();
            (of_sys, settings.collect::<Vec<_>>())
        };
        let before = outside();
        in_network("the_network_that_it_came_from", |network| {
            network.steer(&CpuSet::from_iter([0]), 64).unwrap();
            assert_eq!(fs::read("/sys/class/net/lo/queues/rx-0/rps_flow_cnt").unwrap(), b"64\n");
            assert_eq!(
                fs::read("/sys/class/net/lo/queues/rx-0/rps_cpus").unwrap().last_chunk(),
                Some(b"1\n")
            );
            assert!(Path::new("/sys/fs/cgroup").exists() && Path::new("/sys/kernel").exists());
            network.steer(&CpuSet::from_iter([0]), 0).unwrap();
            assert!(!is_on());
        });
        assert_eq!(outside(), before);
    }

    #[test]
    fn packets_follow_their_reader_where_they_are_steered_and_nowhere_else() {
        let allowed = cpu::allowed().unwrap();
        let (Some(one), Some(other)) = (allowed.iter().next(), allowed.iter().nth(1)) else {
            return println!("skipped: needs two CPUs");
        };
        in_fork(|| {
            // Opened before entering, as the private network does not show the table.
            let loan = FlowTable::system().lend(1024);
            let entered = loan.and_then(|loan| Ok((loan, PrivateNetwork::enter()?)));
            let (_loan, network) = match entered {
                Ok(both) => both,
                Err(error) => return skip("packets_follow_their_reader", &error),
            };
            let mut pair = Pair::new();
            network.steer(&allowed, 1024).unwrap();
            assert!(is_on() && is_on_for("lo") && !is_on_for("eth0"));
            pair.processed(one, one);
            // The change takes effect late, as no packet may overtake an earlier one.
            let follows = (0..1000).any(|_| pair.processed(one, other) == other);
            assert!(follows, "never");
            network.steer(&allowed, 0).unwrap();
            assert!((0..20).all(|_| pair.processed(one, other) == one));
        });
    }

    struct Pair {
        sender: TcpStream,
        receiver: TcpStream,
    }

    impl Pair {
        fn new() -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            Self { sender, receiver: listener.accept().unwrap().0 }
        }

        /// The CPU that processes a packet sent on one CPU and read on the other.
        fn processed(&mut self, sent_on: usize, read_on: usize) -> usize {
            let bind = |cpu| cpu::bind_current(&CpuSet::from_iter([cpu])).unwrap();
            bind(sent_on);
            self.sender.write_all(b"x").unwrap();
            bind(read_on);
            self.receiver.read_exact(&mut [0]).unwrap();
            incoming_cpu(self.receiver.as_fd()).unwrap().unwrap()
        }
    }

    #[test]
    fn a_killed_process_leaves_no_network_behind() {
        let (mut told, tell) = io::pipe().unwrap();
        let child = forked(|| {
            let network = PrivateNetwork::enter();
            let number = network.ok().and_then(|_| network_of("self")).unwrap_or(0);
            (&tell).write_all(&number.to_ne_bytes()).unwrap();
            loop {
                std::thread::park();
            }
        });
        let mut number = [0; 8];
        told.read_exact(&mut number).unwrap();
        // SAFETY: takes plain integers; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
        reap(child);
        let number = u64::from_ne_bytes(number);
        if number == 0 {
            return println!("skipped: no network of its own is allowed here");
        }
        let processes = fs::read_dir("/proc").unwrap();
        let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        assert!(names.filter_map(|name| network_of(&name)).all(|network| network != number));
    }
}
