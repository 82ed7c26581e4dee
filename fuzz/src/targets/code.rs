//! Samples of a thread in arbitrary code: shares are valid, and unreadable code gives no class.

use daiko_pair::{
    Class,
    class::{Evidence, Profile, Profiler, ReadCode, Unavailable, decide},
};
use daiko_sys::sampling::Sample;

const START: u64 = 0x40_0000;
const SAMPLES: usize = 32;
/// Small, so that a few bytes can name addresses on both sides.
const CACHE: u64 = 1 << 12;

struct Bytes<'a>(&'a [u8]);

impl ReadCode for Bytes<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        let offset = address.checked_sub(START).and_then(|offset| usize::try_from(offset).ok());
        let rest = offset.and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
        len
    }
}

/// The input is the width of addresses and the number of samples; each sample's place and a word
/// for its registers; the code.
pub(super) fn fuzz(data: &[u8]) {
    let Some((&[first, ..], rest)) = data.split_first_chunk::<2>() else { return };
    let bits = if first & 1 == 1 { 32 } else { 64 };
    let count = usize::from(first >> 1) % SAMPLES;
    let (places, _) = rest.as_chunks::<4>();
    let count = count.min(places.len());
    let code = &rest[count * 4..];
    let samples: Vec<Sample> =
        places[..count].iter().map(|place| sample(place, code.len(), bits)).collect();

    let profile = profile(&samples, code);
    assert_eq!(profile.samples, count);
    let known = profile.persists + profile.far + profile.unread;
    for share in [profile.persists, profile.far, profile.spins, profile.unread, known] {
        assert!((0.0..=1.0 + f64::EPSILON).contains(&share), "{profile:?}");
    }
    let nothing = self::profile(&samples, &[]);
    let unread = if count > 0 { 1.0 } else { 0.0 };
    assert_eq!(nothing, Profile { samples: count, unread, ..Profile::default() });
    let counters = Err(Unavailable(String::new()));
    let evidence = Evidence { mappings: Ok(None), profile: Ok(nothing), counters };
    assert_eq!(decide(None, &evidence).class, Class::Unknown);
}

fn profile(samples: &[Sample], code: &[u8]) -> Profile {
    let mut profiler = Profiler::new(CACHE);
    samples.iter().for_each(|sample| profiler.add(sample, &mut Bytes(code)));
    profiler.finish()
}

/// Registers point into the code and beside it, so that calls and loads through them have a target.
fn sample(&[low, high, step, spread]: &[u8; 4], len: usize, bits: u32) -> Sample {
    let place = u64::from(u16::from_le_bytes([low, high])) % (len as u64 + 1);
    let registers = std::array::from_fn(|register| {
        let away = (register as u64 * u64::from(step)) << (spread % 64);
        (START + place).wrapping_add(away)
    });
    Sample { address: START + place, registers, bits }
}
