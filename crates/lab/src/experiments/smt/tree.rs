//! P4's IO task of set 2: a map in persistent memory with removals and insertions, each in a
//! transaction. It is a program of its own, based on libpmemobj of the Persistent Memory
//! Development Kit.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use daiko_sys::process::PidFd;

use super::run::Done;
use crate::kit::driver::{Driver, Toolchain, find_compiler, pkg_config, words};
use crate::kit::failure::quoted;
use crate::kit::pmem::Library;
use crate::kit::{Failure, Memory, OrFailure, Skip};

static DRIVER: Driver =
    Driver::new(&[("smt-rbtree.c", include_str!("../../../drivers/smt-rbtree.c"))], find);

const PROGRAM: &str = "the map's program";

/// Number of entries in P4's map.
const NODES: u64 = 1000;
/// Bytes of the pool: far more than the nodes and their transactions need.
const POOL_BYTES: u64 = 32 << 20;

/// Bytes of a file that is mapped as a test.
const LEAST_BYTES: usize = 2 << 20;

/// Fails with the reason to skip if its library is missing.
pub(super) fn supports() -> Result<(), Skip> {
    DRIVER.supports()
}

fn find() -> Result<Toolchain, Skip> {
    let compiler = find_compiler("cc", "gcc")?;
    let ask = |question| pkg_config(question, "libpmemobj");
    let missing = || {
        let reason = "libpmemobj is not found by pkg-config";
        Skip::without(reason, "gcc pkg-config libpmemobj-dev")
    };
    let version = ask("--modversion").ok_or_else(missing)?;
    let flags = ask("--cflags --libs").ok_or_else(missing)?;
    Ok(Toolchain { after: words(&flags), version: compiler.version + &version, ..compiler })
}

/// The program with its arguments, for data in `memory`.
fn command(memory: &Memory, arguments: &[&str]) -> Result<Command, Failure> {
    let mut command = Command::new(DRIVER.program()?);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if *memory == Memory::Emulated {
        // Makes the library flush lines rather than call the kernel.
        command.env("PMEM_IS_PMEM_FORCE", "1");
    }
    Ok(command)
}

/// The running task. It is killed if it is dropped before it was ended.
pub(super) struct Tree {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Tree {
    /// Starts the task on the CPUs of the calling thread, and waits until it is ready.
    pub(super) fn start(memory: &Memory, seed: u64) -> Result<Self, Failure> {
        if matches!(memory, Memory::Dax(_)) {
            // Fails unless the memory is persistent: libpmemobj would continue without that.
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
        let mut child =
            command(memory, &["run", pool, bytes, nodes, seed])?.spawn().or_broken(PROGRAM)?;
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut tree = Self { child, output };
        match tree.line().as_deref() {
            Some("ready") => Ok(tree),
            _ => Err(tree.complaint(memory)),
        }
    }

    /// Lets the task count operations from now on.
    pub(super) fn begin(&self) -> Result<(), Failure> {
        self.signal(libc::SIGUSR1)
    }

    /// Ends the task. Returns its counts.
    pub(super) fn end(mut self, memory: &Memory) -> Result<Done, Failure> {
        self.signal(libc::SIGUSR2)?;
        let line = self.line().unwrap_or_default();
        let numbers: Vec<u64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let status = self.child.wait().or_broken(PROGRAM)?;
        match numbers[..] {
            [count, elapsed, cpu] if status.success() && elapsed > 0 => Ok(Done {
                count,
                elapsed: Duration::from_nanos(elapsed),
                cpu: Duration::from_nanos(cpu),
            }),
            [_, 0, _] if status.success() => Err(Failure::Broken(
                "the map's program was ended before it was told to count".into(),
            )),
            _ => Err(self.complaint(memory)),
        }
    }

    fn signal(&self, signal: i32) -> Result<(), Failure> {
        // The process has not been waited for, so its id has not been reused.
        let held = PidFd::open(self.child.id());
        let held = held.map_err(|error| Failure::Unavailable(error.to_string()))?;
        held.send(signal).or_broken(PROGRAM)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Returns the failure that the task reports. It has ended, or is about to.
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
            _ => Failure::Broken(format!("{PROGRAM}: {line}")),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Has no effect if the task has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds a unique name. The program removes the file as soon as it has it open.
fn pool_in(folder: &Path) -> PathBuf {
    static POOLS: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers only have to differ.
    let number = POOLS.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("daiko-smt-{}-{number}", process::id()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    type Entries = BTreeMap<u64, u64>;

    /// The program's random numbers: xorshift64*.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(2_685_821_657_736_338_717)
        }

        fn below(&mut self, bound: u64) -> u64 {
            ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
        }
    }

    /// Entries of a plain ordered map before the program's first step and after each step.
    fn courses(seed: u64, steps: u64) -> Vec<Entries> {
        let (mut random, mut entries) = (Random(seed * 2 + 1), Entries::new());
        let mut all = vec![entries.clone()];
        for _ in 0..steps {
            let (key, value) = (1 + random.below(512), random.next());
            match value & 1 {
                1 => entries.insert(key, value),
                _ => entries.remove(&key),
            };
            all.push(entries.clone());
        }
        all
    }

    /// A pool in memory, with the program on it.
    struct Pool(tempfile::TempDir);

    impl Pool {
        fn new() -> Option<Self> {
            match supports() {
                Ok(()) => Some(Self(tempfile::tempdir_in("/dev/shm").expect("a folder"))),
                Err(skip) => {
                    println!("skipped: {skip}");
                    None
                }
            }
        }

        fn path(&self) -> String {
            self.0.path().join("pool").to_str().expect("UTF-8").to_owned()
        }

        fn output(&self, arguments: &[&str]) -> process::Output {
            command(&Memory::Emulated, arguments).expect("a program").output().expect("it runs")
        }

        /// Does random steps on a new pool. The program is killed at write number `killed_at`, if
        /// there are as many.
        fn steps(&self, seed: u64, steps: u64, killed_at: u64) -> process::Output {
            let _ = std::fs::remove_file(self.path());
            let numbers = [POOL_BYTES, seed, steps, killed_at].map(|number| number.to_string());
            let path = self.path();
            let [bytes, seed, steps, at] = numbers.each_ref().map(String::as_str);
            self.output(&["steps", &path, bytes, seed, steps, at])
        }

        /// Entries of the pool. Fails unless they form a valid tree.
        fn entries(&self) -> Entries {
            let output = self.output(&["verify", &self.path()]);
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).expect("numbers");
            let entry = |line: &str| {
                let (key, value) = line.split_once(' ').expect("two numbers");
                (key.parse().expect("a key"), value.parse().expect("a value"))
            };
            text.lines().map(entry).collect()
        }
    }

    #[test]
    fn random_operations_have_the_result_that_a_plain_map_has() {
        let Some(pool) = Pool::new() else { return };
        for (seed, steps) in [(1, 0), (2, 1), (3, 100), (4, 1000), (5, 4000)] {
            let output = pool.steps(seed, steps, 0);
            assert!(output.status.success(), "{output:?}");
            assert_eq!(pool.entries(), *courses(seed, steps).last().expect("the first"), "{seed}");
        }
    }

    /// Opens the pool after a kill in the middle of a transaction, at any of its writes.
    #[test]
    fn a_killed_process_leaves_all_of_a_change_or_nothing() {
        let Some(pool) = Pool::new() else { return };
        let (seed, steps) = (6, 400);
        let courses = courses(seed, steps);
        let (mut found, mut kills) = (Vec::new(), 0);
        for at in (1..40).chain((40..).step_by(97)) {
            let output = pool.steps(seed, steps, at);
            if output.status.success() {
                break;
            }
            assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{output:?}");
            kills += 1;
            let entries = pool.entries();
            assert!(courses.contains(&entries), "killed at write {at}: no course has {entries:?}");
            found.push(entries.len());
        }
        assert!(kills >= 50, "{kills} kills");
        assert!(found.iter().any(|entries| *entries > 100), "the last kills find many entries");
    }

    #[test]
    fn a_file_that_is_no_pool_is_refused() {
        let Some(pool) = Pool::new() else { return };
        std::fs::write(pool.path(), vec![7; 1 << 16]).expect("a file");
        let output = pool.output(&["verify", &pool.path()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("cannot open the pool: "));
    }

    #[test]
    fn it_counts_from_when_it_is_told_until_it_is_ended() {
        if let Err(skip) = supports() {
            println!("skipped: it_counts_from_when_it_is_told_until_it_is_ended: {skip}");
            return;
        }
        let pools = || {
            std::fs::read_dir("/dev/shm")
                .expect("a folder")
                .filter(|entry| {
                    let name = entry.as_ref().expect("an entry").file_name();
                    name.to_string_lossy().starts_with(&format!("daiko-smt-{}-", process::id()))
                })
                .count()
        };
        let memory = Memory::Emulated;
        let idle = Tree::start(&memory, 1).expect("a map");
        let told = idle.end(&memory).unwrap_err().to_string();
        assert!(told.contains("before it was told to count"), "{told}");
        let tree = Tree::start(&memory, 2).expect("a map");
        tree.begin().expect("it is there");
        let done = tree.end(&memory).expect("it counted");
        assert!(done.count >= 2 && done.count.is_multiple_of(2), "{done:?}");
        assert_eq!(pools(), 0, "no pool is left");
    }

    #[test]
    fn a_full_file_system_is_told_with_the_remedy() {
        if let Err(skip) = supports() {
            println!("skipped: a_full_file_system_is_told_with_the_remedy: {skip}");
            return;
        }
        let told =
            Tree::with_pool(&Memory::Emulated, 1, 1 << 50).err().expect("refused").to_string();
        assert!(told.starts_with("cannot have a pool of 1125899906842624 bytes: "), "{told}");
        assert!(
            told.ends_with("make room in /dev/shm, or name another folder with --pmem"),
            "{told}"
        );
    }
}
