//! libpmem of the Persistent Memory Development Kit, if it is installed: opened on first use.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::ptr::NonNull;
use std::sync::OnceLock;

use super::failure::{Failure, Skip};
use super::persistent::Memory;

const PAGE: usize = 4096;

/// Flags as in `libpmem.h`.
const CREATE: c_int = 1 << 0;
const UNNAMED: c_int = 1 << 3;

type Map = unsafe extern "C" fn(
    *const c_char,
    usize,
    c_int,
    libc::mode_t,
    *mut usize,
    *mut c_int,
) -> *mut c_void;
type Unmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type MemmovePersist = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;
type MemsetPersist = unsafe extern "C" fn(*mut c_void, c_int, usize) -> *mut c_void;
type Persist = unsafe extern "C" fn(*const c_void, usize);
type Complaint = unsafe extern "C" fn() -> *const c_char;

/// The functions of libpmem in use; pmem(7) is its manual.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    map: Map,
    unmap: Unmap,
    pub(crate) memmove_persist: MemmovePersist,
    pub(crate) memset_persist: MemsetPersist,
    pub(crate) persist: Persist,
    complaint: Complaint,
}

/// Requires that libpmem is installed. Closes it again, because a process that has it loaded looks
/// like a process that uses it.
pub(crate) fn require_libpmem() -> Result<(), Skip> {
    let handle = open().ok_or_else(missing)?;
    // SAFETY: it was opened here, and none of its functions was called.
    unsafe { libc::dlclose(handle.as_ptr()) };
    Ok(())
}

fn missing() -> Skip {
    Skip::without("libpmem is not installed", "libpmem1")
}

fn open() -> Option<NonNull<c_void>> {
    // SAFETY: the initialisation of libpmem has no requirements.
    NonNull::new(unsafe { libc::dlopen(c"libpmem.so.1".as_ptr(), libc::RTLD_NOW) })
}

impl Library {
    /// Returns the library, which is opened once and never closed.
    pub(crate) fn find() -> Result<&'static Self, Failure> {
        static FOUND: OnceLock<Option<Library>> = OnceLock::new();
        let found = FOUND.get_or_init(Self::load).as_ref();
        found.ok_or_else(|| missing().into())
    }

    fn load() -> Option<Self> {
        let handle = open()?;
        let find = |name: &CStr| {
            // SAFETY: the handle is open and is never closed.
            NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) })
        };
        let [map, unmap] = [find(c"pmem_map_file")?, find(c"pmem_unmap")?];
        let [memmove, memset] = [find(c"pmem_memmove_persist")?, find(c"pmem_memset_persist")?];
        let [persist, complaint] = [find(c"pmem_persist")?, find(c"pmem_errormsg")?];
        // SAFETY: the functions of these names have these types in all libraries of the name above;
        // a change of the types would change its number.
        unsafe {
            Some(Self {
                map: mem::transmute::<NonNull<c_void>, Map>(map),
                unmap: mem::transmute::<NonNull<c_void>, Unmap>(unmap),
                memmove_persist: mem::transmute::<NonNull<c_void>, MemmovePersist>(memmove),
                memset_persist: mem::transmute::<NonNull<c_void>, MemsetPersist>(memset),
                persist: mem::transmute::<NonNull<c_void>, Persist>(persist),
                complaint: mem::transmute::<NonNull<c_void>, Complaint>(complaint),
            })
        }
    }

    /// Creates an unnamed file, completely allocated, and maps it.
    pub(crate) fn map(&'static self, memory: &Memory, bytes: usize) -> Result<PmemFile, Failure> {
        let folder = memory.folder();
        let path = CString::new(folder.as_os_str().as_bytes())
            .map_err(|_| Failure::Limit(format!("{folder:?} is no folder's name")))?;
        let (mut len, mut is_pmem) = (0, 0);
        let flags = CREATE | UNNAMED;
        // SAFETY: a terminated string, and two live locals.
        let start =
            unsafe { (self.map)(path.as_ptr(), bytes, flags, 0o600, &mut len, &mut is_pmem) };
        let Some(start) = NonNull::new(start) else {
            return Err(self.refused(memory, bytes));
        };
        let file = PmemFile { library: self, start, len };
        if matches!(memory, Memory::Dax(_)) && is_pmem == 0 {
            return Err(Failure::Limit(not_persistent(memory)));
        }
        file.touch();
        Ok(file)
    }

    fn refused(&self, memory: &Memory, bytes: usize) -> Failure {
        // SAFETY: it returns a string that stays valid until this thread's next call.
        let complaint = unsafe { CStr::from_ptr((self.complaint)()) }.to_string_lossy();
        Failure::Limit(format!(
            "cannot have {bytes} bytes in {}: {complaint}; make room there, or name another folder with --pmem",
            memory.folder().display()
        ))
    }
}

/// Error text for a folder that is not persistent memory.
fn not_persistent(memory: &Memory) -> String {
    format!(
        "{} is not persistent memory: name a folder of a file system that is mounted with DAX, or leave --pmem out to emulate it",
        memory.folder().display()
    )
}

/// A mapped file.
pub(crate) struct PmemFile {
    library: &'static Library,
    start: NonNull<c_void>,
    len: usize,
}

impl PmemFile {
    /// Writes `data` at `offset`, and makes it persistent.
    ///
    /// # Panics
    /// Panics if `data` does not fit within the file.
    pub(crate) fn persist(&self, offset: usize, data: &[u8]) {
        assert!(offset <= self.len && data.len() <= self.len - offset);
        // SAFETY: the data fit within the mapping, which this value owns, and do not overlap with
        // it.
        unsafe {
            (self.library.memmove_persist)(
                self.start.byte_add(offset).as_ptr(),
                data.as_ptr().cast(),
                data.len(),
            );
        }
    }

    /// Writes to every page, so that no later write faults.
    fn touch(&self) {
        (0..self.len).step_by(PAGE).for_each(|offset| self.persist(offset, &[0]));
    }
}

impl Drop for PmemFile {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value and ends with it.
        unsafe { (self.library.unmap)(self.start.as_ptr(), self.len) };
    }
}
