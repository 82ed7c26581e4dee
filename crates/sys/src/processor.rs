//! The model of the processor, by which it has its events of hardware counters.

use std::path::Path;

use crate::arch;

/// The maker of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Any other.
    Other,
}

/// The model of a processor, in the numbers of Linux (`/proc/cpuinfo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// Its maker.
    pub vendor: Vendor,
    /// The family, for example 6 for most of Intel's.
    pub family: u32,
    /// The model within the family.
    pub model: u32,
    /// True if it has cores of two kinds, each with events of its own.
    pub is_hybrid: bool,
}

impl Processor {
    /// Returns the model of this machine's processor, or the one that the hypervisor shows. One of
    /// another architecture than x86-64 is [`Vendor::Other`], of family 0.
    pub fn detect() -> Self {
        let (name, version) = arch::identity();
        // The kernel has a folder for the events of each kind of cores.
        let is_hybrid = Path::new("/sys/bus/event_source/devices/cpu_core").exists();
        Self { is_hybrid, ..Self::decode(&name, version) }
    }

    /// The model by the name of its maker and EAX of leaf 1 of `cpuid` (Intel SDM, volume 2, CPUID;
    /// AMD APM, volume 3, E.3.2).
    fn decode(name: &[u8], version: u32) -> Self {
        let bits = |from: u32, count: u32| version >> from & ((1 << count) - 1);
        let vendor = match name {
            b"GenuineIntel" => Vendor::Intel,
            b"AuthenticAMD" => Vendor::Amd,
            _ => Vendor::Other,
        };
        let (base, model, extension) = (bits(8, 4), bits(4, 4), bits(16, 4) << 4);
        let family = if base == 0xf { base + bits(20, 8) } else { base };
        let model = if matches!(base, 0x6 | 0xf) { model | extension } else { model };
        Self { vendor, family, model, is_hybrid: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of EAX that `cpuid` shows for an Emerald Rapids, an EPYC 7763 (Milan), an EPYC 9654
    /// (Genoa), and a Pentium.
    #[test]
    fn extensions_of_family_and_model_are_added_where_they_count() {
        let decoded = |name: &[u8], version| {
            let processor = Processor::decode(name, version);
            (processor.vendor, processor.family, processor.model)
        };
        assert_eq!(decoded(b"GenuineIntel", 0x000c_06f2), (Vendor::Intel, 6, 0xcf));
        assert_eq!(decoded(b"AuthenticAMD", 0x00a0_0f11), (Vendor::Amd, 25, 0x01));
        assert_eq!(decoded(b"AuthenticAMD", 0x00a1_0f11), (Vendor::Amd, 25, 0x11));
        assert_eq!(decoded(b"GenuineIntel", 0x000f_0543), (Vendor::Intel, 5, 4));
        assert_eq!(decoded(b"HygonGenuine", 0x0090_0f01).0, Vendor::Other);
    }

    #[test]
    fn this_processor_is_the_one_that_the_kernel_names() {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let field = |name: &str| {
            let line = info.lines().find(|line| line.split(':').next().unwrap().trim() == name)?;
            Some(line.split(':').nth(1).unwrap().trim().parse::<u32>().unwrap())
        };
        let processor = Processor::detect();
        // An emulator may show the processor of its host.
        let named = field("cpu family").zip(field("model"));
        let named = named.filter(|_| cfg!(target_arch = "x86_64"));
        assert_eq!((processor.family, processor.model), named.unwrap_or_default());
    }
}
