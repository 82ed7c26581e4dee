//! One-time initialization.

use crate::caller;
use std::fmt;
use std::num::NonZeroU64;
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::once::{Begin, End, Purpose, RawOnce};
use daiko_core::wait::Node;

use daiko_rt::Deadline;
use daiko_rt::TimedOut;
use daiko_rt::call::{self, Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{self, WaitKind, WaitTarget};
use daiko_rt::fiber::panicking;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object};

/// An action that is run once, by its first caller, as [`std::sync::Once`].
///
/// A fiber that has to wait for another initializer suspends; any other thread blocks.
///
/// It is poisoned if the initializer panics, as in `std`, or is lost with its [worker's
/// process](daiko_rt::process). A cancelled initializer leaves it as if the action had not begun:
/// the next caller runs it.
///
/// A recursive call by the initializer panics, as the initializer would wait for itself. If the
/// initializer waits for a thread that waits here, both wait forever, as in other
/// [deadlocks](crate::RuntimeBuilder::on_deadlock).
///
/// ```
/// use daiko::sync::Once;
///
/// static START: Once = Once::new();
///
/// daiko::run(|| {
///     let starters: Vec<_> = (0..4)
///         .map(|_| daiko::spawn(|| START.call_once(|| println!("printed once"))))
///         .collect();
///     starters.into_iter().for_each(|starter| starter.join().unwrap());
///     assert!(START.is_completed());
/// });
/// ```
pub struct Once {
    raw: RawOnce<WaiterId>,
}

const _: () = assert!(size_of::<Once>() == 24);

/// State that the closure of [`Once::call_once_force`] receives.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Returns true if an earlier closure panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

/// The name and the purpose of a call.
pub(super) struct Form {
    /// Name of the call in messages: its type and method.
    pub(super) operation: &'static str,
    pub(super) purpose: Purpose,
}

impl Form {
    /// Runs the closure unless an earlier closure panicked.
    const ONCE: Form = Form::new("Once::call_once", true, false);
    /// Runs the closure, poisoned or not.
    const FORCE: Form = Form::new("Once::call_once_force", true, true);
    /// Waits for an initializer, unless an earlier closure panicked.
    const WAIT: Form = Form::new("Once::wait", false, false);
    /// Waits for an initializer, poisoned or not.
    const WAIT_FORCE: Form = Form::new("Once::wait_force", false, true);

    pub(super) const fn new(operation: &'static str, runs: bool, despite_poison: bool) -> Form {
        Form { operation, purpose: Purpose { runs, despite_poison } }
    }
}

impl Once {
    /// Creates an object that is not initialized yet.
    #[allow(clippy::new_without_default, reason = "as in std")]
    pub const fn new() -> Self {
        Once { raw: RawOnce::new() }
    }

    /// Returns true if a closure has completed; its effects are then visible to the caller.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.raw.is_done()
    }

    /// Runs `init`, unless it or another closure has completed here; waits for a closure that is
    /// running.
    ///
    /// # Panics
    ///
    /// If a closure panicked here before; if a closure that is being run here calls; if it would
    /// have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller).
    #[inline]
    #[track_caller]
    pub fn call_once(&self, init: impl FnOnce()) {
        let _ = self.call(&Form::ONCE, || Deadline::NEVER, |_| init());
    }

    /// Runs `init` as [`call_once`](Self::call_once) does, but waits for another closure for at
    /// most `timeout`. The time that `init` itself takes does not count.
    ///
    /// # Errors
    ///
    /// If the time is over; `init` was not run.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    #[track_caller]
    pub fn call_once_timeout(
        &self,
        timeout: impl Into<Deadline>,
        init: impl FnOnce(),
    ) -> Result<(), TimedOut> {
        self.call(&Form::ONCE, || timeout.into(), |_| init())
    }

    /// Runs `init` as [`call_once`](Self::call_once) does, also after a closure panicked here.
    /// `init` can query that from its argument.
    ///
    /// ```
    /// # use daiko::sync::Once;
    /// # use std::panic;
    /// let once = Once::new();
    /// let panics = panic::catch_unwind(|| once.call_once(|| panic::resume_unwind(Box::new(()))));
    /// assert!(panics.is_err());
    /// once.call_once_force(|state| assert!(state.is_poisoned()));
    /// assert!(once.is_completed());
    /// ```
    ///
    /// # Panics
    ///
    /// Those of [`call_once`](Self::call_once), except the first.
    #[inline]
    #[track_caller]
    pub fn call_once_force(&self, init: impl FnOnce(&OnceState)) {
        let _ = self.call(&Form::FORCE, || Deadline::NEVER, init);
    }

    /// Runs `init` as [`call_once_timeout`](Self::call_once_timeout) does, also after a closure
    /// panicked here.
    ///
    /// # Errors
    ///
    /// As [`call_once_timeout`](Self::call_once_timeout).
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    #[track_caller]
    pub fn call_once_force_timeout(
        &self,
        timeout: impl Into<Deadline>,
        init: impl FnOnce(&OnceState),
    ) -> Result<(), TimedOut> {
        self.call(&Form::FORCE, || timeout.into(), init)
    }

    /// Waits until another thread or fiber has completed a closure here.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    #[inline]
    pub fn wait(&self) {
        let _ = self.see(&Form::WAIT, || Deadline::NEVER);
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`call_once`](Self::call_once).
    pub fn wait_timeout(&self, timeout: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.see(&Form::WAIT, || timeout.into())
    }

    /// Waits as [`wait`](Self::wait) does, but for a closure that does not panic, even if earlier
    /// closures do or did.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    #[inline]
    pub fn wait_force(&self) {
        let _ = self.see(&Form::WAIT_FORCE, || Deadline::NEVER);
    }

    /// Waits as [`wait_force`](Self::wait_force) does, but for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over.
    ///
    /// # Panics
    ///
    /// As [`call_once_force`](Self::call_once_force).
    pub fn wait_force_timeout(&self, timeout: impl Into<Deadline>) -> Result<(), TimedOut> {
        self.see(&Form::WAIT_FORCE, || timeout.into())
    }

    /// Waits for an initializer.
    #[inline]
    pub(super) fn see(
        &self,
        form: &Form,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), TimedOut> {
        self.call_with(form, deadline, |_, _| unreachable!("a waiter does not run the closure"))
    }

    /// Runs `init`, which is user code, or waits for another initializer.
    #[inline]
    #[track_caller]
    fn call(
        &self,
        form: &Form,
        deadline: impl FnOnce() -> Deadline,
        init: impl FnOnce(&OnceState),
    ) -> Result<(), TimedOut> {
        self.call_with(form, deadline, |call, state| call.user_code(|| init(state)))
    }

    /// Acts as [`call`](Self::call), with an `init` of the runtime, which may run user code in
    /// part.
    #[inline]
    #[track_caller]
    pub(super) fn call_with(
        &self,
        form: &Form,
        deadline: impl FnOnce() -> Deadline,
        init: impl FnOnce(&mut Call, &OnceState),
    ) -> Result<(), TimedOut> {
        if self.is_completed() {
            return Ok(());
        }
        let mut init = Some(init);
        // Only one copy of the slow path exists for all closures.
        self.call_slow(form, deadline(), &mut |call, state| {
            let Some(init) = init.take() else { unreachable!("run once") };
            init(call, state);
        })
    }

    #[cold]
    #[track_caller]
    fn call_slow(
        &self,
        form: &Form,
        deadline: Deadline,
        init: &mut dyn FnMut(&mut Call, &OnceState),
    ) -> Result<(), TimedOut> {
        let mut call = Call::enter();
        let caller = wait::caller_number();
        loop {
            match self.raw.begin(ThisThread::of(call.token()), caller, form.purpose) {
                Begin::Done => return Ok(()),
                Begin::Run { was_poisoned } => {
                    let noted = deadlock::taken(self.address());
                    call.add(self.item());
                    let mut run = Initialization { once: self, done: false, noted };
                    init(&mut call, &OnceState { poisoned: was_poisoned });
                    run.done = true;
                    return Ok(());
                }
                Begin::Wait => self.wait_for_end(call.token(), form, caller, deadline)?,
                Begin::Poisoned => poisoned(form.operation),
                Begin::Itself => itself(form.operation),
            }
        }
    }

    /// The entry in the initializer's robust list.
    fn item(&self) -> Item {
        Item::new(self, ptr::null(), &RECOVERY)
    }

    /// The object's identity where initializers are tracked.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits until the initializer has ended, by completion or otherwise.
    fn wait_for_end(
        &self,
        call: InCall<'_>,
        form: &Form,
        caller: NonZeroU64,
        deadline: Deadline,
    ) -> Result<(), TimedOut> {
        let waiter = caller::waiter(form.operation);
        let node = Node::new(waiter.id());
        let (by, at) = (ThisThread::of(call), NonNull::from(&node));
        // SAFETY: the node is new, and stays in place until it has left or is claimed.
        if !unsafe { self.raw.wait(by, at, caller, form.purpose) } {
            return Ok(());
        }
        match waiter.wait(call, &node, self, deadline) {
            Ended::Claimed(_) => Ok(()),
            Ended::TimedOut => Err(TimedOut),
        }
    }
}

#[cold]
fn poisoned(operation: &str) -> ! {
    call::unwinds();
    panic!("daiko: {operation} finds that a closure panicked here before; call_once_force goes on")
}

#[cold]
fn itself(operation: &str) -> ! {
    call::unwinds();
    panic!("daiko: {operation} was called by the very closure that it would wait for")
}

/// A running initializer; dropping this ends it, in a return or an unwind.
struct Initialization<'o> {
    once: &'o Once,
    done: bool,
    /// True if the initializer is tracked.
    noted: bool,
}

impl Drop for Initialization<'_> {
    fn drop(&mut self) {
        let end = match (self.done, panicking()) {
            (true, _) => End::Done,
            (false, true) => End::Poisoned,
            (false, false) => End::Undone,
        };
        if self.noted {
            deadlock::freed(self.once.address());
        }
        let call = Call::enter();
        call.remove(self.once.item());
        let call = call.token();
        wait::wake_all(call, self.once.raw.end(ThisThread::of(call), end));
    }
}

impl Object<WaiterId> for Once {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.raw.leave(ThisThread::of(call), node) }
    }

    /// All other waiters were woken as well.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Once, self)
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish_non_exhaustive()
    }
}

/// Poisons the object in place of its initializer, which is lost.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, once, _| {
        // SAFETY: the items of this kind are valid.
        let once = unsafe { once.cast::<Once>().as_ref() };
        wait::wake_all(call, once.raw.end(ThisThread::of(call), End::Poisoned));
    },
};
