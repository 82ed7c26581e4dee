//! Progress of a thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use daiko_sys::counters::{Counter, CounterError, HardwareEvent};

/// A measure of the progress of a thread or its process.
#[derive(Debug)]
pub enum Progress {
    /// Instructions completed in user space.
    Instructions(Counter),
    /// A count maintained by the program, declared as the first eight bytes of a file.
    Declared(File),
}

impl Progress {
    /// Counts with the processor's counter.
    ///
    /// # Errors
    ///
    /// [`CounterError::Missing`] on many virtual machines.
    pub fn instructions(thread: u32) -> Result<Self, CounterError> {
        let counter = Counter::of_thread(HardwareEvent::INSTRUCTIONS, thread)?;
        Ok(Self::Instructions(counter))
    }

    /// Reads a file that the program maps or writes: a rising number of eight bytes in native byte
    /// order.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is shorter.
    pub fn declared(file: &Path) -> io::Result<Self> {
        let progress = Self::Declared(File::open(file)?);
        progress.read().map(|_| progress)
    }

    /// The progress since an arbitrary origin.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` for a file that is too short; the kernel's error.
    pub fn read(&self) -> io::Result<f64> {
        match self {
            Self::Instructions(counter) => counter.count(),
            Self::Declared(file) => {
                let mut word = [0; 8];
                file.read_exact_at(&mut word, 0)?;
                Ok(u64::from_ne_bytes(word) as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_declared_number_is_read_again_and_again() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert!(Progress::declared(file.path()).is_err(), "empty");
        file.write_all(&7_u64.to_ne_bytes()).unwrap();
        let progress = Progress::declared(file.path()).unwrap();
        assert_eq!(progress.read().unwrap(), 7.0);
        file.as_file().write_all_at(&9_u64.to_ne_bytes(), 0).unwrap();
        assert_eq!(progress.read().unwrap(), 9.0);
        assert!(Progress::declared(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn instructions_are_counted_or_the_remedy_is_told() {
        match Progress::instructions(daiko_sys::thread::id()) {
            Ok(progress) => {
                let before = progress.read().unwrap();
                (0..1000_u32).for_each(|round| _ = std::hint::black_box(round));
                assert!(progress.read().unwrap() >= before + 1000.0);
            }
            Err(error) => {
                let told = error.to_string();
                let remedies = ["use a machine that", "kernel.perf_event_paranoid"];
                assert!(remedies.iter().any(|remedy| told.contains(remedy)), "{told}");
                println!("skipped: {told}");
            }
        }
    }
}
