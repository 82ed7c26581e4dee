//! A substitute for SPEC CPU: real programs of Debian, each with an input that is the same
//! everywhere.

use std::fmt::Write;
use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use daiko_sys::process::wait_with_usage;

use super::run::{Amount, Done};
use crate::kit::failure::last_line;
use crate::kit::{Failure, OrFailure, Skip, SplitMix64, host};

const SHELL: &str = "/bin/sh";

/// A program of the named set.
#[derive(Debug)]
pub(super) struct Program {
    /// Name of the executable, and in results.
    pub(super) name: &'static str,
    /// Debian package.
    package: &'static str,
    /// Command for `/bin/sh` in the folder of inputs.
    pub(super) command: &'static str,
}

const fn program(name: &'static str, package: &'static str, command: &'static str) -> Program {
    Program { name, package, command }
}

/// The set. Each program takes between a tenth of a second and one or two seconds on a current
/// core.
pub(super) const ALL: [Program; 10] = [
    program(
        "awk",
        "mawk",
        r#"awk '{ s += $1 * $2; n[$1 % 977] += $2 } END { print s, length(n) }' numbers"#,
    ),
    program("bzip2", "bzip2", "bzip2 -9 -c text"),
    program("gcc", "gcc", "gcc -O2 -c -o gcc-$$.o source.c && rm gcc-$$.o"),
    program("gzip", "gzip", "gzip -9 -c text"),
    program(
        "openssl",
        "openssl",
        "for n in 1 2 3 4 5 6 7 8; do openssl enc -aes-256-ctr -K 00 -iv 00 -in text 2>/dev/null; done",
    ),
    program(
        "perl",
        "perl",
        r#"perl -ne '$n{$1}++ while /(\w+)/g; END { print scalar keys %n }' text text"#,
    ),
    program(
        "python3",
        "python3",
        r#"python3 -S -c 'print(sum(i * i % 7 for i in range(4000000)))'"#,
    ),
    program("sha256sum", "coreutils", "cat text text text text text text text text | sha256sum"),
    program("sort", "coreutils", "LC_ALL=C sort --parallel=1 -n numbers"),
    program("xz", "xz-utils", "xz -0 -T1 -c text"),
];

impl Program {
    pub(super) fn from_name(name: &str) -> Option<&'static Self> {
        const { &ALL }.iter().find(|program| program.name == name)
    }

    /// Fails with the reason to skip if it is not installed.
    pub(super) fn supports(&self) -> Result<(), Skip> {
        let Self { name, package, .. } = self;
        host::require_program(name).map_err(|skip| Skip::without(skip, package))
    }
}

/// The command of a CPU task, and its working directory.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) command: String,
    /// The folder of inputs. Without one, the directory where the lab was started.
    pub(super) folder: Option<PathBuf>,
}

impl Work {
    /// Runs the command `amount` times on the CPUs of the calling thread, one run after the other.
    /// Times count from `begin`.
    pub(super) fn run(&self, begin: Instant, amount: Amount) -> Result<Done, Failure> {
        let mut cpu = Duration::ZERO;
        let (count, elapsed) = amount.run(begin, || {
            cpu += self.run_once()?;
            Ok(())
        })?;
        Ok(Done { count, elapsed, cpu })
    }

    /// Runs the command. Returns the CPU time of it and of all children that it waited for.
    fn run_once(&self) -> Result<Duration, Failure> {
        let complaints = tempfile::tempfile().or_broken(SHELL)?;
        let mut command = Command::new(SHELL);
        command.args(["-c", &self.command]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(complaints.try_clone().or_broken(SHELL)?);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let child = command.spawn().or_broken(SHELL)?;
        let (status, cpu) = wait_with_usage(child).or_broken(SHELL)?;
        if !status.success() {
            return Err(self.refused(complaints, status));
        }
        Ok(cpu)
    }

    fn refused(&self, mut complaints: fs::File, status: ExitStatus) -> Failure {
        let mut bytes = Vec::new();
        let _ = complaints.rewind().and_then(|()| complaints.read_to_end(&mut bytes));
        let line = last_line(&bytes);
        let colon = if line.is_empty() { "" } else { ": " };
        Failure::Broken(format!("'{}' ended with {status}{colon}{line}", self.command))
    }
}

/// Writes the input files of the set's programs.
pub(super) fn make_inputs(folder: &Path) -> Result<(), Failure> {
    let refused = |error: io::Error| {
        Failure::Limit(format!(
            "cannot write to {}: {error}; make room there, or name another folder in TMPDIR",
            folder.display()
        ))
    };
    for (name, text) in [("text", text()), ("numbers", numbers()), ("source.c", source())] {
        fs::write(folder.join(name), text).map_err(refused)?;
    }
    Ok(())
}

const SEED: u64 = 4;
const TEXT_BYTES: usize = 4 << 20;
const NUMBERS: usize = 400_000;
const FUNCTIONS: u64 = 100;

/// A text of words with unequal frequencies, as in a natural language.
fn text() -> String {
    let mut random = SplitMix64(SEED);
    let words: Vec<String> = (0..5000).map(|_| word(&mut random)).collect();
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    while text.len() < TEXT_BYTES {
        // The product of two uniform draws is small more often than large.
        let rank = random.unit() * random.unit() * (words.len() - 1) as f64;
        text.push_str(&words[rank as usize]);
        text.push(if random.below(12) == 0 { '\n' } else { ' ' });
    }
    text
}

fn word(random: &mut SplitMix64) -> String {
    let letters = 2 + random.below(9);
    (0..letters).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

/// Lines of two numbers.
fn numbers() -> String {
    let mut random = SplitMix64(SEED);
    let mut text = String::new();
    for _ in 0..NUMBERS {
        let (one, other) = (random.below(1_000_000_000), random.below(1000));
        writeln!(text, "{one} {other}").expect("strings take all");
    }
    text
}

/// C functions that call one another.
fn source() -> String {
    let mut random = SplitMix64(SEED);
    let mut text = String::from("static unsigned f0(unsigned a, unsigned b) { return a ^ b; }\n");
    for index in 1..=FUNCTIONS {
        let (callee, by, turns) =
            (random.below(index), random.below(1000) + 1, random.below(9) + 2);
        writeln!(
            text,
            "unsigned f{index}(unsigned a, unsigned b) {{\n\
             \x20   unsigned s = {by}, t[16] = {{a, b}};\n\
             \x20   for (unsigned i = 0; i < {turns}; i++) {{\n\
             \x20       t[i % 16] += s * a + f{callee}(b, i);\n\
             \x20       s ^= t[(i + b) % 16] > {by} ? s << 3 : s / {by};\n\
             \x20   }}\n\
             \x20   return s;\n}}"
        )
        .expect("strings take all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: Amount = Amount { times: 1, least: Duration::ZERO, limit: Duration::from_secs(60) };

    fn shell(command: &str) -> Work {
        Work { command: command.into(), folder: None }
    }

    #[test]
    fn every_program_of_the_set_does_its_work() {
        let folder = tempfile::tempdir().expect("a folder");
        make_inputs(folder.path()).expect("inputs");
        for program in &ALL {
            if let Err(skip) = program.supports() {
                println!("skipped: {skip}");
                continue;
            }
            let work = Work { command: program.command.into(), folder: Some(folder.path().into()) };
            let done = work.run(Instant::now(), ONCE).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(done.count, 1);
            assert!(done.cpu > Duration::ZERO, "{}: {done:?}", program.name);
        }
    }

    #[test]
    fn inputs_are_the_same_everywhere() {
        let sum = |text: String| {
            text.bytes().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
        };
        assert_eq!(
            [text(), numbers(), source()].map(sum),
            [4_135_388_733_522_342_706, 10_790_611_805_121_759_636, 6_895_578_659_572_944_492]
        );
    }

    #[test]
    fn a_command_runs_as_often_as_it_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = Work { command: "echo >>runs".into(), folder: Some(folder.path().into()) };
        let done = work.run(Instant::now(), Amount { times: 3, ..ONCE }).expect("done");
        let runs = fs::read(folder.path().join("runs")).expect("runs");
        assert_eq!((done.count, runs.len()), (3, 3));
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_last_words() {
        let told = shell("echo first >&2; echo why >&2; exit 7")
            .run(Instant::now(), ONCE)
            .unwrap_err()
            .to_string();
        assert!(told.ends_with("ended with exit status: 7: why"), "{told}");
        let told = shell("nonsense-of-daiko").run(Instant::now(), ONCE).unwrap_err().to_string();
        assert!(told.contains("127") && told.contains("not found"), "{told}");
    }
}
