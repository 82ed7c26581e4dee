//! Tests the scheduler's policy, compiled for this machine: with the vectors that all
//! implementations share, and against the functions of the runtime.

mod vectors;

use std::{
    array, env, fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use daiko_core::place::{Class, ends_look, wanted};

/// Reads trials, decides, and writes them back.
const PROGRAM: &str = "
#include <stdio.h>
#include POLICY
_Static_assert(sizeof(struct trial) == 48, \"as tests/vectors has it\");
int main(void)
{
	struct trial trial;
	while (fread(&trial, sizeof(trial), 1, stdin) == 1) {
		decide(&trial);
		fwrite(&trial, sizeof(trial), 1, stdout);
		fflush(stdout);
	}
	return 0;
}";

/// Reads cases of siblings, decides, and writes the decisions.
const PAIRS: &str = "
#include <stdio.h>
#include POLICY
struct case_of { struct cpus siblings, stalling, computing; __u8 class, passed; };
int main(void)
{
	struct case_of in;
	while (fread(&in, sizeof(in), 1, stdin) == 1) {
		__u8 best = wanted(&in.siblings, &in.stalling, &in.computing);
		unsigned char out[3] = { best, ends_look(best, in.class, in.passed), is_doubled(in.class, best) };
		fwrite(out, sizeof(out), 1, stdout);
		fflush(stdout);
	}
	return 0;
}";

/// Checks the rest of the policy by itself: it fails by its exit code, the number of a line.
const RULES: &str = "
#include POLICY
#define CHECK(rule) if (!(rule)) return __LINE__ % 250 + 1
int main(void)
{
	struct view view = { .idle = { { 0xf0 } } };
	struct memory task = { .home = 0, .left = NOWHERE };
	__u64 clock = 1000 * (__u64)SLICE;

	CHECK(prefer(0, 0, &view) == 4);
	view.beside.word[0] = 0x20;
	CHECK(prefer(0, 0, &view) == 5);
	view.cores.word[0] = 0xc0;
	CHECK(prefer(0, 0, &view) == 6);
	CHECK(prefer(5, 7, &view) == 7);
	view = (struct view){};
	CHECK(place(&task, SHARED, 4, 3, 0, &view).chosen == 0);
	CHECK(place(&task, EXISTING, 4, 3, 0, &view).chosen == 3);
	CHECK(charge(SLICE, 100 * GRAIN) == SLICE && charge(SLICE, 10 * GRAIN) == 10 * (__u64)SLICE);
	CHECK(charge(SLICE, 0) == charge(SLICE, 1));
	CHECK(portion(100 * GRAIN, 100, 400, 200) == 50 * GRAIN && portion(10, 10, 10, 400) == 400);
	CHECK(portion(10, 10, 0, 400) == 400);
	CHECK(farthest(400, 4) == REACH && farthest(800, 4) == REACH / 2 && farthest(1 << 30, 4) == LAG);
	CHECK(farthest(0, 4) >= REACH);
	CHECK(is_before(~0ULL, 1) && !is_before(1, ~0ULL) && !is_before(5, 5));
	CHECK(carry(clock + 7, clock, 50) == 57 && carry(clock - 7, clock, 50) == 43);
	CHECK(bounded(clock - 2 * SLICE, clock, 1, LAG) == clock - SLICE);
	CHECK(bounded(clock - 2 * SLICE, clock, 0, LAG) == clock - 2 * SLICE);
	CHECK(bounded(0, clock, 0, LAG) == clock - LAG);
	CHECK(bounded(clock + 9, clock, 1, LAG) == clock + 9);
	CHECK(bounded(clock + 2 * LAG, clock, 0, LAG) == clock + LAG);
	return 0;
}";

#[test]
fn the_compiled_policy_holds_the_vectors() {
    let folder = scratch("vectors");
    let program = compile(PROGRAM, &folder);
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    vectors::check(|trial| {
        input.write_all(trial).unwrap();
        output.read_exact(trial).unwrap();
    });
    drop(input);
    assert!(child.wait().unwrap().success());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn siblings_and_queued_tasks_are_judged_as_by_the_runtime() {
    let folder = scratch("pairs");
    let program = compile(PAIRS, &folder);
    let mut child =
        Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seed = 1_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..2000 {
        let siblings = [random() & random() & random(), random() & random() & random()];
        let running = [random(), random()];
        let known = [random(), random()];
        let stalling: [u64; 2] = array::from_fn(|at| running[at] & known[at]);
        let computing: [u64; 2] = array::from_fn(|at| !running[at] & known[at]);
        let (class, passed) = (Class::from_bits((random() % 3) as u8), (random() % 6) as u8);
        let words = [siblings, stalling, computing].concat();
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend([class as u8, passed, 0, 0, 0, 0, 0, 0]);
        input.write_all(&bytes).unwrap();
        let mut said = [0; 3];
        output.read_exact(&mut said).unwrap();

        let bit = |set: [u64; 2], cpu: usize| set[cpu / 64] >> (cpu % 64) & 1 == 1;
        let class_at = |cpu| match (bit(stalling, cpu), bit(computing, cpu)) {
            (true, _) => Class::Stall,
            (_, true) => Class::Compute,
            _ => Class::Unknown,
        };
        let best = wanted((0..128).filter(|cpu| bit(siblings, *cpu)).map(class_at));
        assert_eq!(Class::from_bits(said[0]), best.unwrap_or_default());
        if let Some(best) = best {
            assert_eq!(said[1] == 1, ends_look(best, (class, passed)));
            assert_eq!(said[2] == 1, class.complements(best));
        }
    }
    drop(input);
    assert!(child.wait().unwrap().success());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn idle_cores_come_first_and_virtual_time_is_bounded() {
    let folder = scratch("rules");
    let status = Command::new(compile(RULES, &folder)).status().unwrap();
    assert_eq!(status.code(), Some(0), "1 + the line of the rule in RULES");
    fs::remove_dir_all(&folder).unwrap();
}

fn scratch(test: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("daiko-scx-{}-{test}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn compile(source: &str, folder: &Path) -> PathBuf {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/policy.h");
    let program = folder.join("policy");
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(format!("-DPOLICY=\"{policy}\""))
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler, which Rust links with");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    program
}
