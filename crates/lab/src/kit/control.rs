//! State of prefetchers and frequency, which P4 controlled: prefetchers off, frequency fixed.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Model-specific register of Intel's cores since Nehalem. Each of its bits turns a prefetcher off
/// ("Disclosure of hardware prefetcher control on some Intel processors", 2014).
const PREFETCHERS: u64 = 0x1a4;
const ALL_OFF: u64 = 0b1111;

const CPU0: &str = "sys/devices/system/cpu/cpu0/cpufreq";

/// State of the hardware prefetchers: `off`, `on`, `some off`, or `unknown` if it cannot be read
/// (root can, with the module `msr`).
pub(crate) fn prefetchers() -> String {
    prefetchers_in(Path::new("/"))
}

/// Frequency settings of the first CPU: governor, range, turbo; `unknown` if the machine does not
/// report them.
pub(crate) fn frequency() -> String {
    frequency_in(Path::new("/"))
}

fn prefetchers_in(root: &Path) -> String {
    let is_intel = read(root, "proc/cpuinfo").is_some_and(|info| info.contains("GenuineIntel"));
    let register = is_intel.then(|| register(&root.join("dev/cpu/0/msr"))).flatten();
    match register.map(|bits| bits & ALL_OFF) {
        None => "unknown",
        Some(0) => "on",
        Some(ALL_OFF) => "off",
        Some(_) => "some off",
    }
    .into()
}

fn register(file: &Path) -> Option<u64> {
    let mut bytes = [0; 8];
    fs::File::open(file).ok()?.read_exact_at(&mut bytes, PREFETCHERS).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn frequency_in(root: &Path) -> String {
    let of_cpu = |name: &str| read(root, &format!("{CPU0}/{name}"));
    let mhz = |name| Some(of_cpu(name)?.parse::<u64>().ok()? / 1000);
    let governor = of_cpu("scaling_governor").map(|governor| format!("governor {governor}"));
    let range = mhz("scaling_min_freq").zip(mhz("scaling_max_freq"));
    let range = range.map(|(least, most)| format!("{least} to {most} MHz"));
    let parts: Vec<String> = [governor, range, turbo(root)].into_iter().flatten().collect();
    if parts.is_empty() { "unknown".into() } else { parts.join(", ") }
}

fn turbo(root: &Path) -> Option<String> {
    let flag = |name: &str| read(root, &format!("sys/devices/system/cpu/{name}"));
    let on = match (flag("intel_pstate/no_turbo"), flag("cpufreq/boost")) {
        (Some(off), _) => off == "0",
        (None, boost) => boost? == "1",
    };
    Some(format!("turbo {}", if on { "on" } else { "off" }))
}

fn read(root: &Path, name: &str) -> Option<String> {
    fs::read_to_string(root.join(name)).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, contents) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, contents).expect("a file");
        }
        root
    }

    fn with_register(vendor: &str, bits: u64) -> String {
        let mut msr = vec![0; PREFETCHERS as usize];
        msr.extend(bits.to_le_bytes());
        let info = format!("vendor_id\t: {vendor}\n");
        let root = host(&[("proc/cpuinfo", info.as_bytes()), ("dev/cpu/0/msr", &msr)]);
        prefetchers_in(root.path())
    }

    #[test]
    fn prefetchers_are_bits_of_a_register_of_intel() {
        assert_eq!(with_register("GenuineIntel", 0), "on");
        assert_eq!(with_register("GenuineIntel", 0b1111), "off");
        assert_eq!(with_register("GenuineIntel", 0b10_1111), "off");
        assert_eq!(with_register("GenuineIntel", 0b0010), "some off");
        assert_eq!(with_register("AuthenticAMD", 0b1111), "unknown");
        assert_eq!(prefetchers_in(Path::new("/nonexistent")), "unknown");
    }

    #[test]
    fn frequency_is_told_as_far_as_it_is_known() {
        let files: [(&str, &[u8]); 4] = [
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", b"performance\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", b"2100000\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", b"2100000\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", b"1\n"),
        ];
        let told = |files| frequency_in(host(files).path());
        assert_eq!(told(&files), "governor performance, 2100 to 2100 MHz, turbo off");
        assert_eq!(told(&files[..1]), "governor performance");
        assert_eq!(told(&[("sys/devices/system/cpu/cpufreq/boost", b"1\n")]), "turbo on");
        assert_eq!(told(&[]), "unknown");
    }
}
