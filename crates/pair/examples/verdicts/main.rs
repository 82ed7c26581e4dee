//! Verdicts of the classifier on programs that are labelled by experiment.
//!
//! `cargo run --release -p daiko-pair --example verdicts` builds each program of `programs/` with
//! `cc -O2` and `cc -O0`. A program stalls if a step takes at least twice as long with its large
//! working set, or with flushes, as with its small one without flushes. The classifier looks three
//! times at the large form. The small form of programs without persistent memory computes.
//!
//! Programs of `training` were used to develop the classifier. Those of `looked` were a test of it
//! until two of them turned out wrong; those of `test` were first seen after that. The programs
//! need up to 4 GiB, and for `pm-*` libpmem and libpmemobj with their headers.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, error::Error, path::Path, thread};

use daiko_pair::Class;
use daiko_pair::class::{Classification, Look, decide};
use daiko_sys::topology::Topology;

/// Programs by group, with the number of steps of an experiment.
const PROGRAMS: [(&str, &[(&str, u32)]); 3] = [
    (
        "training",
        &[
            ("btree", 2_000_000),
            ("chained-join", 3_000_000),
            ("list", 3_000_000),
            ("product", 20_000),
            ("bodies", 5_000),
            ("crc", 20_000),
            ("pm-tree", 300_000),
            ("pm-log", 2_000_000),
        ],
    ),
    (
        "looked",
        &[
            ("hash-join", 3_000_000),
            ("page-rank", 3_000_000),
            ("binary-tree", 500_000),
            ("updates", 5_000_000),
            ("binary-search", 1_000_000),
            ("sort", 200),
            ("interpreter", 5_000),
            ("pm-hash", 2_000_000),
            ("pm-copy", 2_000_000),
        ],
    ),
    (
        "test",
        &[
            ("skip-list", 200_000),
            ("sparse-product", 1_000_000),
            ("words", 1_000_000),
            ("breadth-first", 2_000_000),
            ("mandelbrot", 20_000),
            ("edit-distance", 1_000),
            ("heap", 1_000_000),
            ("stream", 100_000),
            ("pm-transactions", 100_000),
            ("pm-queue", 500_000),
        ],
    ),
];
/// Least ratio of the times of a step of the large and the small form of a program that stalls.
const STALLS: f64 = 2.0;
const LOOKS: usize = 3;
/// Least confidence of sure verdicts, as shown.
const SURE: f64 = 0.945;

/// Verdicts by their result.
#[derive(Default)]
struct Tally {
    right: u32,
    wrong: u32,
    unknown: u32,
    sure: u32,
    sure_and_right: u32,
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    println!("group program label ratio verdicts");
    for (group, programs) in PROGRAMS {
        let mut tally = Tally::default();
        for (name, steps) in programs.iter().filter(|(name, _)| is_wanted(name)) {
            for level in ["-O2", "-O0"] {
                let Some(program) = build(folder.path(), name, level)? else {
                    println!("{group} {name} skipped: it cannot be built");
                    continue;
                };
                let times = ["small", "large"].map(|form| time(&program, form, *steps));
                let [small, large] = times;
                let ratio = large? / small?;
                let label = if ratio >= STALLS { Class::Stall } else { Class::Compute };
                tally.look(
                    &format!("{group} {name}{level} {label:?} {ratio:.1}"),
                    &program,
                    "large",
                    label,
                )?;
                if !name.starts_with("pm-") {
                    tally.look(
                        &format!("{group} {name}{level}-small Compute 1"),
                        &program,
                        "small",
                        Class::Compute,
                    )?;
                }
            }
        }
        let Tally { right, wrong, unknown, sure, sure_and_right } = tally;
        println!(
            "{group}: {right} looks right, {wrong} wrong, {unknown} unknown; of {sure} sure {sure_and_right} right"
        );
    }
    Ok(())
}

/// True for all programs, or for those named as arguments.
fn is_wanted(name: &str) -> bool {
    let wanted: Vec<String> = env::args().skip(1).collect();
    wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)
}

/// Compiles a program; `None` if that fails.
fn build(folder: &Path, name: &str, level: &str) -> std::io::Result<Option<String>> {
    let source = format!("{}/examples/verdicts/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(format!("{name}{level}")).display().to_string();
    let mut command = Command::new("cc");
    command.args(["-w", level, &source, "-o", &program, "-lm"]);
    if name.starts_with("pm-") {
        command.args(["-lpmem", "-lpmemobj"]);
    }
    Ok(command.stderr(Stdio::null()).status()?.success().then_some(program))
}

/// Starts a program, and waits until it has prepared.
fn start(
    program: &str,
    form: &str,
    steps: Option<u32>,
) -> std::io::Result<(Child, BufReader<ChildStdout>)> {
    let mut command = Command::new(program);
    command.arg(form).args(steps.map(|steps| steps.to_string()));
    command.env("PMEM_IS_PMEM_FORCE", "1").stdout(Stdio::piped());
    if form == "small" {
        command.envs([("PMEM_NO_FLUSH", "1"), ("PMEM_NO_MOVNT", "1")]);
    }
    let mut child = command.spawn()?;
    let mut output = BufReader::new(child.stdout.take().expect("piped above"));
    output.read_line(&mut String::new())?;
    Ok((child, output))
}

/// The CPU time of a step in nanoseconds.
fn time(program: &str, form: &str, steps: u32) -> Result<f64, Box<dyn Error>> {
    let (mut child, mut output) = start(program, form, Some(steps))?;
    let mut line = String::new();
    output.read_line(&mut line)?;
    child.wait()?;
    Ok(line.trim().parse()?)
}

impl Tally {
    /// Looks at a running program, and prints a line with the verdicts.
    fn look(
        &mut self,
        title: &str,
        program: &str,
        form: &str,
        label: Class,
    ) -> std::io::Result<()> {
        let (mut child, _output) = start(program, form, None)?;
        let look = Look::here(Topology::read().ok().as_ref());
        let verdicts: Vec<Classification> = (0..LOOKS)
            .map(|_| {
                decide(None, &look.at(&[(child.id(), child.id())], &mut thread::sleep).remove(0))
            })
            .collect();
        child.kill()?;
        child.wait()?;
        let shown = |verdict: &Classification| {
            format!("{:?} {:.0}% by {}", verdict.class, verdict.confidence * 100.0, verdict.source)
        };
        println!("{title}: {}", verdicts.iter().map(shown).collect::<Vec<_>>().join(", "));
        for Classification { class, confidence, .. } in verdicts {
            let is_right = class == label;
            match class {
                Class::Unknown => self.unknown += 1,
                _ if is_right => self.right += 1,
                _ => self.wrong += 1,
            }
            self.sure += u32::from(confidence >= SURE);
            self.sure_and_right += u32::from(confidence >= SURE && is_right);
        }
        Ok(())
    }
}
