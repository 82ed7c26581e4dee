//! Shared libraries that are compiled, and loaded while fibers live.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::path::PathBuf;
use std::process::Command;

/// The place of a library's thread-locals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The static thread-local storage of each thread.
    InitialExec,
    /// Memory that is allocated when a thread first uses it.
    GlobalDynamic,
}

/// A shared library that was compiled for a test. The file is removed when this is dropped.
#[derive(Debug)]
pub struct Compiled(PathBuf);

/// A library that is loaded until this is dropped.
pub struct Loaded {
    handle: *mut c_void,
    counter: extern "C" fn() -> *mut c_long,
    exchange: extern "C" fn(c_char, c_char) -> c_int,
}

// SAFETY: any thread may call the library's functions and unload it.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Compiled {
    /// Compiles the library with so many bytes of thread-locals that are zeros: a multiple of 8, as
    /// the loader does not use the padding of a library again.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be compiled.
    pub fn new(model: Model, zeros: usize) -> Result<Self, String> {
        let name = format!("daiko-late-{}-{model:?}-{zeros}.so", std::process::id());
        let path = std::env::temp_dir().join(name);
        let model = match model {
            Model::InitialExec => "-ftls-model=initial-exec",
            Model::GlobalDynamic => "-ftls-model=global-dynamic",
        };
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/c/late.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", model, source, "-o"]).arg(&path);
        let status = compiler.arg(format!("-DLATE_ZEROS={zeros}")).status();
        let status = status.map_err(|error| format!("cc: {error}"))?;
        status.success().then_some(Compiled(path)).ok_or_else(|| format!("cc: {status}"))
    }

    /// Loads the library.
    pub fn load(&self) -> Loaded {
        let path = CString::new(self.0.to_str().unwrap()).unwrap();
        // SAFETY: a string that ends with zero; the library has no initializers.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{}", last_error());
        // SAFETY: the functions of `c/late.c` have these types.
        unsafe {
            Loaded {
                handle,
                counter: std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_long>(find(
                    handle,
                    c"late_counter_of_thread",
                )),
                exchange: std::mem::transmute::<*mut c_void, extern "C" fn(c_char, c_char) -> c_int>(
                    find(handle, c"late_exchange"),
                ),
            }
        }
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Loaded {
    /// Returns the thread's own counter: 77 at first.
    pub fn counter(&self) -> *mut c_long {
        (self.counter)()
    }

    /// Asserts that the thread's values are its own and new: changes them, calls `suspend`, and
    /// looks again. Returns the address of the counter.
    pub fn assert_new(&self, own: c_long, suspend: impl Fn()) -> usize {
        let counter = self.counter();
        // SAFETY: the counter of the calling thread.
        assert_eq!(unsafe { counter.replace(own) }, 77);
        assert_ne!((self.exchange)(0, own as c_char), 0, "not zeros");
        suspend();
        assert_eq!(self.counter(), counter);
        // SAFETY: as above.
        assert_eq!(unsafe { counter.read() }, own);
        assert_ne!((self.exchange)(own as c_char, 1), 0, "values of another fiber");
        counter.expose_provenance()
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: `load` has opened it.
        assert_eq!(unsafe { libc::dlclose(self.handle) }, 0, "{}", last_error());
    }
}

fn find(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: an open library, and a string that ends with zero.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!address.is_null(), "no {name:?}");
    address
}

fn last_error() -> String {
    // SAFETY: the text stays until the thread's next call of the loader.
    unsafe { CStr::from_ptr(libc::dlerror()) }.to_string_lossy().into_owned()
}
