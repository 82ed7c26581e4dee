//! P4's IO task of set 2: a map in persistent memory that has entries removed and inserted, each in a transaction. It is a program
//! of its own, on libpmemobj of the Persistent Memory Development Kit.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{self, Child, ChildStdout, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use daiko_sys::process::PidFd;

use super::{memory::Memory, pmem::Library, run::Done};
use crate::{
    Failure, Skip,
    driver::{self, Sources, Toolchain, find_compiler, say, words},
    failure::quoted,
};

const SOURCES: Sources = &[("smt-rbtree.c", include_str!("../../drivers/smt-rbtree.c"))];
const MISSING: &str =
    "libpmemobj is not found by pkg-config (Debian: apt install gcc pkg-config libpmemobj-dev)";

/// P4 keeps so many.
const NODES: u64 = 1000;
/// Far more than the nodes and their transactions need.
const POOL_BYTES: u64 = 32 << 20;

/// A file that is mapped to see how.
const LEAST_BYTES: usize = 2 << 20;

/// Whether its library is there.
pub(super) fn supports() -> Result<(), Skip> {
    toolchain().map(drop)
}

fn toolchain() -> Result<&'static Toolchain, Skip> {
    static FOUND: OnceLock<Result<Toolchain, Skip>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(Skip::clone)
}

fn find() -> Result<Toolchain, Skip> {
    let compiler = find_compiler("cc", "gcc")?;
    let ask = |question: &str| {
        let arguments: Vec<_> = question.split(' ').chain(["libpmemobj"]).collect();
        say(Path::new("pkg-config"), &arguments, "")
    };
    let missing = || Skip::new(MISSING);
    let version = ask("--modversion").ok_or_else(missing)?;
    let flags = ask("--cflags --libs").ok_or_else(missing)?;
    Ok(Toolchain { after: words(&flags), version: compiler.version + &version, ..compiler })
}

/// The program, compiled if need be.
fn program() -> Result<PathBuf, Failure> {
    let toolchain = toolchain().map_err(|skip| Failure::Unavailable(skip.reason))?;
    driver::program(SOURCES, toolchain)
}

/// The program with its arguments, for data that lie in `memory`.
fn command(memory: &Memory, arguments: &[&str]) -> Result<Command, Failure> {
    let mut command = Command::new(program()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if *memory == Memory::Emulated {
        // So that the library flushes lines instead of asking the kernel.
        command.env("PMEM_IS_PMEM_FORCE", "1");
    }
    Ok(command)
}

/// The task, which runs until it is told; killed if it is dropped before.
pub(super) struct Tree {
    child: Child,
    held: PidFd,
    output: BufReader<ChildStdout>,
}

impl Tree {
    /// Starts it on the CPUs of the calling thread; it is ready when this returns.
    pub(super) fn start(memory: &Memory, seed: u64) -> Result<Self, Failure> {
        if matches!(memory, Memory::Dax(_)) {
            // For the answer whether it is persistent: libpmemobj would go on without.
            Library::find()?.map(memory, LEAST_BYTES)?;
        }
        Self::with_pool(memory, seed, POOL_BYTES)
    }

    fn with_pool(memory: &Memory, seed: u64, bytes: u64) -> Result<Self, Failure> {
        let pool = pool_in(memory.folder());
        let pool = pool.to_str().ok_or_else(|| {
            Failure::Limit(format!("{} is not UTF-8: name another folder", pool.display()))
        })?;
        let numbers = [bytes, NODES, seed].map(|number| number.to_string());
        let [bytes, nodes, seed] = numbers.each_ref().map(String::as_str);
        let mut child = command(memory, &["run", pool, bytes, nodes, seed])?.spawn().map_err(broken)?;
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let held = PidFd::open(child.id());
        let held = held.map_err(|error| Failure::Unavailable(error.to_string()));
        // Before the first failure: it has to be ended.
        let mut tree = match held {
            Ok(held) => Self { child, held, output },
            Err(failure) => {
                let _ = child.kill();
                return Err(failure);
            }
        };
        match tree.line().as_deref() {
            Some("ready") => Ok(tree),
            _ => Err(tree.complaint(memory)),
        }
    }

    /// From now on operations are counted.
    pub(super) fn begin(&self) -> Result<(), Failure> {
        self.held.send(libc::SIGUSR1).map_err(broken)
    }

    /// Ends it; what it has counted.
    pub(super) fn end(mut self, memory: &Memory) -> Result<Done, Failure> {
        self.held.send(libc::SIGUSR2).map_err(broken)?;
        let line = self.line().unwrap_or_default();
        let numbers: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let status = self.child.wait().map_err(broken)?;
        match numbers[..] {
            [count, elapsed, cpu] if status.success() && elapsed > 0 => Ok(Done {
                count,
                elapsed: Duration::from_nanos(elapsed),
                cpu: Duration::from_nanos(cpu),
            }),
            [_, 0, _] if status.success() => Err(Failure::Broken(
                "the map was ended before it counted anything: its CPU task is too short".into(),
            )),
            _ => Err(self.complaint(memory)),
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// What it says that is wrong: it has ended, or is about to.
    fn complaint(&mut self, memory: &Memory) -> Failure {
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut text);
        }
        let line = quoted(text.lines().next_back().unwrap_or("it does not say why"));
        let status = self.child.wait().ok().and_then(|status| status.code());
        match status {
            Some(2) => Failure::Limit(format!(
                "{line}; make room in {}, or name another folder with --pmem",
                memory.folder().display()
            )),
            _ => Failure::Broken(format!("the map's program: {line}")),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Nothing to do where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A name that nobody else uses; the program removes it as soon as it has the file.
fn pool_in(folder: &Path) -> PathBuf {
    static POOLS: AtomicU64 = AtomicU64::new(0);
    // Only its being another one each time matters.
    let number = POOLS.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("daiko-smt-{}-{number}", process::id()))
}

fn broken(error: std::io::Error) -> Failure {
    Failure::Broken(format!("the map's program: {error}"))
}
