//! Descriptors in a `select!`.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::readiness::SeenReadiness;
use daiko_core::wait::Node;
use daiko_sys::selector;
use daiko_sys::socket::SockAddr;

use super::descriptor_state::{DescriptorState, Turn, Way};
use super::listener::Listener;
use super::{Async, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use crate::caller;
use crate::select::{Look, Selectable, Selected};
use daiko_rt::Deadline;
use daiko_rt::call::InCall;
use daiko_rt::deadlock::WaitKind;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{Waiter, ticket_id};

/// A descriptor that a select can wait for.
#[doc(hidden)]
pub trait SelectReady {
    /// The object that the calls are made on.
    type Io: AsFd;

    /// Returns the descriptor.
    fn descriptor(&self) -> &Async<Self::Io>;

    /// Creates a wait for something to read, for `select!`.
    fn select_readable(&self) -> Selected<impl Selectable<Output = io::Result<()>>> {
        ready(self.descriptor(), Way::In)
    }

    /// Creates a wait for room to write, for `select!`.
    fn select_writable(&self) -> Selected<impl Selectable<Output = io::Result<()>>> {
        ready(self.descriptor(), Way::Out)
    }
}

macro_rules! ready {
    ($($name:ty: $io:ty = $($field:ident).+;)*) => {
        $(impl SelectReady for $name {
            type Io = $io;

            fn descriptor(&self) -> &Async<$io> {
                &self.$($field).+
            }
        })*
    };
}

ready! {
    TcpStream: std::net::TcpStream = stream.io;
    UnixStream: std::os::unix::net::UnixStream = stream.io;
    UdpSocket: std::net::UdpSocket = io;
    UnixDatagram: std::os::unix::net::UnixDatagram = io;
    TcpListener: std::net::TcpListener = listener.io;
    UnixListener: std::os::unix::net::UnixListener = listener.io;
}

impl<T: AsFd> SelectReady for Async<T> {
    type Io = T;

    fn descriptor(&self) -> &Async<T> {
        self
    }
}

impl TcpListener {
    /// Creates an accept for `select!`.
    #[doc(hidden)]
    pub fn select_accept(
        &self,
    ) -> Selected<impl Selectable<Output = io::Result<(TcpStream, SocketAddr)>>> {
        accepting(&self.listener, Self::connection)
    }
}

impl UnixListener {
    /// Creates an accept for `select!`.
    #[doc(hidden)]
    pub fn select_accept(&self) -> Selected<impl Selectable<Output = io::Result<UnixStream>>> {
        accepting(&self.listener, |(socket, _)| Ok(UnixStream::from(socket)))
    }
}

/// A call on a descriptor in a select: it is made once there is something for it.
struct Calling<'s, C> {
    source: &'s Arc<DescriptorState>,
    fd: BorrowedFd<'s>,
    way: Way,
    /// Does not block: it fails with `WouldBlock` if there is nothing for it.
    call: RefCell<C>,
    /// The state before the last call.
    seen: Cell<SeenReadiness>,
    /// Set if the select was claimed by an edge that it has not looked at.
    is_claimed: Cell<bool>,
    /// The error of the kernel in watching the descriptor.
    error: Cell<Option<io::Error>>,
}

impl<'s, C> Calling<'s, C> {
    fn new<T: AsFd>(io: &'s Async<T>, way: Way, call: C) -> Self {
        let (fd, source) = io.parts();
        let (call, seen) = (RefCell::new(call), Cell::new(source.readiness(way).seen()));
        let (is_claimed, error) = (Cell::new(false), Cell::new(None));
        Calling { source, fd, way, call, seen, is_claimed, error }
    }

    /// Notes the error of another waiter's agent, if there is one.
    fn check(&self) {
        self.error.set(self.source.check().err());
    }
}

fn ready<T: AsFd>(io: &Async<T>, way: Way) -> Selected<impl Selectable<Output = io::Result<()>>> {
    let ask = move || match selector::wait_for(io.as_fd(), way.interest(), Some(Duration::ZERO))? {
        true => Ok(()),
        false => Err(io::ErrorKind::WouldBlock.into()),
    };
    Selected::new(Calling::new(io, way, ask))
}

fn accepting<L: AsFd, R>(
    listener: &Listener<L>,
    connection: impl Fn((OwnedFd, SockAddr)) -> io::Result<R>,
) -> Selected<impl Selectable<Output = io::Result<R>>> {
    let accept = move || listener.accept_now().and_then(&connection);
    Selected::new(Calling::new(&listener.io, Way::In, accept))
}

impl<R, C: FnMut() -> io::Result<R>> Selectable for Calling<'_, C> {
    type Node = Node<WaiterId>;
    type Output = io::Result<R>;

    fn attempt(&self, _: InCall<'_>, look: Look) -> Option<io::Result<R>> {
        let mut turn = Turn { source: self.source, way: self.way, claimed: self.is_claimed.take() };
        if let Some(error) = self.error.take() {
            return Some(Err(error));
        }
        // No agent looks for a thread that is no fiber.
        let is_told = look == Look::Announced && caller::try_caller().is_some();
        let seen = self.source.readiness(self.way).seen();
        self.seen.set(seen);
        if is_told && seen.is_drained() {
            turn.claimed = false;
            return None;
        }
        turn.attempt(seen, &mut *self.call.borrow_mut())
    }

    fn begin(&self, _: &Waiter) -> (Deadline, WaitKind) {
        caller::caller("a select! of a descriptor");
        (Deadline::NEVER, WaitKind::Unknown)
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node {
        // SAFETY: passed on to the caller.
        Node::new(unsafe { ticket_id(ticket) })
    }

    unsafe fn enqueue(&self, call: InCall<'_>, node: &Self::Node) -> bool {
        let (worker, _) = caller::caller("a select! of a descriptor");
        if let Err(error) = self.source.be_watched(call, self.fd, worker, self.way) {
            self.error.set(Some(error));
            return false;
        }
        let (by, node) = (ThisThread::of(call), NonNull::from(node));
        // SAFETY: passed on to the caller.
        let has_changed =
            unsafe { self.source.readiness(self.way).wait(by, node, self.seen.get()) };
        if has_changed {
            self.check();
        }
        !has_changed
    }

    unsafe fn leave(&self, call: InCall<'_>, node: &Self::Node) -> Unlinked {
        let (by, node) = (ThisThread::of(call), NonNull::from(node));
        // SAFETY: passed on to the caller.
        unsafe { self.source.readiness(self.way).leave(by, node) }
    }

    /// The call is made by the next attempt.
    fn claimed(&self, _: &Self::Node) -> Option<io::Result<R>> {
        self.is_claimed.set(true);
        self.check();
        None
    }

    fn give_way(&self, _: InCall<'_>) {
        self.source.pass_on(self.way);
    }

    fn pass_on(&self, _: InCall<'_>) {
        self.source.pass_on(self.way);
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(&**self.source).addr()
    }
}
