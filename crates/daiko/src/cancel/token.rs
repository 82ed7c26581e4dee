//! Tokens, which cancel all code that runs under them.

use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use daiko_core::cancel::{ScopeMark, Signal};
use daiko_core::claim::Ticket;
use daiko_core::fiber::{Transition, WaiterId};
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;

use daiko_rt::Deadline;
use daiko_rt::TimedOut;
use daiko_rt::call::{Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::{CancelScope, Cancelled, ControlBlock};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object, ticket_id};
use daiko_rt::worker::{self, WakeRequest};

use crate::atomic::{AtomicUsize, Ordering, acquire_fence};
use crate::caller;
use crate::select::{Look, Selectable, Selected};

/// A token that cancels, once and for all, the code that runs under it. Parties that are to stop
/// together share it.
///
/// Clones are the same token. Any thread may use it at any time.
///
/// ```
/// use daiko::cancel::CancelToken;
///
/// daiko::run(|| {
///     let token = CancelToken::new();
///     let fibers: Vec<_> = (0..3)
///         .map(|_| {
///             let token = token.clone();
///             daiko::spawn(move || {
///                 token.run(|| {
///                     loop {
///                         daiko::park();
///                     }
///                 })
///             })
///         })
///         .collect();
///     token.cancel();
///     for fiber in fibers {
///         let result: Result<(), _> = fiber.join().unwrap();
///         assert!(result.is_err());
///     }
/// });
/// ```
pub struct CancelToken {
    shared: NonNull<TokenInner>,
}

// SAFETY: each field of the shared state says which thread may access it; the handle is for any
// thread.
unsafe impl Send for CancelToken {}
// SAFETY: as for Send.
unsafe impl Sync for CancelToken {}

/// State that the handles of a token share.
struct TokenInner {
    /// Given by the cancel. Any thread.
    signal: Signal<Listener>,
    /// The number of references: handles, children, and cancels that are about to process the
    /// token. Any thread.
    refs: AtomicUsize,
    /// The parent, if there is one, with a reference. Written before any other thread knows of the
    /// token.
    parent: Option<NonNull<TokenInner>>,
    /// The token's node in the queue of listeners for the parent's signal.
    place: Node<Listener>,
    /// The next token that the cancel of an ancestor is to process. Only for the thread that gives
    /// the parent's signal.
    next: Cell<Option<NonNull<TokenInner>>>,
}

/// A listener for a cancel.
#[derive(Clone, Copy)]
enum Listener {
    /// A waiter in `wait`.
    Waiter(WaiterId),
    /// A fiber in `run`, and the mark of that scope.
    Scope(NonNull<ControlBlock>, NonNull<ScopeMark>),
    /// A child token.
    Child(NonNull<TokenInner>),
}

// SAFETY: a listener stays in place until it is called, or has left.
unsafe impl Send for Listener {}

/// Takes the node of a fiber, which is lost, out of the queue of a token's listeners. The object is
/// the node, in the fiber's frame; the detail is the address of the signal.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, node, signal| {
        // SAFETY: the items of this kind are valid, and the fiber has not left the queue.
        let _ = unsafe {
            let signal = &*signal.cast::<Signal<Listener>>();
            signal.leave(ThisThread::of(call), node.cast())
        };
    },
};

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        CancelToken { shared: TokenInner::allocate(None) }
    }

    /// Creates a token that is cancelled with this one, and may be cancelled without it.
    ///
    /// ```
    /// let parent = daiko::cancel::CancelToken::new();
    /// let [one, other] = [parent.child(), parent.child()];
    /// one.cancel();
    /// assert!(one.is_cancelled() && !parent.is_cancelled() && !other.is_cancelled());
    /// parent.cancel();
    /// assert!(other.is_cancelled() && parent.child().is_cancelled());
    /// ```
    pub fn child(&self) -> CancelToken {
        let call = Call::enter();
        self.shared().retain();
        let child = CancelToken { shared: TokenInner::allocate(Some(self.shared)) };
        let place = NonNull::from(&child.shared().place);
        // SAFETY: the place is new, and stays until `release` has taken it out.
        if !unsafe { self.shared().signal.listen(ThisThread::of(call.token()), place) } {
            child.cancel();
        }
        child
    }

    /// Cancels the token and its descendants. A fiber in [`run`](Self::run) unwinds, as by
    /// [`JoinHandle::cancel`](crate::JoinHandle::cancel), but only up to that call; a waiter in
    /// [`wait`](Self::wait) returns. A second cancel changes nothing.
    ///
    /// Actions before the cancel happen before the actions of any thread that has seen the token
    /// cancelled. With `panic = "abort"` no fiber unwinds. A destructor that panics while its fiber
    /// unwinds aborts the process, as in any unwinding.
    pub fn cancel(&self) {
        let call = Call::enter();
        let call = call.token();
        let mut children = None;
        self.shared().cancel(call, &mut children);
        // Iterative, as a recursion would be as deep as the generations, of which there may be
        // many.
        while let Some(child) = children {
            // SAFETY: the reference that is released below keeps it.
            let shared = unsafe { child.as_ref() };
            children = shared.next.get();
            shared.cancel(call, &mut children);
            // SAFETY: the reference of `TokenInner::cancel`, which is not used afterwards.
            unsafe { release(call, child) };
        }
    }

    /// Returns true if the token is cancelled. During a cancel of its parent, it may become so a
    /// moment later.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.shared().signal.is_given()
    }

    /// Waits until the token is cancelled: a fiber suspends, any other thread blocks.
    ///
    /// ```
    /// # daiko::run(|| {
    /// let token = daiko::cancel::CancelToken::new();
    /// let theirs = token.clone();
    /// let waiter = daiko::spawn(move || theirs.wait());
    /// token.cancel();
    /// waiter.join().unwrap();
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    pub fn wait(&self) {
        let _ = self.wait_until(Deadline::NEVER);
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&self, timeout: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.wait_until(timeout.into())
    }

    fn wait_until(&self, deadline: Deadline) -> Result<(), TimedOut> {
        if self.is_cancelled() {
            return Ok(());
        }
        let call = Call::enter();
        let call = call.token();
        let (signal, waiter) = (&self.shared().signal, caller::waiter("CancelToken::wait"));
        let node = Node::new(Listener::Waiter(waiter.id()));
        // SAFETY: the node is new, and stays in place until it has left or is claimed.
        let waits = unsafe { signal.listen(ThisThread::of(call), NonNull::from(&node)) };
        if waits && waiter.wait(call, &node, signal, deadline) == Ended::TimedOut {
            return Err(TimedOut);
        }
        Ok(())
    }

    /// Runs `body`, and unwinds the calling fiber out of it once the token is cancelled: at the
    /// suspension that it is in, or else its next one.
    ///
    /// Destructors run, and locks are freed and not poisoned. A result that is there is returned,
    /// even if the token has been cancelled meanwhile. The other rules of
    /// [`time::timeout`](crate::time::timeout) apply.
    ///
    /// ```
    /// # daiko::run(|| {
    /// use daiko::cancel::CancelToken;
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// assert_eq!(token.run(|| 7).unwrap(), 7);
    ///
    /// let theirs = token.clone();
    /// daiko::spawn(move || theirs.cancel());
    /// assert!(token.run(|| daiko::time::sleep(Duration::MAX)).is_err());
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// If the body was unwound, or if the token was cancelled before: then the body does not run.
    ///
    /// # Panics
    ///
    /// If `body` panics, with its payload; or if the caller is not a fiber, as a thread cannot be
    /// unwound.
    #[track_caller]
    pub fn run<R>(&self, body: impl FnOnce() -> R) -> Result<R, Cancelled> {
        let (_, fiber) = caller::caller("CancelToken::run");
        if cfg!(panic = "abort") {
            return Ok(body());
        }
        let mut call = Call::enter();
        let (signal, scope) = (&self.shared().signal, CancelScope::new(fiber, Deadline::NEVER));
        let listener = Listener::Scope(NonNull::from(fiber), NonNull::from(scope.mark()));
        let node = Node::new(listener);
        // SAFETY: the node is new, and stays in place until it has left below: `Scope::run` does
        // not unwind.
        if !unsafe { signal.listen(ThisThread::of(call.token()), NonNull::from(&node)) } {
            return Err(Cancelled::by(&scope));
        }
        let listens = Item::new(&node, ptr::from_ref(signal).cast(), &RECOVERY);
        call.add(listens);
        let result = scope.run(&mut call, fiber, body);
        call.remove(listens);
        // SAFETY: the node is alive, and has been in that queue since it was put there.
        let _ = unsafe { signal.leave(ThisThread::of(call.token()), NonNull::from(&node)) };
        scope.settle(call.token(), fiber, result)
    }

    fn shared(&self) -> &TokenInner {
        // SAFETY: the handle is a reference.
        unsafe { self.shared.as_ref() }
    }
}

impl TokenInner {
    /// Allocates the state of a new token with one handle. That of a child takes over a reference
    /// to its parent.
    fn allocate(parent: Option<NonNull<TokenInner>>) -> NonNull<TokenInner> {
        let room = Box::leak(Box::<TokenInner>::new_uninit());
        // The node contains the address of its own token.
        let place = Node::new(Listener::Child(NonNull::from(&mut *room).cast()));
        let (signal, refs, next) = (Signal::new(), AtomicUsize::new(1), Cell::new(None));
        NonNull::from(MaybeUninit::write(room, TokenInner { signal, refs, parent, place, next }))
    }

    fn retain(&self) {
        // Relaxed: the caller already has a reference.
        let before = self.refs.fetch_add(1, Ordering::Relaxed);
        assert!(before < usize::MAX / 2, "too many handles of one token");
    }

    /// Adds a reference for a caller that has none, but knows that the memory is there; returns
    /// false if the last reference is gone.
    fn try_retain(&self) -> bool {
        let more = |refs| (refs > 0).then(|| refs + 1);
        // Relaxed: the reference is given back by a Release before the token can be freed.
        self.refs.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Gives the signal, unless it has been given. The children are added to `children`, with a
    /// reference each.
    fn cancel(&self, call: InCall<'_>, children: &mut Option<NonNull<TokenInner>>) {
        self.signal.give(ThisThread::of(call), |listener| match listener {
            Listener::Waiter(waiter) => wait::wake(call, Some(waiter)),
            // SAFETY: the call is made before the scope is left.
            Listener::Scope(fiber, mark) => unsafe { end(call, fiber.as_ref(), mark.as_ref()) },
            Listener::Child(child) => {
                // SAFETY: a child leaves its parent's signal before it is freed, under the lock
                // that this call holds.
                let shared = unsafe { child.as_ref() };
                if shared.try_retain() {
                    shared.next.set(children.replace(child));
                }
            }
        });
    }
}

/// Ends the scope of `mark`, which `fiber` is in.
fn end(call: InCall<'_>, fiber: &ControlBlock, mark: &ScopeMark) {
    mark.end(|| {
        let here = caller::current();
        if !fiber.deliver_local(call, here, Transition::Interrupt) {
            let _ = worker::send(call, here, fiber, WakeRequest::INTERRUPT);
        }
    });
}

/// Gives a reference back, and with the last one the reference to the parent.
///
/// # Safety
///
/// The reference belongs to the caller, which does not use it any more.
unsafe fn release(call: InCall<'_>, mut this: NonNull<TokenInner>) {
    // A loop, not a recursion through the parent's drop: there may be many generations.
    loop {
        // SAFETY: the reference keeps it.
        let shared = unsafe { this.as_ref() };
        // Release: pairs with the fence of the last reference.
        if shared.refs.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Acquire: pairs with the Release above of all other references.
        acquire_fence(|acquire| shared.refs.load(acquire));
        let parent = shared.parent;
        if let Some(parent) = parent {
            let place = NonNull::from(&shared.place);
            // SAFETY: this token's reference keeps the parent; the place is alive, and was put into
            // that queue or none.
            let _ = unsafe { parent.as_ref().signal.leave(ThisThread::of(call), place) };
        }
        // SAFETY: it was made by `Box`, no reference is left, and no listener queue leads to it any
        // more.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
        match parent {
            Some(parent) => this = parent,
            None => return,
        }
    }
}

impl Object<Listener> for Signal<Listener> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<Listener>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { Signal::leave(self, ThisThread::of(call), node) }
    }

    /// All waiters are woken, so there is no wake to hand on.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::CancelToken, self)
    }
}

/// A wait for a cancel in a select.
struct WaitToken<'t>(&'t Signal<Listener>);

impl CancelToken {
    /// Creates a wait for `select!`.
    #[doc(hidden)]
    pub fn select_wait(&self) -> Selected<impl Selectable<Output = ()>> {
        Selected::new(WaitToken(&self.shared().signal))
    }
}

impl Selectable for WaitToken<'_> {
    type Node = Node<Listener>;
    type Output = ();

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<()> {
        self.0.is_given().then_some(())
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node {
        // SAFETY: passed on to the caller.
        Node::new(Listener::Waiter(unsafe { ticket_id(ticket) }))
    }

    unsafe fn enqueue(&self, call: InCall<'_>, node: &Self::Node) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { self.0.listen(ThisThread::of(call), NonNull::from(node)) }
    }

    unsafe fn leave(&self, call: InCall<'_>, node: &Self::Node) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.leave(ThisThread::of(call), NonNull::from(node)) }
    }

    fn claimed(&self, _: &Self::Node) -> Option<()> {
        Some(())
    }

    fn order(&self) -> usize {
        ptr::from_ref(self.0).addr()
    }
}

impl Clone for CancelToken {
    fn clone(&self) -> Self {
        self.shared().retain();
        CancelToken { shared: self.shared }
    }
}

impl Drop for CancelToken {
    fn drop(&mut self) {
        let call = Call::enter();
        // SAFETY: the handle's own reference, which is not used any more.
        unsafe { release(call.token(), self.shared) };
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        CancelToken::new()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
