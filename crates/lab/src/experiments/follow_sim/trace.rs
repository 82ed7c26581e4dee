//! Wake-ups as a text file, written by a recorder and read for a replay.
//!
//! ```text
//! daiko-wakes 1
//! cpus 4
//! # time-ns task waker previous idle-mask-hex chosen
//! 1203 17 0 1 3 0
//! lost 0
//! end 1
//! ```
//!
//! Each wake-up is a line, in order: its time in nanoseconds since any origin; the woken task; the
//! CPU that processed the wake-up; the CPU where the task last ran; the idle CPUs as a bit mask in
//! hexadecimal; and the chosen CPU. Times need not ascend, as each CPU records its own. `lost` is
//! the number of wake-ups that could not be recorded, and is optional. `end` is the number of
//! recorded wake-ups, which detects a truncated file. Empty lines and lines that begin with `#` are
//! ignored.

use std::fmt;
use std::io::{self, BufRead, Read, Write};

use super::model::MOST_CPUS;
use crate::kit::failure::quoted;

const VERSION: &str = "1";
/// Bytes of a line at most; more than seven numbers need.
const MOST_BYTES: u64 = 160;
/// Characters of a wrong line that an error quotes at most.
const MOST_QUOTED: usize = 40;

/// A wake-up and the task's placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Time in nanoseconds.
    pub at_ns: u64,
    /// The woken task.
    pub task: u32,
    /// The CPU that processed the wake-up.
    pub waker: u16,
    /// The CPU where the task last ran.
    pub previous: u16,
    /// A bit for each idle CPU.
    pub idle: u128,
    /// The CPU where the task was placed.
    pub chosen: u16,
}

/// Writes a trace, one wake-up at a time.
///
/// # Examples
///
/// ```
/// use daiko_lab::experiments::follow_sim::trace::{Reader, Wake, Writer};
///
/// let wake = Wake { at_ns: 1203, task: 17, waker: 0, previous: 1, idle: 0b11, chosen: 0 };
/// let mut writer = Writer::new(Vec::new(), 4)?;
/// writer.wake(&wake)?;
/// let text = writer.finish(0)?;
///
/// let mut reader = Reader::new(&text[..]).unwrap();
/// assert_eq!(reader.next(), Some(Ok(wake)));
/// assert_eq!(reader.next(), None);
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    wakes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace of a machine with this many CPUs. `out` should be buffered.
    ///
    /// # Errors
    /// Fails when `out` cannot be written to.
    pub fn new(mut out: W, cpus: u16) -> io::Result<Self> {
        writeln!(out, "daiko-wakes {VERSION}\ncpus {cpus}")?;
        writeln!(out, "# time-ns task waker previous idle-mask-hex chosen")?;
        Ok(Self { out, wakes: 0 })
    }

    /// Adds a wake-up.
    ///
    /// # Errors
    /// Fails when `out` cannot be written to.
    pub fn wake(&mut self, wake: &Wake) -> io::Result<()> {
        let Wake { at_ns, task, waker, previous, idle, chosen } = wake;
        self.wakes += 1;
        writeln!(self.out, "{at_ns} {task} {waker} {previous} {idle:x} {chosen}")
    }

    /// Ends the trace, in which `lost` wake-ups are missing. An unfinished trace cannot be read.
    ///
    /// # Errors
    /// Fails when `out` cannot be written to.
    pub fn finish(mut self, lost: u64) -> io::Result<W> {
        writeln!(self.out, "lost {lost}\nend {}", self.wakes)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Error in a trace, with its remedy, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// Number of the line, counted from 1.
    pub line: u64,
    fault: String,
}

impl TraceError {
    pub(super) fn new(line: u64, fault: impl Into<String>) -> Self {
        Self { line, fault: fault.into() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

impl std::error::Error for TraceError {}

/// Reads a trace, one wake-up at a time, in bounded memory. Ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    cpus: u16,
    wakes: u64,
    lost: Option<u64>,
    has_ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the head of the trace.
    ///
    /// # Errors
    /// Fails if there is no head, or if it is of another version.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let (line, lost) = (Vec::new(), None);
        let mut reader = Self { input, line, number: 0, cpus: 0, wakes: 0, lost, has_ended: false };
        match reader.advance()?.as_deref().map(words).as_deref() {
            Some(["daiko-wakes", VERSION]) => {}
            Some(["daiko-wakes", version]) => {
                let line = format!(
                    "a trace of version {}; this reads version {VERSION}: record it by this version of daiko",
                    excerpt(version)
                );
                return Err(reader.error(line));
            }
            _ => {
                let line = "no trace: it would begin with 'daiko-wakes 1'; name a file that was recorded as one";
                return Err(reader.error(line));
            }
        }
        reader.cpus = match reader.advance()?.as_deref().map(words).as_deref() {
            Some(["cpus", cpus]) => cpus.parse().ok().filter(|cpus| (1..=MOST_CPUS).contains(cpus)),
            _ => None,
        }
        .ok_or_else(|| {
            reader.error(format!("here would stand 'cpus' and 1 to {MOST_CPUS}; record it again"))
        })?;
        Ok(reader)
    }

    /// Number of CPUs of the machine.
    pub fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Number of missing wake-ups, known at the end of the trace if it is recorded at all.
    pub fn lost(&self) -> Option<u64> {
        self.lost
    }

    /// Number of the line that was read last.
    pub fn line(&self) -> u64 {
        self.number
    }

    /// Returns the next line that is not ignored, or `None` after the last.
    fn advance(&mut self) -> Result<Option<String>, TraceError> {
        loop {
            self.line.clear();
            self.number += 1;
            let mut input = (&mut self.input).take(MOST_BYTES);
            let read = input.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| TraceError::new(self.number, error.to_string()))?;
            if read == 0 {
                return Ok(None);
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            } else if read as u64 == MOST_BYTES {
                return Err(self.error(format!("longer than {MOST_BYTES} bytes; record it again")));
            }
            let line = str::from_utf8(&self.line);
            let line = line.map_err(|_| self.error("not text; name a file that was recorded"))?;
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                return Ok(Some(line.to_owned()));
            }
        }
    }

    fn error(&self, fault: impl Into<String>) -> TraceError {
        TraceError::new(self.number, fault)
    }

    fn read(&mut self) -> Result<Option<Wake>, TraceError> {
        loop {
            let Some(line) = self.advance()? else {
                return Err(self.error(format!(
                    "truncated: no 'end' behind {} wake-ups; copy all of it, or record it again",
                    self.wakes
                )));
            };
            match words(&line)[..] {
                ["lost", lost] if self.lost.is_none() => {
                    self.lost = Some(self.number("a number of lost wake-ups", lost)?);
                }
                ["end", wakes] => return self.end(wakes).map(|()| None),
                [at, task, waker, previous, idle, chosen] if self.lost.is_none() => {
                    return self.wake([at, task, waker, previous, idle, chosen]).map(Some);
                }
                _ => {
                    let line = excerpt(&line);
                    return Err(self.error(format!(
                        "'{line}' is no wake-up, which has six numbers; record it again"
                    )));
                }
            }
        }
    }

    fn wake(
        &mut self,
        [at, task, waker, previous, idle, chosen]: [&str; 6],
    ) -> Result<Wake, TraceError> {
        let idle_mask = is_plain(idle, 16).then(|| u128::from_str_radix(idle, 16).ok()).flatten();
        let beyond = u128::MAX.checked_shl(self.cpus.into()).unwrap_or(0);
        let wake = Wake {
            at_ns: self.number("a time in nanoseconds", at)?,
            task: self.number("a task", task)?,
            waker: self.cpu(waker)?,
            previous: self.cpu(previous)?,
            idle: idle_mask.filter(|mask| mask & beyond == 0).ok_or_else(|| {
                let (idle, cpus) = (excerpt(idle), self.cpus);
                self.error(format!("'{idle}' is no mask of {cpus} CPUs; record it again"))
            })?,
            chosen: self.cpu(chosen)?,
        };
        self.wakes += 1;
        Ok(wake)
    }

    fn cpu(&self, word: &str) -> Result<u16, TraceError> {
        match self.number("a CPU", word)? {
            cpu if cpu < self.cpus => Ok(cpu),
            cpu => Err(self.error(format!("CPU {cpu} of {}; record it again", self.cpus))),
        }
    }

    fn number<N: std::str::FromStr>(&self, expected: &str, word: &str) -> Result<N, TraceError> {
        let number = is_plain(word, 10).then(|| word.parse().ok()).flatten();
        number.ok_or_else(|| {
            self.error(format!("'{}' is not {expected}; record it again", excerpt(word)))
        })
    }

    fn end(&mut self, wakes: &str) -> Result<(), TraceError> {
        let told: u64 = self.number("a number of wake-ups", wakes)?;
        if told != self.wakes {
            return Err(self.error(format!(
                "'end {told}' behind {} wake-ups: some are missing or too many; record it again",
                self.wakes
            )));
        }
        match self.advance()? {
            None => Ok(()),
            Some(_) => Err(self.error("more lines behind the end; remove them")),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Wake, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let read = self.read().transpose();
        self.has_ended = !matches!(read, Some(Ok(_)));
        read
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

/// Whether the word consists of digits only: `parse` alone would accept a sign.
fn is_plain(word: &str, radix: u32) -> bool {
    !word.is_empty() && word.chars().all(|digit| digit.is_digit(radix))
}

/// Shortens and quotes a text for an error.
fn excerpt(words: &str) -> String {
    let words = quoted(words);
    match words.char_indices().nth(MOST_QUOTED) {
        Some((end, _)) => format!("{}..", &words[..end]),
        None => words,
    }
}
