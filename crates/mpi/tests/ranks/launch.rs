//! The launcher.

use std::env;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};

use daiko_mpi::{Comm, Mpi};

use crate::child;

/// The time after which ranks count as hanging.
const LONGEST: Duration = Duration::from_secs(90);

/// The end of a launcher.
pub(crate) struct Launched {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

/// Runs `body` at `ranks` ranks, each a process of its own, which all have to end well. The test
/// has this `name`.
#[track_caller]
pub(crate) fn ranks(name: &str, ranks: usize, body: fn(&Mpi)) {
    let whole = || {
        let mut mpi = daiko_mpi::init().unwrap();
        assert_eq!(mpi.world().size(), ranks, "mpirun is that of another MPI library");
        body(&mpi);
        mpi.finalize().unwrap();
        assert_eq!(mpi.counters().requests, 0);
    };
    let Some(launched) = launch(name, ranks, &[], whole) else { return };
    assert!(launched.status.success(), "{:?}\n{}", launched.status, launched.output);
}

/// Runs `body` at all ranks and returns the launcher's end; `None` if there is no launcher, which
/// was said. A rank never returns from here.
#[track_caller]
pub(crate) fn launch(
    name: &str,
    ranks: usize,
    variables: &[(&str, &str)],
    body: impl FnOnce(),
) -> Option<Launched> {
    if child::is_child() {
        body();
        exit(0);
    }
    let mut launcher = match launcher() {
        Ok(launcher) => launcher,
        Err(reason) => {
            println!("skipped: {name}: {reason}");
            return None;
        }
    };
    let test = child::command(name);
    launcher.args(["-n", &ranks.to_string()]).arg(test.get_program()).args(test.get_args());
    launcher.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
    launcher.envs(variables.iter().copied());
    let launched = end_of(launcher);
    assert!(!launched.output.contains("running 0 tests"), "there is no test {name}");
    Some(launched)
}

/// Returns the launcher with the options that let it run here.
pub(crate) fn launcher() -> Result<Command, String> {
    let program = env::var("MPIRUN").unwrap_or_else(|_| "mpirun".into());
    let said = Command::new(&program).arg("--version").output();
    let said = said.map_err(|error| format!("no {program} here ({error}): install openmpi-bin"))?;
    let mut launcher = Command::new(program);
    if String::from_utf8_lossy(&said.stdout).contains("Open MPI") {
        launcher.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        // Without a search for networks, ranks start in a third of the time.
        launcher.args(["--mca", "plm", "isolated", "--mca", "pml", "ob1"]);
        launcher.args(["--mca", "btl", "self,vader", "--mca", "mtl", "^ofi,psm,psm2"]);
        launcher.args(["--mca", "osc", "^ucx,rdma"]);
    }
    Ok(launcher)
}

/// Runs the launcher to its end.
pub(crate) fn end_of(mut launcher: Command) -> Launched {
    launcher.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut launcher = launcher.spawn().unwrap();
    let (out, err) = (launcher.stdout.take().unwrap(), launcher.stderr.take().unwrap());
    let readers = [thread::spawn(move || read(out)), thread::spawn(move || read(err))];
    let status = end(&mut launcher);
    let output = readers.map(|reader| reader.join().unwrap()).concat();
    Launched { status, output }
}

fn read(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the launcher's end, for a limited time: it then ends the ranks.
fn end(launcher: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    while begin.elapsed() < LONGEST {
        if let Some(status) = launcher.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(10));
    }
    // SAFETY: takes plain integers; the launcher was not waited for.
    unsafe { libc::kill(launcher.id() as i32, libc::SIGTERM) };
    let status = launcher.wait().unwrap();
    panic!("the ranks hang; {status:?} (signal {:?})", status.signal());
}

/// Returns the rank at the other end, of two.
pub(crate) fn other(comm: &Comm) -> usize {
    assert_eq!(comm.size(), 2);
    1 - comm.rank()
}

/// Fails unless nothing is left of operations. The table knows of an end once MPI reports it.
#[track_caller]
pub(crate) fn nothing_is_left(mpi: &Mpi) {
    let begin = Instant::now();
    while mpi.counters().requests > 0 && begin.elapsed() < LONGEST / 3 {
        thread::sleep(Duration::from_millis(1));
    }
    let counters = mpi.counters();
    let counts = (counters.operations, counters.requests, counters.probes, counters.left);
    assert_eq!(counts, (0, 0, 0, 0), "{counters:?}");
}
