//! Compiles the scheduler for the kernel's machine, if the feature is on.

use std::{env, path::PathBuf, process::Command};

const SOURCE: &str = "src/bpf/schedule.bpf.c";

/// 14, 15 and 16 crash on it; 17 and 18 are untested.
const OLDEST: u32 = 19;
/// Debian and Ubuntu have versioned names beside the default, which may be too old.
const COMPILERS: [&str; 5] = ["clang", "clang-22", "clang-21", "clang-20", "clang-19"];

fn main() {
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    if let Err(line) = compile() {
        eprintln!("error: {line}");
        std::process::exit(1);
    }
}

fn compile() -> Result<(), String> {
    let variable = |name| env::var(name).map_err(|_| format!("{name} is not set: run cargo"));
    let object = PathBuf::from(variable("OUT_DIR")?).join("schedule.bpf.o");
    let clang = find_clang()?;
    let status = Command::new(&clang)
        // Debugging information has the types that the loader adapts to the kernel.
        // Version 3 has all atomic operations.
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c", SOURCE, "-o"])
        .arg(&object)
        .arg(format!("-I{}", variable("DEP_BPF_INCLUDE")?))
        .status()
        .map_err(|error| format!("cannot run {clang}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{clang} refuses {SOURCE}")) }
}

fn find_clang() -> Result<String, String> {
    if let Ok(named) = env::var("CLANG") {
        return match version(&named) {
            Some(OLDEST..) => Ok(named),
            Some(old) => Err(format!("{named} is of version {old}: {OLDEST} or newer is needed")),
            None => Err(format!("no {named} here, which CLANG names")),
        };
    }
    let is_new = |name: &&str| version(name) >= Some(OLDEST);
    COMPILERS.into_iter().find(is_new).map(String::from).ok_or_else(|| {
        format!("no clang of version {OLDEST} or newer here: install the package clang-{OLDEST}, or name one in CLANG")
    })
}

/// The version from "Debian clang version 19.1.7"; `None` if the compiler does not run.
fn version(clang: &str) -> Option<u32> {
    let said = Command::new(clang).arg("--version").output().ok()?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    said.split_once("clang version ")?.1.split('.').next()?.parse().ok()
}
