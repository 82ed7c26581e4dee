//! Copies of memory that other threads or processes write at the same time.

use crate::arch;

/// Copies `len` bytes that other threads or processes may read and write at the same time.
///
/// It stands for a relaxed atomic access to each byte, so that a race spoils the copy alone. Rust
/// has no such access to many bytes: its copies must not race, nor may volatile accesses. So
/// assembly makes these, and the compiler does not see how.
///
/// # Safety
///
/// `from` can be read and `to` be written for `len` bytes, which do not overlap. All that access
/// one of these bytes at the same time do so by this function, or in another process.
///
/// # Examples
///
/// ```
/// use daiko_sys::memory::copy_racing;
///
/// let (from, mut to) = ([1, 2, 3], [0; 3]);
/// // SAFETY: two arrays of three bytes.
/// unsafe { copy_racing(from.as_ptr(), to.as_mut_ptr(), 3) };
/// assert_eq!(to, from);
/// ```
#[inline]
pub unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as much is read and written as this function's contract allows.
    unsafe {
        match len {
            // Values of these lengths are known to be so where they are copied, and take no call.
            4 => arch::copy_4(from, to),
            8 => arch::copy_8(from, to),
            16 => arch::copy_16(from, to),
            _ => arch::copy_any(from, to, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bytes_are_copied_as_are_asked_for() {
        const ROOM: usize = 600;
        let from: Vec<u8> = (0..ROOM).map(|at| at as u8 | 1).collect();
        for len in (0..70).chain([255, 256, 511, 513]) {
            for (read, write) in [(0, 0), (1, 3), (7, 8)] {
                let mut to = [0; ROOM];
                // SAFETY: both have room for that, and are two.
                unsafe { copy_racing(from[read..].as_ptr(), to[write..].as_mut_ptr(), len) };
                let (before, rest) = to.split_at(write);
                let (copied, behind) = rest.split_at(len);
                assert_eq!(copied, &from[read..read + len], "{len} bytes");
                assert!(before.iter().chain(behind).all(|&byte| byte == 0), "{len} bytes");
            }
        }
    }
}
