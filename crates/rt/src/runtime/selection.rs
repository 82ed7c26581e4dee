//! The public choice of a `sys::selector`.

use daiko_sys::selector::SelectorKind;

/// The way in which workers ask the kernel for changed descriptors; for
/// [`RuntimeBuilder::selector`].
///
/// `daiko doctor` says which one is used by default, and why.
///
/// [`RuntimeBuilder::selector`]: crate::RuntimeBuilder::selector
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Selector {
    /// [epoll(7)], edge-triggered: a system call for each look, and one for each descriptor.
    ///
    /// [epoll(7)]: https://man7.org/linux/man-pages/man7/epoll.7.html
    Epoll,
    /// Poll requests of [io_uring(7)]: a look that finds nothing is two loads. From Linux 6.1
    /// on, if neither a filter of system calls nor `kernel.io_uring_disabled` forbids it; not for
    /// worker processes.
    ///
    /// [io_uring(7)]: https://man7.org/linux/man-pages/man7/io_uring.7.html
    IoUring,
}

impl From<Selector> for SelectorKind {
    fn from(selector: Selector) -> Self {
        match selector {
            Selector::Epoll => SelectorKind::Epoll,
            Selector::IoUring => SelectorKind::Ring { deferred: true },
        }
    }
}
