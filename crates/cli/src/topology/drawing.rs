//! The drawing: the nesting of packages, nodes, caches and cores, with one line for all cores that
//! are equal and numbered evenly.

use std::fmt::{Display, Write};

use daiko_sys::{
    cpu::CpuSet,
    topology::{Cache, CacheKind, Topology},
};

/// A core, or several consecutive cores.
struct Row {
    /// The enclosing units from the outermost: package and node, then shared caches.
    within: Vec<String>,
    /// Sort key: the numbers of the enclosing units and of the first CPU.
    place: Vec<usize>,
    /// The core's own caches and capacity.
    own: String,
    /// CPUs of the first and the last core, each with true if it is allowed.
    first: Vec<(usize, bool)>,
    last: Vec<(usize, bool)>,
    cores: usize,
    /// Distance of corresponding CPUs in successive cores.
    step: Option<usize>,
}

/// Draws the machine. The last line tells if siblings can be paired.
pub fn of(machine: &Topology) -> String {
    let mut text = String::new();
    draw(machine, &mut text).expect("a string takes all");
    text
}

fn draw(machine: &Topology, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", summary(machine))?;
    let mut within: Vec<String> = Vec::new();
    for row in rows(machine) {
        let same = within.iter().zip(&row.within).take_while(|(one, other)| one == other).count();
        for (depth, heading) in row.within.iter().enumerate().skip(same) {
            writeln!(out, "{:1$}{heading}", "", 2 * depth)?;
        }
        writeln!(out, "{:1$}{row}", "", 2 * row.within.len())?;
        within = row.within;
    }
    let empty = machine.nodes().iter().filter(|node| node.cpus.is_empty());
    let empty: CpuSet = empty.map(|node| node.id).collect();
    if !empty.is_empty() {
        writeln!(out, "nodes without online CPUs: {empty}")?;
    }
    if !machine.offline().is_empty() {
        writeln!(out, "offline CPUs: {}", machine.offline())?;
    }
    if machine.allowed().len() < machine.cpus().len() {
        writeln!(out, "in parentheses: not allowed")?;
    }
    let pairing = if machine.has_siblings() { "available" } else { "not available" };
    writeln!(out, "pairing is {pairing}: {}", machine.smt())
}

fn summary(machine: &Topology) -> String {
    let mut packages: Vec<usize> = machine.cpus().iter().map(|cpu| cpu.package).collect();
    packages.sort_unstable();
    packages.dedup();
    [
        counted(packages.len(), "package"),
        counted(machine.nodes().len(), "node"),
        counted(machine.cores(), "core"),
        counted(machine.cpus().len(), "online CPU"),
    ]
    .join(", ")
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// All rows in the order of the drawing.
fn rows(machine: &Topology) -> Vec<Row> {
    let mut cores: Vec<Row> = (0..machine.cores()).map(|core| row(machine, core)).collect();
    cores.sort_by(|one, other| one.place.cmp(&other.place));
    let mut rows: Vec<Row> = Vec::new();
    for core in cores {
        match rows.last_mut().and_then(|row| row.step_to(&core).map(|step| (row, step))) {
            Some((row, step)) => row.extend(core, step),
            None => rows.push(core),
        }
    }
    rows
}

fn row(machine: &Topology, core: usize) -> Row {
    let cpus = machine.core(core);
    let first = cpus.iter().find_map(|cpu| machine.cpu(cpu)).expect("a core has a CPU");
    let caches = machine.caches().iter().filter(|cache| cache.cpus.contains(first.id));
    let (own, mut shared): (Vec<&Cache>, Vec<&Cache>) =
        caches.partition(|cache| cache.cpus.difference(&cpus).is_empty());
    shared.sort_by_key(|cache| std::cmp::Reverse((cache.cpus.len(), cache.level)));
    let heading = format!("package {}, node {}", first.package, first.node);
    let headings =
        shared.iter().map(|cache| format!("{}: CPUs {}", name(cache), brief(&cache.cpus)));
    let places = shared.iter().filter_map(|cache| cache.cpus.iter().next());
    let mut own: Vec<String> = own.into_iter().map(name).collect();
    own.extend((first.capacity != 1024).then(|| format!("capacity {}", first.capacity)));
    let cpus: Vec<_> = cpus.iter().map(|cpu| (cpu, machine.allowed().contains(cpu))).collect();
    Row {
        within: [heading].into_iter().chain(headings).collect(),
        place: [first.package, first.node].into_iter().chain(places).chain([first.id]).collect(),
        own: own.join(", "),
        first: cpus.clone(),
        last: cpus,
        cores: 1,
        step: None,
    }
}

/// A list like `0-7,16-23`; a long list of every second CPU, third, .., becomes `0,2 .. 78`.
fn brief(cpus: &CpuSet) -> String {
    let cpus_of: Vec<usize> = cpus.iter().collect();
    let even = cpus_of.windows(3).all(|next| next[2] - next[1] == next[1] - next[0]);
    match cpus_of[..] {
        [first, second, .., last] if even && second > first + 1 && cpus_of.len() > 4 => {
            format!("{first},{second} .. {last}")
        }
        _ => cpus.to_string(),
    }
}

/// A description like `L2 1 MiB`.
fn name(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "d",
        CacheKind::Instruction => "i",
        CacheKind::Unified => "",
    };
    let size = match cache.size.map(|bytes| bytes >> 10) {
        Some(kib) if kib >= 1024 && kib % 1024 == 0 => format!(" {} MiB", kib >> 10),
        Some(kib) => format!(" {kib} KiB"),
        None => String::new(),
    };
    format!("L{}{kind}{size}", cache.level)
}

impl Row {
    /// The distance from a CPU of the last core to that of `next`, if both cores are equal and the
    /// distance is even.
    fn step_to(&self, next: &Self) -> Option<usize> {
        let alike = self.within == next.within
            && self.own == next.own
            && self.last.iter().map(|cpu| cpu.1).eq(next.first.iter().map(|cpu| cpu.1));
        let mut steps =
            self.last.iter().zip(&next.first).map(|(one, other)| other.0.checked_sub(one.0));
        let step = steps.next()??;
        let even = steps.all(|other| other == Some(step)) && self.step.is_none_or(|it| it == step);
        (alike && even).then_some(step)
    }

    fn extend(&mut self, next: Self, step: usize) {
        self.last = next.last;
        self.step = Some(step);
        self.cores += 1;
    }
}

/// Writes a row like `8 cores: CPUs 0+8 .. 7+15; each L2 1 MiB`.
impl Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpus = |core: &[(usize, bool)]| {
            let cpu = |&(cpu, allowed): &(usize, bool)| match allowed {
                true => cpu.to_string(),
                false => format!("({cpu})"),
            };
            core.iter().map(cpu).collect::<Vec<_>>().join("+")
        };
        let noun = if self.cores * self.first.len() == 1 { "CPU" } else { "CPUs" };
        write!(f, "{}: {noun} {}", counted(self.cores, "core"), cpus(&self.first))?;
        match self.cores {
            1 => {}
            2 => write!(f, ", {}", cpus(&self.last))?,
            _ => write!(f, " .. {}", cpus(&self.last))?,
        }
        match self.own.as_str() {
            "" => Ok(()),
            own if self.cores == 1 => write!(f, "; {own}"),
            own => write!(f, "; each {own}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daiko_sys::topology::described::Described;

    #[track_caller]
    fn assert_drawn(machine: &str, expected: &str) {
        let described = Described::parse(machine).unwrap().topology().unwrap();
        assert_eq!(of(&described), expected, "{machine}");
    }

    #[test]
    fn one_cpu_takes_few_lines() {
        assert_drawn(
            "1x1x1 without=nodes",
            "\
1 package, 1 node, 1 core, 1 online CPU
package 0, node 0
  1 core: CPU 0; L1d 48 KiB, L1i 32 KiB, L2 1 MiB, L3 16 MiB
pairing is not available: no core has siblings: this processor or virtual machine has none
",
        );
    }

    #[test]
    fn equal_cores_are_one_line() {
        assert_drawn(
            "2x64x2 l3=32 node-ids=0-2",
            "\
2 packages, 3 nodes, 128 cores, 256 online CPUs
package 0, node 0
  L3 16 MiB: CPUs 0-31,128-159
    32 cores: CPUs 0+128 .. 31+159; each L1d 48 KiB, L1i 32 KiB, L2 1 MiB
  L3 16 MiB: CPUs 32-63,160-191
    32 cores: CPUs 32+160 .. 63+191; each L1d 48 KiB, L1i 32 KiB, L2 1 MiB
package 1, node 1
  L3 16 MiB: CPUs 64-95,192-223
    32 cores: CPUs 64+192 .. 95+223; each L1d 48 KiB, L1i 32 KiB, L2 1 MiB
  L3 16 MiB: CPUs 96-127,224-255
    32 cores: CPUs 96+224 .. 127+255; each L1d 48 KiB, L1i 32 KiB, L2 1 MiB
nodes without online CPUs: 2
pairing is available: siblings are there and allowed
",
        );
    }

    #[test]
    fn hybrid_cores_are_drawn_apart() {
        assert_drawn(
            "1x4x2+8x1e order=pct without=sizes",
            "\
1 package, 1 node, 12 cores, 16 online CPUs
package 0, node 0
  L3: CPUs 0-15
    4 cores: CPUs 0+1 .. 6+7; each L1d, L1i, L2
    L2: CPUs 8-11
      4 cores: CPUs 8 .. 11; each L1d, L1i, capacity 512
    L2: CPUs 12-15
      4 cores: CPUs 12 .. 15; each L1d, L1i, capacity 512
pairing is available: siblings are there and allowed
",
        );
    }

    #[test]
    fn forbidden_or_offline_cpus_are_marked() {
        assert_drawn(
            "1x6x2 allowed=0-3,10 offline=5,11 without=caches",
            "\
1 package, 1 node, 5 cores, 10 online CPUs
package 0, node 0
  4 cores: CPUs 0+(6) .. 3+(9)
  1 core: CPUs (4)+10
offline CPUs: 5,11
in parentheses: not allowed
pairing is not available: of no core are two siblings allowed: allow them (taskset, or cpuset.cpus of the control group)
",
        );
        assert_drawn(
            "1x2x2 smt=off without=caches",
            "\
1 package, 1 node, 2 cores, 2 online CPUs
package 0, node 0
  2 cores: CPUs 0, 1
offline CPUs: 2-3
pairing is not available: siblings are offline: as root, write 'on' to /sys/devices/system/cpu/smt/control
",
        );
    }

    #[test]
    fn interleaved_packages_are_drawn_separately() {
        assert_drawn(
            "2x5x1 order=tcp nodes=1 without=sizes",
            "\
2 packages, 1 node, 10 cores, 10 online CPUs
package 0, node 0
  L3: CPUs 0,2 .. 8
    5 cores: CPUs 0 .. 8; each L1d, L1i, L2
package 1, node 0
  L3: CPUs 1,3 .. 9
    5 cores: CPUs 1 .. 9; each L1d, L1i, L2
pairing is not available: no core has siblings: this processor or virtual machine has none
",
        );
    }
}
