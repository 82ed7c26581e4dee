//! The joint evaluation of a thread's samples.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use daiko_sys::sampling::Sample;

use super::decode::{InstructionKind, ReadCode, STACK, Site, StackWords};

/// Least number of addresses that shows if an access is near or far.
const ENOUGH_ADDRESSES: usize = 6;
/// Least share of time spent waiting for flushes and fences at which a thread does so repeatedly.
const GOES_ON: f64 = 0.1;
/// Least share of that time at which loads may meet lines that were written back.
const EVICTS: f64 = 0.01;
/// The distance from which on two addresses do not belong to the same data.
const APART: u64 = 1 << 36;
/// Address bits within a block: memory in a block that is visited again is taken to be cached.
const BLOCK: u32 = 16;
/// Least surplus of steps in one direction, as a share of all steps, of a sequential access.
const ORDERED: f64 = 0.6;

/// Shares of a thread's run time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Profile {
    /// The number of samples.
    pub samples: usize,
    /// Waiting for lines on their way to persistence.
    pub persists: f64,
    /// Waiting for addresses in far memory that are not visited in order.
    pub far: f64,
    /// Running in a loop that waits for another thread.
    pub spins: f64,
    /// Waiting for memory at addresses that cannot be told, so possibly for far memory.
    pub untold: f64,
    /// Running code that cannot be read, so possibly any of these.
    pub unread: f64,
}

/// The distance of the memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distance {
    /// Memory that the caches hold, or that is visited in order.
    Near,
    /// Memory beyond the caches.
    Far,
    /// Memory at addresses of which too few are known.
    Unknown,
}

/// Builds a [`Profile`] from the samples of a thread as they arrive.
///
/// # Examples
///
/// ```
/// use daiko_pair::class::{Profiler, ReadCode};
/// use daiko_sys::sampling::Sample;
///
/// /// Nothing but flushes: `clwb [rdi]`.
/// struct Flushes;
///
/// impl ReadCode for Flushes {
///     fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
///         const CLWB: [u8; 4] = [0x66, 0x0f, 0xae, 0x37];
///         bytes.iter_mut().zip(address..).for_each(|(byte, at)| *byte = CLWB[at as usize % 4]);
///         bytes.len()
///     }
/// }
///
/// let mut profiler = Profiler::new(32 << 20);
/// profiler.add(&Sample { address: 0x1000, registers: [0; 16], bits: 64 }, &mut Flushes);
/// assert_eq!(profiler.finish().persists, 1.0);
/// ```
#[derive(Debug)]
pub struct Profiler {
    /// Memory beyond this many bytes does not fit into the caches.
    cache: u64,
    sites: HashMap<(u64, u32), Rc<Site>>,
    /// The surroundings of each sample.
    waited: Vec<Rc<Site>>,
    spins: usize,
    unread: usize,
    /// The number of samples near which lines are written back.
    writes_back: usize,
    /// True if a fence is near, by non-temporal store.
    fenced: HashMap<u64, bool>,
    /// Data addresses by instruction, in order of time.
    addresses: HashMap<u64, Vec<u64>>,
    /// The number of the present round of samples.
    round: u32,
    /// For each visited block, the first round with an access to it, and whether a later one has.
    blocks: HashMap<u64, (u32, bool)>,
    /// The stack as it was read last, by the stack pointer.
    stacks: HashMap<u64, StackWords>,
}

impl Profiler {
    /// Creates a profiler without samples, for a machine with caches of `cache` bytes.
    pub fn new(cache: u64) -> Self {
        Self {
            cache,
            sites: HashMap::new(),
            waited: Vec::new(),
            spins: 0,
            unread: 0,
            writes_back: 0,
            fenced: HashMap::new(),
            addresses: HashMap::new(),
            round: 0,
            blocks: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    /// The number of samples so far.
    pub fn samples(&self) -> usize {
        self.waited.len()
    }

    /// Begins a round of samples. Words of the stack that are read in the same round may all belong
    /// to one moment, as the thread need not run meanwhile.
    pub fn begin_round(&mut self) {
        self.round += 1;
    }

    /// Adds a sample; `code` reads the code of its process.
    pub fn add(&mut self, sample: &Sample, code: &mut dyn ReadCode) {
        let key = (sample.address, sample.bits);
        let site = self.sites.entry(key).or_insert_with(|| Rc::new(Site::at(code, sample)));
        let site = Rc::clone(site);
        self.waited.push(Rc::clone(&site));
        self.spins +=
            usize::from(site.spins || matches!(site.culprit, Some((InstructionKind::Pause, _))));
        self.unread += usize::from(site.unread);
        self.writes_back += usize::from(site.writes_back);
        if let Some((InstructionKind::Nontemporal, at)) = site.culprit {
            *self.fenced.entry(at).or_default() |= site.fences;
        }
        let top = sample.registers[STACK];
        let stack = StackWords::around(top, |at, bytes| code.read_data(at, bytes));
        // If the thread has not run since the last reading, its words show nothing new.
        let is_new = self.stacks.get(&top) != Some(&stack);
        let told = if is_new { &stack } else { &StackWords::default() };
        for (at, address) in site.addresses(&sample.registers, told) {
            self.visit(at, address);
        }
        self.stacks.insert(top, stack);
    }

    /// Notes an address of the data that the instruction `at` accesses.
    fn visit(&mut self, at: u64, address: u64) {
        self.addresses.entry(at).or_default().push(address);
        let (first, again) = self.blocks.entry(address >> BLOCK).or_insert((self.round, false));
        *again |= *first != self.round;
    }

    /// The profile of the samples so far.
    pub fn finish(&self) -> Profile {
        let samples = self.samples();
        let share_of = |count: usize| count as f64 / samples.max(1) as f64;
        let share = |is: &dyn Fn(&Site) -> bool| {
            share_of(self.waited.iter().filter(|waited| is(waited)).count())
        };
        let distances: HashMap<u64, Distance> =
            self.addresses.iter().map(|(at, list)| (*at, self.distance(list))).collect();
        let distance = |at: &u64| distances.get(at).copied().unwrap_or(Distance::Unknown);
        let often = share_of(self.writes_back) >= GOES_ON;
        let persists = |waited: &Site| match &waited.culprit {
            Some((InstructionKind::Flush, _)) => true,
            Some((InstructionKind::Fence, _)) => self.writes_back > 0,
            Some((InstructionKind::Nontemporal, at)) => {
                self.is_scattered(*at) || self.fenced.get(at) == Some(&true)
            }
            // A locked instruction waits for all earlier stores, those of other functions as well.
            _ => waited.drains || often && waited.locked,
        };
        // Stores queue behind those on their way to persistence, and written-back lines must be
        // fetched again.
        let goes_on = share(&persists) >= GOES_ON || often && share(&persists) >= GOES_ON / 2.0;
        // So does the rest of a round that calls a function for that, as the stacks show.
        let chains = self.chains(&persists);
        let in_chain =
            |waited: &Site| waited.waits && waited.round.iter().any(|at| chains.contains(at));
        let persists = |waited: &Site| {
            persists(waited) || goes_on && (waited.stores || waited.writes_back) || in_chain(waited)
        };
        // Lines that were written back may have left the caches.
        let evicts = share(&persists) >= EVICTS;
        let told = |at: &u64| match distance(at) {
            Distance::Near if evicts && self.is_scattered(*at) => Distance::Unknown,
            distance => distance,
        };
        let waits = |for_memory: Distance| {
            share(&|waited| {
                matches!(&waited.culprit, Some((InstructionKind::Memory, at)) if told(at) == for_memory)
                    && !persists(waited)
            })
        };
        Profile {
            samples,
            persists: share(&persists),
            far: waits(Distance::Far),
            untold: waits(Distance::Unknown),
            spins: share_of(self.spins),
            unread: share_of(self.unread),
        }
    }

    /// The first instructions of rounds in which samples often wait for persistence.
    fn chains(&self, persists: &dyn Fn(&Site) -> bool) -> HashSet<u64> {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for site in self.waited.iter().filter(|site| persists(site)) {
            site.round.first().into_iter().for_each(|at| *counts.entry(*at).or_default() += 1);
        }
        let often = (GOES_ON * self.samples() as f64) as usize;
        counts.into_iter().filter(|(_, count)| *count > often).map(|(at, _)| at).collect()
    }

    /// Returns true if an instruction accesses blocks in no order. Non-temporal stores then wait
    /// for memory, also if the caches could hold the data.
    fn is_scattered(&self, at: u64) -> bool {
        self.addresses.get(&at).is_some_and(|list| {
            let together = of_one_structure(list);
            together.len() >= ENOUGH_ADDRESSES && is_far(&together, 1 << BLOCK)
        })
    }

    /// The distance of data at these addresses of one instruction. If they are few, the data is
    /// near if the same blocks are accessed in other rounds.
    fn distance(&self, addresses: &[u64]) -> Distance {
        let together = of_one_structure(addresses);
        let again = |address: &u64| self.blocks[&(address >> BLOCK)].1;
        match together.len() < ENOUGH_ADDRESSES {
            false if is_far(&together, self.cache) => Distance::Far,
            true if !addresses.iter().all(again) => Distance::Unknown,
            _ => Distance::Near,
        }
    }
}

/// Returns the addresses of the data that most of them belong to, in the same order.
fn of_one_structure(addresses: &[u64]) -> Vec<u64> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    let groups = sorted.chunk_by(|one, next| next - one < APART);
    let Some(most) = groups.max_by_key(|group| group.len()) else { return Vec::new() };
    let within = most[0]..=most[most.len() - 1];
    addresses.iter().copied().filter(|address| within.contains(address)).collect()
}

/// Returns true if the addresses span more than the caches hold, in no order: sequential accesses
/// are prefetched.
fn is_far(addresses: &[u64], cache: u64) -> bool {
    let (Some(least), Some(most)) = (addresses.iter().min(), addresses.iter().max()) else {
        return false;
    };
    most - least > cache && !is_ordered(addresses)
}

fn is_ordered(addresses: &[u64]) -> bool {
    let steps = addresses.windows(2).filter(|two| two[0] != two[1]);
    let (mut up, mut down) = (0_u32, 0_u32);
    steps.for_each(|two| if two[0] < two[1] { up += 1 } else { down += 1 });
    f64::from(up.abs_diff(down)) >= ORDERED * f64::from(up + down)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Pseudo-random numbers below a power of two.
    fn scattered(count: u64, within: u64) -> Vec<u64> {
        (1..=count)
            .map(|n| (n * n).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20 & (within - 1))
            .collect()
    }

    #[test]
    fn addresses_scattered_beyond_the_caches_are_far() {
        assert!(is_far(&scattered(100, 256 * MIB), 32 * MIB));
        assert!(!is_far(&scattered(100, 16 * MIB), 32 * MIB), "the caches hold it");
        assert!(!is_far(&[], 32 * MIB));
    }

    /// A profiler with these addresses of one instruction, each in a round of its own.
    fn told(addresses: &[u64]) -> Distance {
        let mut profiler = Profiler::new(32 * MIB);
        for address in addresses {
            profiler.begin_round();
            profiler.visit(1, *address);
        }
        profiler.distance(addresses)
    }

    #[test]
    fn few_addresses_are_near_only_if_they_are_visited_again() {
        let few = scattered(ENOUGH_ADDRESSES as u64 - 1, 256 * MIB);
        assert_eq!(told(&few), Distance::Unknown);
        assert_eq!(told(&[7 * MIB, 7 * MIB + 8]), Distance::Near);
        assert_eq!(told(&scattered(100, 256 * MIB)), Distance::Far);
        // In one round they may all belong to one moment.
        let mut profiler = Profiler::new(32 * MIB);
        (0..2).for_each(|_| profiler.visit(1, 7 * MIB));
        assert_eq!(profiler.distance(&[7 * MIB; 2]), Distance::Unknown);
    }

    #[test]
    fn the_heap_and_the_stack_are_not_one_structure() {
        const TOP: u64 = 0x7fff_0000_0000;
        let mixed: Vec<u64> = (0..40).map(|n| if n % 3 == 0 { TOP } else { n * MIB / 4 }).collect();
        assert_eq!(told(&mixed), Distance::Near);
        let far: Vec<u64> = scattered(40, 256 * MIB).into_iter().chain([TOP; 10]).collect();
        assert_eq!(told(&far), Distance::Far);
    }

    /// Code at 0x1000, a stack at 0x8000 that the thread has not changed between two samples.
    struct Slots;

    impl ReadCode for Slots {
        fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
            // `mov rax, [rsp]`, `mov rax, [rax]`, and a jump back to the first.
            const LOOP: [u8; 9] = [0x48, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x00, 0xeb, 0xf7];
            const POINTER: u64 = 0x5000_0000;
            for (at, byte) in (address..).zip(&mut *bytes) {
                *byte = match at {
                    0x1000..0x1009 => LOOP[at as usize - 0x1000],
                    0x8000..0x8008 => POINTER.to_le_bytes()[at as usize - 0x8000],
                    _ => 0x90,
                };
            }
            bytes.len()
        }
    }

    #[test]
    fn words_of_a_stack_that_has_not_changed_are_told_once() {
        let mut registers = [0; 16];
        registers[4] = 0x8000;
        let mut profiler = Profiler::new(32 * MIB);
        for _ in 0..ENOUGH_ADDRESSES * 2 {
            profiler.begin_round();
            profiler.add(&Sample { address: 0x1007, registers, bits: 64 }, &mut Slots);
        }
        assert_eq!(profiler.addresses[&0x1004].iter().filter(|at| **at == 0x5000_0000).count(), 1);
        let profile = profiler.finish();
        assert_eq!((profile.untold, profile.far), (1.0, 0.0), "one address says nothing");
    }

    #[test]
    fn scattered_accesses_are_told_from_streams_within_the_caches() {
        let mut profiler = Profiler::new(32 * MIB);
        scattered(100, MIB).into_iter().for_each(|address| profiler.visit(1, address));
        (0..100).for_each(|step| profiler.visit(2, step * 4096));
        scattered(100, 1 << 12).into_iter().for_each(|address| profiler.visit(3, address));
        assert!(profiler.is_scattered(1));
        assert!(!profiler.is_scattered(2), "in order");
        assert!(!profiler.is_scattered(3), "in one block");
        assert!(!profiler.is_scattered(4), "nothing is known");
    }

    #[test]
    fn addresses_visited_in_order_are_not_far() {
        let up: Vec<u64> = (0..100).map(|step| step * 5 * MIB % (128 * MIB)).collect();
        let down: Vec<u64> = up.iter().map(|address| 128 * MIB - address).collect();
        assert!(!is_far(&up, 32 * MIB) && !is_far(&down, 32 * MIB));
        assert!(!is_far(&[7, 7, 7, 7, 7, 7, 7, 200 * MIB], 32 * MIB), "two places");
    }
}
