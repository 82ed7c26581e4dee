//! Tests the scheduler's policy, compiled for this machine, with the vectors that all
//! implementations share.

mod vectors;

use std::{
    env, fs,
    io::{Read, Write},
    process::{Command, Stdio},
};

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

#[test]
fn the_compiled_policy_holds_the_vectors() {
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/policy.h");
    let folder = env::temp_dir().join(format!("daiko-scx-{}-native", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("policy");
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(format!("-DPOLICY=\"{policy}\""))
        .arg("-")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler, which Rust links with");
    compiler.stdin.take().unwrap().write_all(PROGRAM.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());

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
