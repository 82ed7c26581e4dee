//! Homes: the real threads of a program, which lend their contexts to the workers.

pub(crate) mod list;
pub(crate) mod stage;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use daiko_context::FpControl;
use daiko_home::abi;
use daiko_rt::fiber::{Lender, loan};
use daiko_rt::runtime::RuntimeInner;
use daiko_sys::Scope;
use daiko_sys::generation::Generation;
use daiko_sys::memory::Mapping;

use self::stage::{Kind, Stage, StageWord};
use crate::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::dispatch::Selector;
use crate::interrupt::{Interrupts, Pending, Queue};
use crate::mask::{HeldSignals, Mask, MaskWord};
use crate::waits::TargetWord;
use crate::{errno, explain, interrupt, poke, real, runtime};

/// Offsets of two words in the control block: the id, and the state of cancellation. Written before
/// there are threads.
static THREAD_ID: AtomicUsize = AtomicUsize::new(0);
static CANCEL: AtomicUsize = AtomicUsize::new(0);

/// Bytes of the stack to which the kernel thread keeps while its context is lent. One signal comes
/// there: the C library's, for changes of the user.
const KEEPER_STACK: usize = 16 << 10;

/// The start routine of a thread.
pub(crate) type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// A thread of the program, as it begins.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    pub(crate) start: Start,
    pub(crate) argument: *mut c_void,
    /// The signals that it blocks.
    pub(crate) mask: Mask,
    pub(crate) fp: FpControl,
}

/// A thread that lends its context, to one thread of the program after another.
#[repr(C)]
pub(crate) struct Home {
    /// The first field: a fiber knows its `Lender`.
    lender: MaybeUninit<Lender>,
    /// Beside it, on a line that each wait touches.
    interrupts: Interrupts,
    /// The stack of the kernel thread while its context is lent.
    keeper_stack: Mapping,
    pub(crate) selector: Selector,
    /// The runtime that the context is lent to.
    runtime: &'static RuntimeInner,
    /// The process with the workers of that runtime: a forked child has none.
    process: Generation,
    /// `None`: it is not kept for other threads.
    pub(crate) kind: Option<Kind>,
    pub(crate) stage: StageWord,
    /// Written once by the context, before the stage is another than `Runs`.
    pub(crate) thread: Cell<libc::pthread_t>,
    /// The thread that runs there, written while none does.
    pub(crate) beginning: Cell<Beginning>,
    /// The value that the thread has returned.
    pub(crate) value: Cell<*mut c_void>,
    /// True if no thread may join it. Under the lock of the list.
    pub(crate) detached: Cell<bool>,
    /// The thread that joins it, or 0. Under the lock of the list.
    pub(crate) joined_by: Cell<libc::pthread_t>,
    /// The thread that joins it waits here.
    pub(crate) joiners: Queue,
    /// The context waits here for its next thread.
    pub(crate) between: Queue,
    /// The signals that the program has blocked in the thread. Written by the context.
    mask: MaskWord,
    /// Those that it had blocked at first.
    first_mask: Cell<Mask>,
    /// True if the context does not leave its home any more.
    stays: AtomicBool,
    /// True if the kernel thread is not as a new one: it may have another name, or signals that
    /// wait.
    is_changed: AtomicBool,
    /// The target of the context's wait. Written by the context.
    waits_for: TargetWord,
    /// The end of the part of the stack that the start routine uses. Written by the context.
    pub(crate) base: Cell<usize>,
    /// The alternate stack for handlers, and true if the kernel thread has yet to learn of it. Only
    /// the context.
    alternate_stack: Cell<(libc::stack_t, bool)>,
}

// SAFETY: the fields say which threads use them.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// Attends to the interrupts of the calling context, if there are any and it is in its own code.
/// Returns false if it did nothing.
fn attend_if(is_own_code: &dyn Fn(usize) -> bool) -> bool {
    if let Some(home) = of_lent()
        && home.interrupts.are_due()
        && is_own_code(home.base.get())
    {
        poke::end();
        home.attend();
        return true;
    }
    false
}

/// Lets other threads run.
pub(crate) fn yield_now() {
    if of_lent().is_some() {
        FpControl::lay_aside(daiko_rt::yield_now);
    } else {
        // SAFETY: it has no argument.
        unsafe { real::sched_yield() };
    }
}

/// Makes homes ready for the C library of this process. `poke_all` [pokes](Home::poke) all homes,
/// and returns true if any has to come.
pub(crate) fn begin(poke_all: fn() -> bool) -> Result<(), String> {
    let words =
        abi::words_of_thread().map_err(|reason| format!("{reason}; use a known C library"))?;
    THREAD_ID.store(words.id, Ordering::Relaxed);
    daiko_rt::inspect::note_thread_id(words.id as u32);
    CANCEL.store(words.cancel, Ordering::Relaxed);
    poke::begin(attend_if, poke_all)?;
    Ok(())
}

#[inline]
fn word_of_thread(offset: usize) -> u32 {
    let word: u32;
    // SAFETY: the control block of the calling context has a word there, which other threads may
    // change.
    unsafe {
        std::arch::asm!(
            "mov {word:e}, dword ptr fs:[{offset}]",
            word = out(reg) word,
            offset = in(reg) offset,
            options(nostack, preserves_flags, readonly)
        );
    }
    word
}

/// Returns the id of the calling thread, wherever its context runs.
#[inline]
pub(crate) fn thread_id() -> u32 {
    word_of_thread(THREAD_ID.load(Ordering::Relaxed))
}

/// Returns the id of a thread, which is 0 once it has ended.
///
/// # Safety
///
/// As for `pthread_kill`.
pub(crate) unsafe fn id_of(thread: libc::pthread_t) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { word_of(thread, &THREAD_ID) }
}

/// Returns the word in which the C library notes that a thread is cancelled.
///
/// # Safety
///
/// As for `pthread_kill`.
pub(crate) unsafe fn cancel_word_of(thread: libc::pthread_t) -> u32 {
    // SAFETY: by this function's contract.
    unsafe { word_of(thread, &CANCEL) }
}

/// # Safety
///
/// As for `pthread_kill`.
unsafe fn word_of(thread: libc::pthread_t, offset: &AtomicUsize) -> u32 {
    let word = thread as usize + offset.load(Ordering::Relaxed);
    // SAFETY: by this function's contract; a thread is named by its control block.
    unsafe { ptr::with_exposed_provenance::<u32>(word).read_volatile() }
}

/// Returns the word in which the C library notes that the calling thread is cancelled.
#[inline]
pub(crate) fn cancel_word() -> u32 {
    word_of_thread(CANCEL.load(Ordering::Relaxed))
}

/// Returns the home of the calling context, if that is lent.
#[inline]
pub(crate) fn of_lent() -> Option<&'static Home> {
    // SAFETY: the lender is the first field of a home, which lives until its thread ends, at home.
    loan::lender_of_caller().map(|lender| unsafe { lender.cast().as_ref() })
}

/// No alternate stack.
const NO_STACK: libc::stack_t =
    libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

impl Home {
    /// Makes the home of a new thread. `None`: there is no memory, or no runtime.
    pub(crate) fn new(beginning: Beginning, kind: Option<Kind>) -> Option<Arc<Home>> {
        let runtime = runtime::get()?;
        let process = Generation::current().ok()?;
        let keeper_stack = Mapping::new(KEEPER_STACK, Scope::Private).ok()?;
        let mut home = Arc::new(Home {
            lender: MaybeUninit::uninit(),
            keeper_stack,
            selector: Selector::new(),
            runtime,
            process,
            kind,
            stage: StageWord::new(Stage::Runs),
            thread: Cell::new(0),
            beginning: Cell::new(beginning),
            value: Cell::new(ptr::null_mut()),
            detached: Cell::new(false),
            joined_by: Cell::new(0),
            joiners: Queue::new(0),
            between: Queue::new(0),
            mask: MaskWord::new(beginning.mask),
            first_mask: Cell::new(beginning.mask),
            stays: AtomicBool::new(false),
            is_changed: AtomicBool::new(false),
            interrupts: Interrupts::new(),
            waits_for: TargetWord::new(),
            base: Cell::new(0),
            alternate_stack: Cell::new((NO_STACK, false)),
        });
        let own = Arc::get_mut(&mut home)?;
        // SAFETY: the home does not move, and the keeper's stack lives as long as it.
        unsafe {
            let top = own.keeper_stack.start().as_ptr().add(KEEPER_STACK);
            loan::init(NonNull::from(&mut own.lender).cast(), top);
        }
        Some(home)
    }

    /// Takes note of the signals that the first thread blocks, at its begin: its attributes may
    /// have a mask. Only the context, at home.
    pub(crate) fn note_first_mask(&self) {
        self.first_mask.set(Mask::of_thread());
    }

    /// Makes the home, which is kept, ready for another thread of the program.
    pub(crate) fn begin_another(&self, beginning: Beginning) {
        self.beginning.set(beginning);
        self.mask.set(beginning.mask);
        self.first_mask.set(beginning.mask);
        self.joined_by.set(0);
    }

    /// Returns true if the kernel thread is as a new one, and may serve another thread of the
    /// program. Only the context, which is lent.
    pub(crate) fn is_as_new(&self) -> bool {
        let (stack, is_due) = self.alternate_stack.get();
        self.heritage().is_some()
            && !self.interrupts.are_due()
            && self.process.is_current()
            && stack.ss_flags == libc::SS_DISABLE
            && !is_due
    }

    /// Returns the number that new threads inherit. `None`: the kernel thread may have changed.
    fn heritage(&self) -> Option<u32> {
        let kind = self.kind?;
        let is_changed =
            self.stays.load(Ordering::Relaxed) || self.is_changed.load(Ordering::Relaxed);
        (!is_changed).then_some(kind.heritage)
    }

    /// Notes that the kernel thread differs from a new one.
    pub(crate) fn note_change(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// Gives the memory of the context's stack back but for its upper part, as at the end of a
    /// thread. Only the context, between two threads.
    pub(crate) fn discard_stack(&self) {
        /// Bytes below the calling frame, and above the guard, that stay.
        const STAYS: usize = 64 << 10;
        const PAGE: usize = 4096;
        let Some(kind) = self.kind else { return };
        let here = 0u8;
        // The control block is at the end of the stack.
        let end = self.thread.get() as usize;
        let from = (end - kind.stack + kind.guard + STAYS).next_multiple_of(PAGE);
        let to = ((&raw const here).addr() - STAYS) & !(PAGE - 1);
        if from < to {
            let start = ptr::with_exposed_provenance_mut(from);
            // SAFETY: a part of the calling context's stack below all of its frames.
            unsafe { libc::madvise(start, to - from, libc::MADV_DONTNEED) };
        }
    }

    fn lender(&self) -> &Lender {
        // SAFETY: `make` has initialised it.
        unsafe { self.lender.assume_init_ref() }
    }

    pub(crate) fn mask(&self) -> &MaskWord {
        &self.mask
    }

    /// Returns true if the thread leaves one of these signals open.
    pub(crate) fn leaves_open(&self, signals: Mask) -> bool {
        signals.without(self.mask.get()).signals().next().is_some()
    }

    /// Returns true if this mask lets signals in that the thread had blocked at first. Signals of
    /// the process may wait for such a thread, so that its place is at home.
    pub(crate) fn opens(&self, mask: Mask) -> bool {
        mask.lets_in_more_than(self.first_mask.get())
    }

    pub(crate) fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    pub(crate) fn waits_for(&self) -> &TargetWord {
        &self.waits_for
    }

    /// Brings the context home, if it is lent: from a wait, or from code of the program.
    pub(crate) fn call_home(&self) {
        self.note_change();
        if !interrupt::interrupt(&self.interrupts) && self.poke() {
            poke::prompt();
        }
    }

    /// Pokes the context if it has to come home and runs. Returns true if it has to come.
    pub(crate) fn poke(&self) -> bool {
        let is_due = self.interrupts.are_due() && self.process.is_current();
        if is_due {
            poke::send(self.runtime, self.lender());
        }
        is_due
    }

    /// Keeps the context at home from its next errand on.
    pub(crate) fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Brings the context home, and keeps it there from its next errand on.
    pub(crate) fn call_home_to_stay(&self) {
        self.stay();
        self.call_home();
    }

    /// Sets or asks for the alternate stack of the context, which its kernel thread has at home.
    /// Returns an error of `sigaltstack`.
    ///
    /// # Safety
    ///
    /// As for `sigaltstack`. The context is lent.
    pub(crate) unsafe fn alternate_stack(
        &self,
        new: *const libc::stack_t,
        old: *mut libc::stack_t,
    ) -> c_int {
        let (before, _) = self.alternate_stack.get();
        // SAFETY: by this function's contract.
        if let Some(&new) = unsafe { new.as_ref() } {
            let disables = new.ss_flags & libc::SS_DISABLE != 0;
            if new.ss_flags & !libc::SS_DISABLE != 0 {
                return libc::EINVAL;
            }
            if !disables && new.ss_size < libc::MINSIGSTKSZ {
                return libc::ENOMEM;
            }
            self.alternate_stack.set((if disables { NO_STACK } else { new }, true));
        }
        if !old.is_null() {
            // SAFETY: as above.
            unsafe { old.write(before) };
        }
        0
    }

    /// Lends the calling context, which is at home. In a forked child it stays there.
    pub(crate) fn lend(&self) {
        if self.stays.load(Ordering::Relaxed) || !self.process.is_current() {
            return;
        }
        self.mask.set(Mask::block_all());
        self.selector.leave_program();
        // SAFETY: the thread's own lender, which lives until the thread ends at home. The runtime
        // is never shut down. The callers keep no value of the kernel thread.
        if FpControl::lay_aside(|| unsafe { loan::lend(self.lender(), self.runtime) }).is_err() {
            self.selector.enter_program();
            self.mask.get().set();
        }
    }

    /// Brings the calling context home, where signals wait for it.
    pub(crate) fn come(&self) -> AtHome<'_> {
        // SAFETY: this home has lent it.
        FpControl::lay_aside(|| unsafe { loan::go_home(self.lender()) });
        self.selector.enter_program();
        // Their signals wait here.
        self.interrupts.clear();
        if let (stack, true) = self.alternate_stack.get() {
            self.alternate_stack.set((stack, false));
            // SAFETY: the program has given the stack for handlers of this thread.
            unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
        }
        AtHome(self)
    }

    /// Handles the signals that have come for the context, at home.
    pub(crate) fn attend(&self) -> Pending {
        explain::ERRANDS.add();
        let home = self.come();
        let pending = Pending::now(self.mask.get());
        home.let_signals_in();
        self.lend();
        pending
    }
}

/// A context that has come home, where signals are still blocked.
#[must_use]
pub(crate) struct AtHome<'h>(&'h Home);

impl AtHome<'_> {
    pub(crate) fn let_signals_in(self) {
        self.0.mask.get().set();
    }
}

/// A context that is at home for an errand. Nothing is to be done when it is dropped, as the thread
/// may end at home.
#[derive(Clone, Copy)]
pub(crate) struct Errand(Option<&'static Home>);

/// Brings the calling context home for an errand, if it is lent.
pub(crate) fn leave_for_errand() -> Errand {
    let home = of_lent();
    if let Some(home) = home {
        explain::ERRANDS.add();
        home.come().let_signals_in();
    }
    Errand(home)
}

/// Lends the context again that has come home for an errand.
pub(crate) fn back_from_errand(errand: Errand) {
    if let Some(home) = errand.0 {
        home.lend();
    }
}

/// Makes a call on the calling thread's own kernel thread.
pub(crate) fn errand<R>(call: impl FnOnce() -> R) -> R {
    let errand = leave_for_errand();
    let result = call();
    errno::keep(|| back_from_errand(errand));
    result
}

thread_local! {
    /// The home of a context that stays there until its next wait.
    static AWAITS_WAIT: Cell<Option<&'static Home>> = const { Cell::new(None) };
}

/// Brings the calling context home, if it is lent, until its next wait.
pub(crate) extern "C-unwind" fn leave_until_wait() {
    if let Errand(Some(home)) = leave_for_errand() {
        AWAITS_WAIT.set(Some(home));
    }
}

/// Returns the home of the calling context, which is about to wait, if it is lent; lends it if it
/// has come home until now.
#[inline]
pub(crate) fn of_waiter() -> Option<&'static Home> {
    of_lent().or_else(lend_again)
}

#[cold]
fn lend_again() -> Option<&'static Home> {
    AWAITS_WAIT.take()?.lend();
    of_lent()
}

/// Makes a call on the calling thread's own kernel thread, where its context stays.
pub(crate) fn for_good<R>(call: impl FnOnce() -> R) -> R {
    note_change();
    if let Errand(Some(home)) = leave_for_errand() {
        home.stay();
    }
    call()
}

/// The number of changes of the initial thread's kernel thread: new threads inherit them.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Notes that the calling thread's kernel thread is about to change.
pub(crate) fn note_change() {
    match of_lent() {
        Some(home) => home.note_change(),
        None => {
            CHANGES.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Makes a call on the calling thread's own kernel thread, by which a signal comes that the thread
/// may block: the next thread of the program there must not find it.
pub(crate) fn errand_of_signal<R>(call: impl FnOnce() -> R) -> R {
    of_lent().inspect(|home| home.note_change());
    errand(call)
}

/// Returns a number for the properties that threads inherit of the caller. `None`: no other thread
/// has them.
pub(crate) fn heritage() -> Option<u32> {
    match of_lent() {
        Some(home) => home.heritage(),
        None => (thread_id() == std::process::id()).then(|| CHANGES.load(Ordering::Relaxed)),
    }
}

/// Holds the signals of the calling thread, unless its context is lent: workers block them.
pub(crate) fn hold_signals() -> Option<HeldSignals> {
    of_lent().is_none().then(HeldSignals::hold)
}

/// Returns the signals that the calling thread blocks.
pub(crate) fn mask_of_caller() -> Mask {
    of_lent().map_or_else(Mask::of_thread, |home| home.mask.get())
}
