//! Quotas of control groups: `mountinfo`, `cgroup` and the files of the groups.

use std::{
    cell::RefCell,
    path::{Component, Path, PathBuf},
};

use daiko_sys::{cpu, limits};

/// Parts of the input are separated by zero bytes, which no file of the kernel has.
pub(super) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let mut part = || parts.next().unwrap_or_default();
    any_files(part(), part(), part());
    as_the_kernel_writes(&Names { point: part(), root: part(), group: part() }, part().as_bytes());
}

/// Checks, for any contents of the files, that a quota is a number of CPUs and no path leads
/// upwards.
fn any_files(mounts: &str, memberships: &str, limit: &str) {
    let read = |path: &Path| {
        let file = match path.to_str() {
            Some("/proc/self/mountinfo") => mounts,
            Some("/proc/self/cgroup") => memberships,
            _ => limit,
        };
        Some(file.to_owned())
    };
    assert!(cpu::quota_in(&read).is_none_or(|cpus| cpus > 0.0 && cpus.is_finite()));
    let most = limits::cgroup_pids_in(&read);
    assert!(most.is_none_or(|most| limit.contains(&most.to_string())));
}

struct Names<'a> {
    point: &'a str,
    root: &'a str,
    group: &'a str,
}

/// Checks that, for files in the kernel's format, the group and its ancestors are read, each once,
/// and the least grant counts. `shares` are hundredths of a CPU; 0 means no limit.
fn as_the_kernel_writes(names: &Names<'_>, shares: &[u8]) {
    let root = path(&names.root.replace('\n', ""));
    let group = path(&names.group.replace('\n', ""));
    let point = path(names.point);
    let mounts =
        format!("30 23 0:26 {} {} rw shared:9 - cgroup2 x rw\n", escaped(&root), escaped(&point));
    let memberships = format!("0::{}\n", Path::new(&root).join(&group[1..]).display());
    let reads = RefCell::new(Vec::new());
    let share = |level: usize| shares.get(level).copied().unwrap_or_default();
    let read = |path: &Path| match path.to_str() {
        Some("/proc/self/mountinfo") => Some(mounts.clone()),
        Some("/proc/self/cgroup") => Some(memberships.clone()),
        _ => {
            reads.borrow_mut().push(path.to_owned());
            Some(match share(reads.borrow().len() - 1) {
                0 => "max 100000\n".into(),
                share => format!("{}000 100000\n", share),
            })
        }
    };
    let quota = cpu::quota_in(&read);
    let inside = Path::new(&group[1..]).ancestors();
    let expected: Vec<PathBuf> =
        inside.map(|part| Path::new(&point).join(part).join("cpu.max")).collect();
    assert_eq!(reads.into_inner(), expected, "{mounts:?} {memberships:?}");
    let least = (0..expected.len()).map(share).filter(|&share| share > 0).min();
    assert_eq!(quota, least.map(|share| f64::from(share) / 100.0));
}

/// An absolute path without `..`.
fn path(name: &str) -> String {
    let parts = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_)));
    format!("/{}", parts.collect::<PathBuf>().display())
}

/// Escapes names like the kernel in `mountinfo`.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        match character {
            ' ' | '\t' | '\n' | '\\' => text.push_str(&format!("\\{:03o}", character as u32)),
            other => text.push(other),
        }
    }
    text
}
