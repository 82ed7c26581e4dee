//! Rings in other languages: a small program, compiled against what is
//! installed here when it is first needed, and kept in the user's cache.

use std::{
    env, fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Failure,
    failure::quoted,
    ring::{Outcome, Spec, kernel::harness::part::START},
};

/// The text of a program and of what it includes: names and contents, the main
/// file first.
pub(super) type Sources = &'static [(&'static str, &'static str)];

/// How to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Toolchain {
    pub(super) program: PathBuf,
    /// Arguments before the main file, after it, and variables.
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
    /// Of compiler and library: another version compiles again.
    pub(super) version: String,
}

/// The compiled program, compiling it if the cache does not have it.
pub(super) fn program(sources: Sources, toolchain: &Toolchain) -> Result<PathBuf, Failure> {
    let program = cache()?.join(key(sources, toolchain));
    if !program.exists() {
        compile(sources, toolchain, &program)?;
    }
    Ok(program)
}

/// `$XDG_CACHE_HOME/daiko` or `~/.cache/daiko`.
fn cache() -> Result<PathBuf, Failure> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|cache| cache.join("daiko"))
        .ok_or_else(|| Failure::Unavailable("no place for a cache: set XDG_CACHE_HOME".into()))
}

/// A name that changes with the sources, the compiler and the library.
fn key(sources: Sources, toolchain: &Toolchain) -> String {
    let mut hasher = DefaultHasher::new();
    (sources, toolchain).hash(&mut hasher);
    let stem = sources[0].0.split('.').next().unwrap_or_default();
    format!("{stem}-{:016x}", hasher.finish())
}

/// Compiles in a folder of its own and renames the result, so that nobody sees
/// half a program.
fn compile(sources: Sources, toolchain: &Toolchain, program: &Path) -> Result<(), Failure> {
    let unusable = |error: io::Error| {
        let line = format!("cannot write {}: {error}; set XDG_CACHE_HOME", program.display());
        Failure::Unavailable(line)
    };
    let cache = program.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(cache).map_err(unusable)?;
    let folder = tempfile::tempdir_in(cache).map_err(unusable)?;
    for (name, text) in sources {
        fs::write(folder.path().join(name), text).map_err(unusable)?;
    }
    call_compiler(folder.path(), sources[0].0, toolchain)?;
    fs::rename(folder.path().join("program"), program).map_err(unusable)
}

fn call_compiler(folder: &Path, main: &str, toolchain: &Toolchain) -> Result<(), Failure> {
    let output = Command::new(&toolchain.program)
        .current_dir(folder)
        .envs(toolchain.variables.iter().cloned())
        .args(&toolchain.before)
        .args(["-o", "program", main])
        .args(&toolchain.after)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::Unavailable(format!("{}: {error}", toolchain.program.display()))
        })?;
    if !output.status.success() {
        let line = first_error(&String::from_utf8_lossy(&output.stderr));
        return Err(Failure::Unavailable(format!("{main} does not compile: {line}")));
    }
    Ok(())
}

/// The line that says what is wrong, of all that a compiler prints.
pub fn first_error(complaint: &str) -> String {
    let lines = || complaint.lines().filter(|line| !line.trim().is_empty());
    let line = lines().find(|line| line.contains("error")).or_else(|| lines().next_back());
    quoted(line.unwrap_or("the compiler gives no reason"))
}

/// Time that a program may take beside its limit, for set-up.
const SET_UP: Duration = Duration::from_secs(30);

/// Runs a ring. `first` is the first datum sent: [`START`] + 1, unless a wrong
/// one is wanted.
pub(super) fn run(program: &Path, spec: &Spec, first: u64) -> Result<Outcome, Failure> {
    let broken = |error: io::Error| Failure::Broken(format!("{}: {error}", program.display()));
    let mut child = start(program, spec, first).map_err(broken)?;
    let reply = converse(&mut child, spec);
    if !matches!(reply, Ok(Some(_))) {
        // It may have ended by itself meanwhile.
        let _ = child.kill();
    }
    let status = child.wait().map_err(broken)?;
    match reply.map_err(broken)? {
        Some(reply) => read_reply(&reply, status),
        None => Err(Failure::Broken(format!(
            "no answer within {:?} and {SET_UP:?} for set-up: ask for fewer threads",
            spec.limit
        ))),
    }
}

fn start(program: &Path, spec: &Spec, first: u64) -> io::Result<Child> {
    let numbers =
        [spec.threads as u64, spec.laps, spec.workers as u64, nanoseconds(spec.limit), first];
    let mut command = Command::new(program);
    command.args(numbers.map(|number| number.to_string()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    // SAFETY: the closure makes one system call, without memory or locks.
    unsafe { command.pre_exec(die_with_parent) };
    command.spawn()
}

/// A ring that nobody waits for any more would use the CPUs for nobody.
fn die_with_parent() -> io::Result<()> {
    // SAFETY: sets an attribute of the calling process; no memory is passed.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}

/// Tells the successors and takes the answer; `None` if it does not come.
fn converse(child: &mut Child, spec: &Spec) -> io::Result<Option<String>> {
    let deadline = Instant::now() + spec.limit + SET_UP;
    let list: Vec<_> = spec.successor.iter().map(u32::to_string).collect();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    if let Some(mut stdin) = stdin {
        // A program that ends early closes the pipe; its status tells more.
        let _ = stdin.write_all(list.join("\n").as_bytes());
    }
    stdout.map_or(Ok(None), |stdout| answer(stdout, deadline))
}

/// All that comes until the pipe is closed, or `None` at `deadline`.
fn answer(mut stdout: ChildStdout, deadline: Instant) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    while wait_readable(&stdout, deadline)? {
        let mut part = [0; 256];
        match stdout.read(&mut part)? {
            0 => return Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
    Ok(None)
}

/// False at `deadline`.
fn wait_readable(stdout: &ChildStdout, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let milliseconds = i32::try_from(left).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: stdout.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one entry, valid for reads and writes.
        match unsafe { libc::poll(&mut poll, 1, milliseconds) } {
            0 => return Ok(false),
            ready if ready > 0 => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// What the answer means: "elapsed_ns laps", or with status 3 "expected found".
pub fn read_reply(reply: &str, status: ExitStatus) -> Result<Outcome, Failure> {
    let numbers: Vec<u64> = reply.split_whitespace().map_while(|word| word.parse().ok()).collect();
    match (status.code(), numbers.as_slice()) {
        (Some(0), &[elapsed, laps]) => Ok(Outcome { elapsed: Duration::from_nanos(elapsed), laps }),
        (Some(3), &[expected, found]) => Err(Failure::WrongDatum { expected, found }),
        _ => Err(Failure::Broken(format!("the driver ended with {status} and said {reply:?}"))),
    }
}

/// The first datum of a ring that is right.
pub(super) const FIRST: u64 = START + 1;

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn reading(reply: &str, code: i32) -> Result<Outcome, Failure> {
        read_reply(reply, ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn an_answer_is_an_outcome() {
        let outcome = Outcome { elapsed: Duration::from_nanos(1500), laps: 3 };
        assert_eq!(reading("1500 3\n", 0), Ok(outcome));
    }

    #[test]
    fn status_three_is_a_wrong_datum() {
        assert_eq!(reading("4 74\n", 3), Err(Failure::WrongDatum { expected: 4, found: 74 }));
    }

    #[test]
    fn anything_else_is_told() {
        for (reply, code) in [("", 0), ("1500", 0), ("1500 3", 1), ("x y", 0)] {
            assert!(matches!(reading(reply, code), Err(Failure::Broken(_))), "{reply:?} {code}");
        }
    }

    #[test]
    fn the_error_is_found_among_notes() {
        let complaint = "ring.c: In function 'main':\nring.c:3:1: \u{1b}error: no\nnote: more\n";
        assert_eq!(first_error(complaint), "ring.c:3:1: \u{fffd}error: no");
    }

    fn toolchain(program: &str) -> Toolchain {
        Toolchain {
            program: program.into(),
            before: vec![],
            after: vec![],
            variables: vec![],
            version: "1".into(),
        }
    }

    #[test]
    fn another_version_has_another_key() {
        let sources: Sources = &[("ring.x", "text")];
        let old = toolchain("cc");
        let new = Toolchain { version: "2".into(), ..old.clone() };
        assert_ne!(key(sources, &old), key(sources, &new));
        assert_ne!(key(sources, &old), key(&[("ring.x", "other")], &old));
        assert!(key(sources, &old).starts_with("ring-"));
    }

    #[test]
    fn a_compiler_that_fails_leaves_nothing_behind() {
        let cache = tempfile::tempdir().unwrap();
        let program = cache.path().join("ring-0");
        let result = compile(&[("ring.x", "text")], &toolchain("/bin/false"), &program);
        assert!(matches!(result, Err(Failure::Unavailable(_))), "{result:?}");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    }

    #[test]
    fn a_cache_that_is_not_writable_is_told_with_the_remedy() {
        let program = Path::new("/proc/daiko/ring-0");
        let failure = compile(&[("ring.x", "text")], &toolchain("cc"), program).unwrap_err();
        assert!(failure.to_string().ends_with("set XDG_CACHE_HOME"), "{failure}");
    }

    #[test]
    fn a_program_that_does_not_start_is_told() {
        let spec = crate::ring::kernel::harness::testing::ring(2, 1);
        let result = run(Path::new("/nonexistent/ring"), &spec, FIRST);
        assert!(matches!(result, Err(Failure::Broken(_))), "{result:?}");
    }
}
