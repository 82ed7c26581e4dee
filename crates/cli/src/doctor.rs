//! `daiko doctor`: the settings and limits of the kernel, with suggestions.

use std::{ffi::OsString, fmt, fs, io, io::Write, process::ExitCode};

use daiko_context::seat::{self, Finder};
use daiko_home::{BlockKind, Blocks, Unsupported};
use daiko_pair::class::CounterTable;
use daiko_sys::{
    counter_group::CounterGroup,
    counters::CounterError,
    cpu,
    limits::{self, Resource},
    membarrier,
    memory::{GuardKind, guards_in_batches},
    process,
    processor::Processor,
    selector::{self, Choice},
    steering::{self, FlowTable, Leftover, SteeringError},
    thread,
    topology::{Smt, Topology, TopologyError},
    user_wait::UserWait,
};

use crate::problem::Problem;

/// Numbers of fibers and kernel threads in the largest experiments.
const MANY_FIBERS: u64 = 1_000_000;
const MANY_THREADS: u64 = 10_000;
/// Address space of a stack and its guard, unless a program asks for others.
const STACK_BYTES: u64 = (256 + 28) * 1024;

/// Result of one check.
struct Finding {
    subject: &'static str,
    state: String,
    /// The suggested change, if any.
    remedy: Option<String>,
}

/// Prints all findings and counts those with a remedy.
pub(crate) fn run(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let findings = findings();
    for finding in &findings {
        writeln!(out, "{finding}")?;
    }
    match findings.iter().filter(|finding| finding.remedy.is_some()).count() {
        0 => writeln!(out, "nothing to change")?,
        count => writeln!(out, "{count} to consider; Daiko runs as it is, within these limits")?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Finding {
    fn fine(subject: &'static str, state: impl Into<String>) -> Self {
        Self { subject, state: state.into(), remedy: None }
    }

    fn advice(subject: &'static str, state: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject, state: state.into(), remedy: Some(remedy.into()) }
    }

    /// Checks a limit that should be at least `wanted`; `None` is unlimited.
    fn limit(subject: &'static str, limit: Option<u64>, wanted: u64, remedy: &str) -> Self {
        match limit {
            None => Self::fine(subject, "unlimited"),
            Some(limit) if limit >= wanted => Self::fine(subject, limit.to_string()),
            Some(limit) => Self::advice(subject, limit.to_string(), remedy),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.remedy.is_some() { "note" } else { "ok" };
        write!(f, "{mark:<5} {}: {}", self.subject, self.state)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

fn findings() -> Vec<Finding> {
    let system = [
        Finding::fine("kernel", limits::kernel_release()),
        glibc(limits::glibc_version()),
        cpus(cpu::allowed().map_or(0, |set| set.len())),
        quota(cpu::quota()),
        thread_locals(Blocks::get()),
        thread_register(seat::finder()),
        siblings(Topology::read()),
        counters(CounterTable::of(Processor::detect()), |table| {
            CounterGroup::open(table.events(), thread::id()).map(drop)
        }),
    ];
    let memory = [
        guards(GuardKind::probe(), guards_in_batches(), limits::max_map_count()),
        overcommit(limits::overcommit_memory()),
        Finding::limit(
            "address space (ulimit -v)",
            limits::rlimit(Resource::AddressSpace),
            MANY_FIBERS * STACK_BYTES,
            "bounds the number of stacks, 284 KiB each: ulimit -v unlimited",
        ),
        membarrier_state(membarrier::register()),
        tracing(process::probe_tracing()),
        sockets(selector::choose()),
        user_waits(UserWait::detect(), UserWait::chosen()),
        packets(steering::is_on()),
        steering_leftover(FlowTable::system().recover()),
    ];
    system.into_iter().chain(memory).chain(threads()).chain(governor()).collect()
}

fn glibc(version: Option<&str>) -> Finding {
    match version {
        Some(version) => Finding::fine("C library", format!("glibc {version}")),
        None => Finding::advice("C library", "not glibc", "only glibc is tested"),
    }
}

fn thread_locals(blocks: Result<Blocks, Unsupported>) -> Finding {
    const SUBJECT: &str = "thread-locals of fibers";
    match blocks {
        Ok(blocks) => match (blocks.kind(), blocks.instead_of_light()) {
            (BlockKind::Light, _) => {
                Finding::fine(SUBJECT, format!("their own, {} bytes here", blocks.bytes()))
            }
            (_, reason) => homes(SUBJECT, reason),
        },
        Err(reason) => Finding::advice(
            SUBJECT,
            reason.to_string(),
            "or let fibers borrow those of their worker (RuntimeBuilder::borrowed, unsafe)",
        ),
    }
}

fn homes(subject: &'static str, reason: Option<&Unsupported>) -> Finding {
    let (why, remedy) = match reason {
        Some(reason) => (reason.to_string(), "let fibers borrow those of their worker"),
        None => ("DAIKO_THREAD_BLOCKS=home".to_owned(), "unset that variable"),
    };
    let state = format!("their own, each with a kernel thread ({why})");
    Finding::advice(
        subject,
        state,
        format!("allow as many threads as fibers (ulimit -u), or {remedy}"),
    )
}

fn thread_register(finder: Finder) -> Finding {
    const SUBJECT: &str = "thread register";
    match finder {
        Finder::Gs => Finding::fine(SUBJECT, "written by the program (FSGSBASE)"),
        Finder::ThreadLocal => Finding::advice(
            SUBJECT,
            "written by a system call at each context switch (arch_prctl)",
            "use Linux 5.9 or later, and a processor with FSGSBASE; unset DAIKO_THREAD_REGISTER",
        ),
    }
}

fn cpus(count: usize) -> Finding {
    match count {
        0 | 1 => Finding::advice(
            "allowed CPUs",
            count.to_string(),
            "agents never spin on a single CPU: allow two (taskset, cpuset, docker --cpuset-cpus)",
        ),
        _ => Finding::fine("allowed CPUs", count.to_string()),
    }
}

fn quota(quota: Option<f64>) -> Finding {
    match quota {
        None => Finding::fine("CPU quota", "none"),
        Some(cpus) => Finding::advice(
            "CPU quota",
            format!("{cpus:.2} CPUs"),
            "time spent polling counts against it, so the preset is `power`; lift it for low latency",
        ),
    }
}

fn guards(kind: GuardKind, in_batches: bool, mappings: Option<u64>) -> Finding {
    match (kind, mappings) {
        (GuardKind::Light, _) if in_batches => {
            Finding::fine("stack guards", "without a mapping of their own, 64 by a system call")
        }
        (GuardKind::Light, _) => Finding::advice(
            "stack guards",
            "without a mapping of their own, each by a system call",
            "use Linux 6.15 or later, and a seccomp profile that allows process_madvise",
        ),
        (GuardKind::Protect, Some(mappings)) if mappings < 2 * MANY_FIBERS => Finding::advice(
            "stack guards",
            format!("by mprotect, for about {} fibers", mappings / 2),
            format!(
                "Linux 6.13 has cheaper guards; or, as root: sysctl vm.max_map_count={}",
                2 * MANY_FIBERS + 65_536
            ),
        ),
        (GuardKind::Protect, _) => Finding::fine("stack guards", "by mprotect"),
    }
}

fn overcommit(mode: Option<u64>) -> Finding {
    match mode {
        Some(2) => Finding::advice(
            "overcommit",
            "2 (never)",
            "whole stacks count as used; as root: sysctl vm.overcommit_memory=0",
        ),
        Some(mode) => Finding::fine("overcommit", mode.to_string()),
        None => Finding::fine("overcommit", "unknown"),
    }
}

fn membarrier_state(registered: bool) -> Finding {
    if registered {
        Finding::fine("membarrier", "works")
    } else {
        Finding::advice(
            "membarrier",
            "refused",
            "migratable fibers pay one more atomic instruction per switch; allow it in the seccomp filter",
        )
    }
}

fn tracing(answer: io::Result<()>) -> Finding {
    match answer {
        Ok(()) => Finding::fine("tracing of children", "works"),
        Err(error) => Finding::advice(
            "tracing of children",
            format!("refused ({error})"),
            "a killed worker process may take the program along; allow ptrace (seccomp filter, sysctl kernel.yama.ptrace_scope below 3)",
        ),
    }
}

fn sockets(choice: Choice) -> Finding {
    let by = choice.kind.to_string();
    match choice.refused {
        None => Finding::fine("waits for sockets", by),
        Some(refused) => Finding::advice("waits for sockets", by, refused.to_string()),
    }
}

fn siblings(machine: Result<Topology, TopologyError>) -> Finding {
    const SUBJECT: &str = "cores";
    match machine {
        Ok(machine) if machine.smt() == Smt::Usable => {
            let offer = "`make smt-evidence` in Daiko's sources measures the gain of pairing";
            Finding::fine(SUBJECT, format!("{}; {offer}", machine.smt()))
        }
        Ok(machine) => Finding::fine(SUBJECT, machine.smt().to_string()),
        Err(error) => {
            Finding::advice(SUBJECT, "siblings are unknown and not paired", error.to_string())
        }
    }
}

/// Reports the table of hardware counters by which `daiko pair` classifies threads. A machine that
/// shows none is no reason for advice, as samples take their place.
fn counters(
    table: Result<&'static CounterTable, &'static str>,
    open: impl FnOnce(&CounterTable) -> Result<(), CounterError>,
) -> Finding {
    const SUBJECT: &str = "hardware counters";
    let table = match table {
        Ok(table) => table,
        Err(why) => return Finding::fine(SUBJECT, format!("no table for this processor: {why}")),
    };
    let state = format!("table {} ({}), untried on hardware", table.folder, table.processors);
    match open(table) {
        Ok(()) => Finding::fine(SUBJECT, state),
        Err(CounterError::Missing) => Finding::fine(
            SUBJECT,
            format!("{state}; the processor, or a hypervisor, shows no such counter"),
        ),
        Err(error) => Finding::advice(SUBJECT, state, error.to_string()),
    }
}

/// Gives no advice, as the benefit of steering depends on the load.
fn packets(is_on: bool) -> Finding {
    let state = match is_on {
        true => "follow their readers, which Placement::Follow takes into account",
        false => {
            "do not follow their readers (net.core.rps_sock_flow_entries, rps_flow_cnt of each queue)"
        }
    };
    Finding::fine("packets", state)
}

/// Reports the change left by a killed run of the lab.
fn steering_leftover(leftover: Result<Leftover, SteeringError>) -> Finding {
    const SUBJECT: &str = "steering of packets";
    match leftover {
        Ok(Leftover::Nothing) => Finding::fine(SUBJECT, "unchanged"),
        Ok(Leftover::InUse { pid }) => {
            let pid = pid.map_or(String::new(), |pid| format!(" by process {pid}"));
            Finding::fine(SUBJECT, format!("changed temporarily{pid}"))
        }
        Ok(Leftover::Restored) => {
            Finding::fine(SUBJECT, "left changed by a killed run of the lab: restored")
        }
        Err(error) => Finding::advice(SUBJECT, "a run of the lab was killed", error.to_string()),
    }
}

/// Limits of kernel threads and their resources, for the lab's comparisons.
fn threads() -> [Finding; 4] {
    let needed = MANY_THREADS + 1000;
    [
        Finding::limit(
            "user's threads (ulimit -u)",
            limits::rlimit(Resource::Threads),
            needed,
            "bounds the lab's kernel methods: ulimit -u 32000",
        ),
        Finding::limit(
            "system's threads",
            limits::threads_max(),
            needed,
            "bounds the lab's kernel methods; as root: sysctl kernel.threads-max=64000",
        ),
        Finding::limit(
            "control group's threads",
            limits::cgroup_pids(),
            needed,
            "bounds the lab's kernel methods: raise pids.max (systemd TasksMax=, docker --pids-limit)",
        ),
        Finding::limit(
            "open files (ulimit -n)",
            limits::rlimit(Resource::OpenFiles),
            2 * MANY_THREADS + 1000,
            "bounds the lab's pipes and eventfds: ulimit -n 65536",
        ),
    ]
}

/// Reports the instruction by which agents may wait. None is the default, and no reason for advice.
fn user_waits(offered: Option<UserWait>, chosen: Result<Option<UserWait>, OsString>) -> Finding {
    const SUBJECT: &str = "waits in user mode";
    let state = match (offered.map(UserWait::name), chosen) {
        (_, Err(value)) => {
            let state = format!("no runtime starts, as DAIKO_USER_WAIT is {value:?}");
            return Finding::advice(SUBJECT, state, "set it to 1, or unset it");
        }
        (None, _) => "not offered (umwait, mwaitx)".to_owned(),
        (Some(name), Ok(None)) => format!("{name}, not in use: DAIKO_USER_WAIT is not set"),
        (Some(name), Ok(Some(_))) => format!("{name}, in use: DAIKO_USER_WAIT=1"),
    };
    Finding::fine(SUBJECT, state)
}

/// Reports the frequency governor, if the kernel sets frequencies.
fn governor() -> Option<Finding> {
    let governor =
        fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(match governor.trim() {
        "performance" => Finding::fine("frequency governor", "performance"),
        other => Finding::advice(
            "frequency governor",
            other,
            "figures of short runs waver; as root: cpupower frequency-set -g performance",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daiko_sys::{processor::Vendor, topology::described::Described};

    #[test]
    fn a_low_limit_has_a_remedy_and_none_is_no_limit() {
        assert!(Finding::limit("x", Some(9), 10, "raise it").remedy.is_some());
        assert!(Finding::limit("x", Some(10), 10, "raise it").remedy.is_none());
        assert!(Finding::limit("x", None, 10, "raise it").remedy.is_none());
    }

    #[test]
    fn guards_by_mprotect_count_mappings() {
        assert!(guards(GuardKind::Protect, false, Some(65_530)).state.contains("32765"));
        assert!(guards(GuardKind::Light, true, Some(65_530)).remedy.is_none());
        assert!(guards(GuardKind::Protect, false, Some(4_000_000)).remedy.is_none());
    }

    #[test]
    fn light_guards_that_need_a_call_each_are_reported_with_a_remedy() {
        let single = guards(GuardKind::Light, false, Some(65_530));
        assert!(single.state.contains("each by a system call"), "{}", single.state);
        assert!(single.remedy.is_some_and(|remedy| remedy.contains("process_madvise")));
    }

    #[test]
    fn an_instruction_that_is_not_offered_is_no_cause_for_advice() {
        let finding = user_waits(None, Ok(None));
        assert_eq!((&*finding.state, finding.remedy), ("not offered (umwait, mwaitx)", None));
    }

    #[test]
    fn findings_that_cost_performance_have_a_remedy() {
        let refused = Err(io::ErrorKind::PermissionDenied.into());
        let worse = [cpus(1), quota(Some(1.5)), overcommit(Some(2)), glibc(None)];
        let registers = [
            thread_register(Finder::ThreadLocal),
            thread_locals(Err(Unsupported::Symbol(c"_dl_allocate_tls"))),
            thread_locals(Blocks::of(BlockKind::Home)),
            homes("x", Some(&Unsupported::Layout("the list"))),
        ];
        let worse = worse.into_iter().chain(registers).chain([user_waits(None, Err("0".into()))]);
        for finding in worse.chain([membarrier_state(false), tracing(refused)]) {
            assert!(finding.remedy.is_some(), "{finding}");
        }
        let better = [cpus(2), quota(None), overcommit(Some(0)), glibc(Some("2.36"))];
        let light = thread_locals(Blocks::of(BlockKind::Light));
        let better = better.into_iter().chain([thread_register(Finder::Gs), light]);
        for finding in better.chain([membarrier_state(true), tracing(Ok(()))]) {
            assert!(finding.remedy.is_none(), "{finding}");
        }
    }

    #[test]
    fn why_there_are_no_siblings_is_told() {
        let unknown = siblings(Err(TopologyError::Changing)).to_string();
        assert!(unknown.starts_with("note") && unknown.contains("try again"), "{unknown}");
        let machine = Described::parse("1x2x1").unwrap().topology();
        let absent = siblings(machine).to_string();
        assert!(absent.starts_with("ok") && absent.contains("no core has siblings"), "{absent}");
        assert!(!absent.contains("smt-evidence"), "{absent}");
        let machine = Described::parse("1x2x2").unwrap().topology();
        let there = siblings(machine).to_string();
        assert!(there.starts_with("ok") && there.contains("make smt-evidence"), "{there}");
    }

    #[test]
    fn the_table_of_counters_is_named_or_the_reason_why_there_is_none() {
        let zen = Processor { vendor: Vendor::Amd, family: 26, model: 2, is_hybrid: false };
        let told = |open| counters(CounterTable::of(zen), |_| open).to_string();
        let open = told(Ok(()));
        assert!(open.starts_with("ok") && open.contains("amdzen5"), "{open}");
        assert!(open.contains("untried on hardware"), "{open}");
        let missing = told(Err(CounterError::Missing));
        assert!(missing.starts_with("ok") && missing.contains("shows no such"), "{missing}");
        let refused = told(Err(CounterError::NotAllowed));
        assert!(refused.starts_with("note") && refused.contains("sysctl"), "{refused}");
        let hybrid = Processor { is_hybrid: true, ..zen };
        let none = counters(CounterTable::of(hybrid), |_| panic!("nothing is opened"));
        assert!(none.to_string().contains("two kinds of cores"), "{none}");
    }

    #[test]
    fn the_remains_of_a_killed_run_are_reported() {
        let told = |leftover| steering_leftover(leftover).to_string();
        assert!(told(Ok(Leftover::Nothing)).ends_with("unchanged"));
        assert!(told(Ok(Leftover::InUse { pid: Some(7) })).ends_with("by process 7"));
        assert!(told(Ok(Leftover::Restored)).ends_with("restored"));
        let refused = told(Err(SteeringError::NotAllowed { action: "change it" }));
        assert!(refused.starts_with("note") && refused.contains("run as root"), "{refused}");
    }

    #[test]
    fn a_finding_is_one_line() {
        assert!(findings().iter().all(|finding| !finding.to_string().contains('\n')));
    }
}
