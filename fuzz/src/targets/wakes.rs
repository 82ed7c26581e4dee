//! A trace of wake-ups: an accepted trace reads the same after printing and can be replayed, and a
//! refusal is one line.

use daiko_lab::experiments::follow_sim::{
    replay::replay,
    trace::{Reader, TraceError, Wake, Writer},
};

/// The input is the file.
pub(super) fn fuzz(data: &[u8]) {
    match read(data) {
        Ok((cpus, wakes, lost)) => check(data, cpus, &wakes, lost),
        Err(error) => {
            let line = error.to_string();
            assert!(error.line > 0 && !line.contains(char::is_control), "{line:?}");
            assert_eq!(replayed(data), Err(error));
        }
    }
}

type Read = (u16, Vec<Wake>, Option<u64>);

fn read(data: &[u8]) -> Result<Read, TraceError> {
    let mut reader = Reader::new(data)?;
    let wakes = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    assert_eq!(reader.next(), None, "it has ended");
    Ok((reader.cpus(), wakes, reader.lost()))
}

/// The number of wake-ups, which each replay has as well.
fn replayed(data: &[u8]) -> Result<u64, TraceError> {
    let replay = replay(&mut Reader::new(data)?, &mut Reader::new(data)?)?;
    assert!(!replay.to_string().contains("NaN"));
    let wakes = replay.recorded.wakes;
    assert!(replay.existing.tallies.iter().all(|tally| tally.wakes == wakes));
    assert!(replay.follow.tallies.iter().all(|tally| tally.wakes == wakes && tally.swaps == 0));
    Ok(wakes)
}

fn check(data: &[u8], cpus: u16, wakes: &[Wake], lost: Option<u64>) {
    for wake in wakes {
        assert!(wake.waker.max(wake.previous).max(wake.chosen) < cpus, "{wake:?} of {cpus}");
        assert_eq!(wake.idle.checked_shr(cpus.into()).unwrap_or(0), 0, "{wake:?} of {cpus}");
    }
    let mut writer = Writer::new(Vec::new(), cpus).expect("memory");
    wakes.iter().for_each(|wake| writer.wake(wake).expect("memory"));
    let text = writer.finish(lost.unwrap_or(0)).expect("memory");
    assert_eq!(read(&text), Ok((cpus, wakes.to_vec(), Some(lost.unwrap_or(0)))));
    assert_eq!(replayed(data), Ok(wakes.len() as u64));
}
