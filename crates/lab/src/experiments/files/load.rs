//! The file, and the share of each thread.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::kit::files;
use crate::kit::random::SplitMix64;
use crate::kit::{Choice, Failure, OrFailure, Skip};

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;

/// An operation on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Hit,
    Miss,
    Fsync,
}

impl Choice for Operation {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Hit, "hit"), (Self::Miss, "miss"), (Self::Fsync, "fsync")];
}

impl Operation {
    /// The number of operations of a sample.
    pub(super) fn rounds(self, quick: bool) -> u64 {
        let rounds = match self {
            Self::Hit => 200_000,
            Self::Miss => 20_000,
            Self::Fsync => 2_000,
        };
        if quick { rounds / 10 } else { rounds }
    }

    pub(super) fn is_read(self) -> bool {
        self != Self::Fsync
    }
}

/// Most pages of the file, for which hits are read again.
const PAGES: u64 = 20_000;

/// Fails with the reason to skip so many threads, or if the temporary folder has no device.
pub(super) fn supports(depth: usize) -> Result<(), Skip> {
    files::check_allowed(depth)?;
    files::check_device()
}

/// The work of a sample, shared by its threads.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) operation: Operation,
    pub(super) depth: usize,
    pub(super) workers: usize,
    /// The file's name, for methods that open it again.
    pub(super) path: PathBuf,
    /// Removed with the last clone.
    _folder: Arc<TempDir>,
    /// The page of each operation.
    pages: Arc<[u32]>,
    next: Arc<AtomicU64>,
}

impl Load {
    pub(super) fn new(
        operation: Operation,
        depth: usize,
        workers: usize,
        rounds: u64,
    ) -> Result<Self, Failure> {
        files::allow(depth)?;
        let folder = tempfile::tempdir().or_limit("no folder for the file")?;
        let path = folder.path().join("pages");
        let count = rounds.min(PAGES);
        fill(&path, count).or_limit("the file cannot be written")?;
        let load = Self {
            operation,
            depth,
            workers,
            path,
            _folder: Arc::new(folder),
            pages: order(count, rounds),
            next: Arc::default(),
        };
        if operation == Operation::Miss {
            drop_pages(&load.open()?)?;
        }
        Ok(load)
    }

    /// The number of operations.
    pub(super) fn rounds(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.rounds().min(PAGES) * PAGE as u64
    }

    /// Opens the file for reading and writing, without reads ahead.
    pub(super) fn open(&self) -> Result<File, Failure> {
        let file = File::options().read(true).write(true).open(&self.path);
        let file = file.or_limit("the file cannot be opened")?;
        // SAFETY: takes plain integers.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
        Ok(file)
    }

    /// The offset of the next page, until all have been given out.
    pub(super) fn next(&self) -> Option<u64> {
        // Relaxed: each number is given out once; the pages were written before any thread began.
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let page = self.pages.get(usize::try_from(index).ok()?)?;
        Some(u64::from(*page) * PAGE as u64)
    }

    /// Checks the sum of the numbers that were read, or that all pages were written.
    pub(super) fn check(&self, sum: u64) -> Result<(), Failure> {
        let expected: u64 = self.pages.iter().map(|page| number(u64::from(*page))).sum();
        let sum = match self.operation.is_read() {
            true => sum,
            false => self.written()?,
        };
        if sum == expected {
            return Ok(());
        }
        Err(Failure::Broken(format!("the sum of the pages is {sum}, not {expected}")))
    }

    /// The sum of the numbers of pages that have been written by operations.
    fn written(&self) -> Result<u64, Failure> {
        let file = self.open()?;
        let mut sum = 0;
        for page in &*self.pages {
            let mut bytes = [0; PAGE];
            let read = file.read_exact_at(&mut bytes, u64::from(*page) * PAGE as u64);
            read.or_limit("the file cannot be read")?;
            sum += number_of(&bytes) * u64::from(bytes[PAGE - 1] == WRITTEN);
        }
        Ok(sum)
    }
}

/// The work of one thread, or of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The sum of the numbers that were read.
    pub(super) sum: u64,
    begin: Instant,
    end: Instant,
}

impl Share {
    /// Begins a share.
    pub(super) fn begin() -> Self {
        let now = Instant::now();
        Self { sum: 0, begin: now, end: now }
    }

    /// Ends it.
    pub(super) fn ended(self) -> Self {
        Self { end: Instant::now(), ..self }
    }

    /// The sum of all shares, and the time from the first begin to the last end: the thread that
    /// waits for all may be delayed at both.
    pub(super) fn all(shares: &[Self]) -> (Option<u64>, Duration) {
        let sum = shares.iter().map(|share| share.sum).sum();
        let begin = shares.iter().map(|share| share.begin).min();
        let end = shares.iter().map(|share| share.end).max();
        let elapsed = begin.zip(end).map(|(begin, end)| end - begin);
        (Some(sum), elapsed.unwrap_or_default())
    }
}

/// The last byte of a page that an operation has written.
const WRITTEN: u8 = 1;

/// The number of a page: not 0, so that each page counts in a sum.
fn number(page: u64) -> u64 {
    page + 1
}

/// The number in a page that was read.
pub(super) fn number_of(bytes: &[u8; PAGE]) -> u64 {
    let first = bytes.first_chunk().expect("a page has eight bytes");
    u64::from_ne_bytes(*first)
}

/// The contents that an operation writes at an offset.
pub(super) fn page_at(offset: u64) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    bytes[..8].copy_from_slice(&number(offset / PAGE as u64).to_ne_bytes());
    bytes[PAGE - 1] = WRITTEN;
    bytes
}

fn fill(path: &std::path::Path, pages: u64) -> std::io::Result<()> {
    let file = File::create(path)?;
    for page in 0..pages {
        let mut bytes = page_at(page * PAGE as u64);
        bytes[PAGE - 1] = 0;
        file.write_all_at(&bytes, page * PAGE as u64)?;
    }
    file.sync_all()
}

/// The pages in random order, again and again until there are so many.
fn order(pages: u64, rounds: u64) -> Arc<[u32]> {
    let mut order: Vec<u32> = (0..pages as u32).collect();
    let mut random = SplitMix64(pages);
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order.into_iter().cycle().take(rounds as usize).collect()
}

/// Drops all pages from the cache.
fn drop_pages(file: &File) -> Result<(), Failure> {
    // SAFETY: takes plain integers.
    let error = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    match error {
        0 => Ok(()),
        errno => Err(std::io::Error::from_raw_os_error(errno)).or_limit("the pages stay cached"),
    }
}
