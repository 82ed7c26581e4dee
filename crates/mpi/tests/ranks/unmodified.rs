//! C programs with `libdaiko-mpi.so`: natively, and by `daiko run`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launch::{end_of, launcher};

/// Compiles with MPI's compiler, into the folder for temporary files of tests.
fn compile(arguments: &[&str], name: &str) -> PathBuf {
    let mpicc = env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new(mpicc)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&made)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

/// Returns `daiko` and its libraries, which other commands build, beside the folder of this test.
fn daiko() -> Option<PathBuf> {
    let own = env::current_exe().unwrap();
    let folder = own.parent().unwrap().parent().unwrap();
    let needed = ["daiko", "libdaiko_preload.so", "libdaiko_pthread.so"];
    needed.iter().all(|name| folder.join(name).is_file()).then(|| folder.join("daiko"))
}

fn runs_well(name: &str, daiko: Option<&Path>) {
    let library = compile(&["-fPIC", "-shared", "c/daiko-mpi.c"], &format!("{name}.so"));
    let program = compile(&["-pthread", "tests/c/threads.c"], name);
    let mut launcher = match launcher() {
        Ok(launcher) => launcher,
        Err(reason) => return println!("skipped: unmodified::{name}: {reason}"),
    };
    launcher.args(["-n", "2", "env"]).arg(format!("LD_PRELOAD={}", library.display()));
    if let Some(daiko) = daiko {
        launcher.arg(daiko).args(["run", "--workers", "1"]);
    }
    launcher.arg(program);
    let launched = end_of(launcher);
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
    assert!(launched.output.contains("all values are right"), "{}", launched.output);
    assert!(!launched.output.contains("threads are native"), "{}", launched.output);
}

#[test]
fn threads_natively() {
    runs_well("threads_natively", None);
}

#[test]
fn threads_by_daiko_run() {
    match daiko() {
        Some(daiko) => runs_well("threads_by_daiko_run", Some(&daiko)),
        None => println!(
            "skipped: unmodified::threads_by_daiko_run: no daiko here; \
             cargo build -p daiko-cli -p daiko-preload -p daiko-pthread"
        ),
    }
}
