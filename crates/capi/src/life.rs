//! Life of the library: version, errors, runtimes.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use daiko::{BuildError, Builder, JoinError, Preset, Runtime, SpawnError};
use daiko_rt::client;
use daiko_rt::runtime::RuntimeInner;

use crate::answer::{answer, silence_wrong_uses, wait};
use crate::attributes::{self, RuntimeAttributes, VERSION_NUMBER};
use crate::pointer::{Body, Code, OutPlace, Parcel, Passed, give};

/// Bytes of the guard below a stack: C code that is compiled without probes may jump over less.
const GUARD: usize = 64 << 10;

/// `daiko_runtime`: a runtime until it is shut down.
pub(crate) struct HeldRuntime {
    /// The runtime; null once it is shut down.
    runtime: AtomicPtr<Runtime>,
}

impl HeldRuntime {
    fn new(runtime: Runtime) -> Self {
        HeldRuntime { runtime: AtomicPtr::new(Box::into_raw(Box::new(runtime))) }
    }

    /// Returns the runtime.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` once it is shut down.
    pub(crate) fn get(&self) -> Result<&Runtime, Code> {
        // Acquire: pairs with the Release of the exchange in `take`.
        let runtime = self.runtime.load(Ordering::Acquire);
        // SAFETY: made by `new`; by `daiko.h`, no call uses a runtime that another shuts down.
        unsafe { runtime.as_ref() }.ok_or(libc::ESHUTDOWN)
    }

    fn take(&self) -> Option<Box<Runtime>> {
        // AcqRel: pairs with the Acquire in `get`, and with itself.
        let runtime = self.runtime.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: made by `new`, and taken once.
        (!runtime.is_null()).then(|| unsafe { Box::from_raw(runtime) })
    }

    /// Shuts the runtime down, if it is not yet. Returns the number of fibers that resisted.
    fn shut_down(&self) -> Result<usize, Code> {
        let runtime = self.get()?;
        // SAFETY: used by this call, on its own thread.
        let (shared, here) = unsafe { (runtime.inner(), client::current()) };
        if here.is_some_and(|worker| worker.is_of(shared)) {
            return Err(libc::EDEADLK);
        }
        if !shared.is_here() {
            return Err(libc::EPERM);
        }
        Ok(self.take().map_or(0, |runtime| runtime.shutdown().leaked))
    }
}

impl Drop for HeldRuntime {
    fn drop(&mut self) {
        drop(self.take());
    }
}

static DEFAULT: OnceLock<HeldRuntime> = OnceLock::new();

/// Returns the default runtime, which is built at its first use.
pub(crate) fn default_runtime() -> Result<&'static HeldRuntime, Code> {
    if let Some(runtime) = DEFAULT.get() {
        return Ok(runtime);
    }
    let new = build(&Passed::none())?;
    // Another thread may have been faster: then this runtime ends.
    Ok(DEFAULT.get_or_init(|| new))
}

/// Calls `use_it` with the runtime that the caller names: by NULL its own, or else the default one.
pub(crate) fn with_runtime<R>(
    named: &Passed<HeldRuntime>,
    use_it: impl FnOnce(&RuntimeInner) -> Result<R, Code>,
) -> Result<R, Code> {
    // SAFETY: used by this call, on its own thread.
    let here = unsafe { client::current() };
    let inner = match (named.is_null(), here) {
        (false, _) => named.get()?.get()?,
        // SAFETY: as above.
        (true, Some(_)) => return use_it(unsafe { client::runtime_of(here) }),
        (true, None) => default_runtime()?.get()?,
    };
    // SAFETY: as above.
    use_it(unsafe { inner.inner() })
}

fn build(attributes: &Passed<RuntimeAttributes>) -> Result<HeldRuntime, Code> {
    let attributes = attributes::of_caller(attributes)?;
    if attributes.version > VERSION_NUMBER {
        return Err(libc::ENOTSUP);
    }
    let preset = preset_of(attributes.preset)?;
    if attributes.flags & !MIGRATABLE != 0 {
        return Err(libc::E2BIG);
    }
    silence_wrong_uses();
    let guard = if attributes.guard_size == 0 { GUARD } else { attributes.guard_size };
    let mut builder = Runtime::builder().guard_size(guard);
    if let Some(preset) = preset {
        builder = builder.preset(preset);
    }
    if attributes.workers != 0 {
        builder = builder.workers(attributes.workers as usize);
    }
    if attributes.stack_size != 0 {
        builder = builder.stack_size(attributes.stack_size);
    }
    if attributes.flags & MIGRATABLE != 0 {
        builder = builder.migratable();
    }
    builder.build().map(HeldRuntime::new).map_err(|error| match error {
        BuildError::Workers { .. } | BuildError::Stack(_) => libc::EINVAL,
        BuildError::ThreadLocals(_) => libc::ENOTSUP,
        BuildError::Memory(_) => libc::ENOMEM,
        _ => libc::EAGAIN,
    })
}

/// `DAIKO_RUNTIME_MIGRATABLE`.
const MIGRATABLE: u32 = 1;

/// Returns the preset of this number; `None` for 0, the default.
fn preset_of(number: u32) -> Result<Option<Preset>, Code> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Preset::Latency)),
        2 => Ok(Some(Preset::Balanced)),
        3 => Ok(Some(Preset::Power)),
        _ => Err(libc::EINVAL),
    }
}

/// Returns the code of a fiber that was not spawned.
pub(crate) fn code_of_spawn(error: &SpawnError) -> Code {
    match error {
        SpawnError::NoSuchWorker { .. } => libc::EINVAL,
        SpawnError::ShuttingDown => libc::ESHUTDOWN,
        SpawnError::Forked => libc::EPERM,
        _ => libc::EAGAIN,
    }
}

/// Returns the code of a fiber that has no result.
pub(crate) fn code_of_join(error: &JoinError) -> Code {
    match error {
        JoinError::Itself => libc::EDEADLK,
        JoinError::Cancelled => libc::ECANCELED,
        JoinError::WorkerDied => libc::EOWNERDEAD,
        JoinError::Forked => libc::EPERM,
        JoinError::Taken => libc::EINVAL,
        _ => libc::ENOTRECOVERABLE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_version() -> *const c_char {
    const { concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast() }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_version_number() -> u32 {
    VERSION_NUMBER
}

/// The text of each code that a function of `daiko.h` returns.
fn text_of(code: Code) -> &'static CStr {
    match code {
        0 => c"no error",
        libc::EINVAL => c"an argument is NULL, misaligned or out of range",
        libc::E2BIG => c"the attributes choose what this version of Daiko does not know",
        libc::ETIMEDOUT => c"the deadline has passed",
        libc::ECANCELED => c"the fiber is cancelled; daiko_cancel_clear lets it wait again",
        libc::EPERM => c"the caller may not call this: it is no fiber, a poller, or no holder",
        libc::EBUSY => c"the object is in use, or the caller is inside daiko_no_suspend_begin",
        libc::EAGAIN => c"no memory, thread or permit is available",
        libc::ENOMEM => c"no memory is available",
        libc::EDEADLK => c"the caller would wait for itself",
        libc::ESHUTDOWN => c"the runtime is shut down",
        libc::EPIPE => c"the channel is closed",
        libc::ENOTSUP => c"this library or system does not support it",
        libc::EOVERFLOW => c"a count would become too large",
        libc::EOWNERDEAD => c"the owner has died; the state it protected may be half changed",
        libc::ENOENT => c"there is nothing of this name",
        libc::ENOSPC => c"the segment or its file system is full",
        libc::ECONNREFUSED => c"no process serves it",
        libc::EMSGSIZE => c"the message is larger than the room for it",
        libc::EEXIST => c"the name is taken",
        libc::ENOTRECOVERABLE => c"a fault of Daiko",
        _ => c"an error of the system: see strerror",
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_strerror(code: c_int) -> *const c_char {
    text_of(code).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn daiko_runtime_attr_init(attributes: *mut RuntimeAttributes, size: usize) -> Code {
    answer(|| attributes::initialise(attributes, size))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_runtime_new(
    runtime: OutPlace<*const HeldRuntime>,
    attributes: Passed<RuntimeAttributes>,
) -> Code {
    answer(|| {
        runtime.check()?;
        runtime.put(give(build(&attributes)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_runtime_run(
    runtime: Passed<HeldRuntime>,
    body: Option<Body>,
    argument: *mut c_void,
    result: OutPlace<*mut c_void>,
) -> Code {
    wait(|| {
        let (body, argument) = (body.ok_or(libc::EINVAL)?, Parcel(argument));
        let fiber = with_runtime(&runtime, |inner| {
            // SAFETY: used by this call, on its own thread.
            let here = unsafe { client::current() }.filter(|worker| worker.is_of(inner));
            let builder = Builder::new().foreign();
            let spawned = builder.spawn_in(inner, here, move || argument.pass_to(body));
            spawned.map_err(|error| code_of_spawn(&error))
        })?;
        let Parcel(end) = fiber.join().map_err(|error| code_of_join(&error))?;
        result.put_if_wanted(end);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_runtime_shutdown(runtime: Passed<HeldRuntime>, left: OutPlace<usize>) -> Code {
    wait(|| {
        left.put_if_wanted(runtime.get()?.shut_down()?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_runtime_free(runtime: Passed<HeldRuntime>) -> Code {
    wait(|| {
        if runtime.is_null() {
            return Ok(());
        }
        if DEFAULT.get().is_some_and(|held| std::ptr::eq(held, runtime.get().unwrap_or(held))) {
            return Err(libc::EPERM);
        }
        match runtime.get()?.shut_down() {
            Ok(_) | Err(libc::ESHUTDOWN) => drop(runtime.take()?),
            Err(code) => return Err(code),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_default_runtime(runtime: OutPlace<*const HeldRuntime>) -> Code {
    answer(|| {
        runtime.check()?;
        runtime.put(default_runtime()?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_set_preset(runtime: Passed<HeldRuntime>, preset: u32) -> Code {
    answer(|| {
        let preset = preset_of(preset)?.unwrap_or_default();
        let runtime = if runtime.is_null() { default_runtime()? } else { runtime.get()? };
        runtime.get()?.set_preset(preset);
        Ok(())
    })
}
