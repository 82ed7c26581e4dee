//! What is asked for of `sys::selector`.

use daiko_sys::selector::Kind;

/// How workers ask the kernel which descriptors have changed; for [`RuntimeBuilder::selector`].
///
/// `daiko doctor` says which one is used where none is asked for, and why.
///
/// [`RuntimeBuilder::selector`]: crate::RuntimeBuilder::selector
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Selector {
    /// By [epoll(7)], edge-triggered: a system call for each look, and one for each descriptor.
    ///
    /// [epoll(7)]: https://man7.org/linux/man-pages/man7/epoll.7.html
    Epoll,
    /// By poll requests of [io_uring(7)]: a look that finds nothing is two loads. From Linux 6.1 on, where neither a filter
    /// of system calls nor `kernel.io_uring_disabled` forbids it; not for worker processes.
    ///
    /// [io_uring(7)]: https://man7.org/linux/man-pages/man7/io_uring.7.html
    IoUring,
}

impl From<Selector> for Kind {
    fn from(selector: Selector) -> Self {
        match selector {
            Selector::Epoll => Kind::Epoll,
            Selector::IoUring => Kind::Ring { deferred: true },
        }
    }
}
