//! The layout of a thread in the GNU C library, found by probes.
//!
//! Some offsets come from the descriptions that the library exports for debuggers (`_thread_db_*`),
//! the others from scratch threads: a word of their control blocks that has a known value. The
//! control block of a scratch thread is also the model of all new ones.

pub(crate) mod offset;
pub(crate) mod scratch;
pub(crate) mod symbols;
mod unsupported;

use std::ffi::c_void;
use std::ops::Range;

pub(crate) use self::offset::{TlsOffset, at};
use self::scratch::Scratch;
use self::symbols::{constant, find_public, free_of_loader, offset};
pub(crate) use self::symbols::{find, function};
pub use self::unsupported::Unsupported;

/// Functions of the library that are private, and the one that it shares with the program.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    /// Allocates the vector of a block's thread-local modules, and copies the static ones.
    pub(crate) allocate_tls: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    /// Frees that vector, and the modules outside the block; the block itself if asked.
    pub(crate) deallocate_tls: unsafe extern "C" fn(*mut c_void, bool),
    /// Runs the destructors of thread-locals that are registered with the calling thread.
    pub(crate) call_tls_dtors: unsafe extern "C" fn(),
    /// Frees a module outside the block.
    pub(crate) free: unsafe extern "C" fn(*mut c_void),
}

/// Offsets of words of 32 bits from the thread pointer of every thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadWords {
    /// The id.
    pub id: usize,
    /// The state of its cancellation.
    pub cancel: usize,
}

/// Checks that the ABI puts the control block at the thread pointer, and the static thread-locals
/// below it: variant 2 of "ELF Handling For Thread-Local Storage". That of aarch64 and riscv64 is
/// variant 1.
fn check_variant() -> Result<(), Unsupported> {
    if cfg!(target_arch = "x86_64") { Ok(()) } else { Err(Unsupported::Processor) }
}

/// Finds words of the control blocks of all threads.
///
/// # Errors
///
/// The library does not describe them, or the id lies elsewhere. The processor is no x86-64.
pub fn words_of_thread() -> Result<ThreadWords, Unsupported> {
    check_variant()?;
    let id = offset(c"_thread_db_pthread_tid")?;
    // SAFETY: a control block has so many bytes.
    let word = unsafe { at::<u32>(daiko_context::seat::thread_pointer(), id as TlsOffset).read() };
    if word != daiko_sys::thread::id() {
        return Err(Unsupported::Layout("the id"));
    }
    Ok(ThreadWords { id, cancel: offset(c"_thread_db_pthread_cancelhandling")? })
}

/// The layout. Offsets without a sign are from the thread pointer, which is the address of the
/// control block.
pub(crate) struct Abi {
    pub(crate) functions: Functions,
    /// Bytes of a control block.
    pub(crate) control_bytes: usize,
    /// Bytes of a control block and the static thread-locals below it.
    pub(crate) bytes: usize,
    /// Alignment of the thread pointer.
    pub(crate) align: usize,
    pub(crate) thread_id: usize,
    pub(crate) list: usize,
    pub(crate) stack_start: usize,
    pub(crate) stack_bytes: usize,
    /// The pointer to the vector of modules.
    pub(crate) vector: usize,
    /// The table of pointers to values of keys.
    pub(crate) values: usize,
    /// The byte that says whether any key has a value.
    pub(crate) has_values: usize,
    /// The table of all keys, with their destructors.
    pub(crate) keys: *const Key,
    pub(crate) resolver: usize,
    pub(crate) resolver_pointer: TlsOffset,
    pub(crate) errno: TlsOffset,
    pub(crate) h_errno: TlsOffset,
    /// The area of restartable sequences, if the library has one.
    pub(crate) rseq: Option<TlsOffset>,
    /// The head of the list of robust mutexes, unless the kernel does not tell where it is.
    pub(crate) robust: Option<usize>,
    /// The words of a new control block, relative to it where `relative` says so.
    pub(crate) model: Vec<usize>,
    /// The indices of words in `model` that are offsets of the block.
    pub(crate) relative: Vec<usize>,
}

// SAFETY: the pointer is to a static of the library.
unsafe impl Send for Abi {}
// SAFETY: as above.
unsafe impl Sync for Abi {}

/// A key of `pthread_key_create`, as the library keeps it.
#[repr(C)]
pub(crate) struct Key {
    pub(crate) sequence: usize,
    pub(crate) destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// The value of a key in a thread, as the library keeps it.
#[repr(C)]
pub(crate) struct Value {
    pub(crate) sequence: usize,
    pub(crate) data: *mut c_void,
}

/// Keys in one table of values, and number of such tables.
pub(crate) const KEYS_PER_TABLE: usize = 32;

const WORD: usize = size_of::<usize>();

impl Abi {
    /// Finds the layout.
    ///
    /// # Errors
    ///
    /// The probe that failed. It fails for good, except that a thread may be had later.
    pub(crate) fn probe() -> Result<Self, Unsupported> {
        check_variant()?;
        let scratch = Scratch::on_own_stack()?;
        let control_bytes = constant(c"_thread_db_sizeof_pthread")?;
        let (bytes, align) = static_info()?;
        let image = Image::of(&scratch, control_bytes);
        let stack = scratch.stack().expect("on a stack of its own");
        let stack_start = image.only(stack.start, "the stack")?;
        let thread_id = offset(c"_thread_db_pthread_tid")?;
        if image.u32_at(thread_id) != Some(scratch.id()) {
            return Err(Unsupported::Layout("the id"));
        }
        let values = offset(c"_thread_db_pthread_specific")?;
        let resolver = image.inside(scratch.resolver(), "the resolver")?;
        let (model, relative) = image.model(stack);
        let mut abi = Abi {
            functions: functions()?,
            control_bytes,
            bytes,
            align,
            thread_id,
            list: offset(c"_thread_db_pthread_list")?,
            stack_start,
            stack_bytes: stack_start + WORD,
            vector: offset(c"_thread_db_pthread_dtvp")?,
            values,
            has_values: 0,
            keys: find(c"__pthread_keys")?.as_ptr().cast_const().cast(),
            resolver,
            resolver_pointer: from_thread_pointer(find(c"__resp")?.as_ptr().addr()),
            errno: from_thread_pointer(errno_address()),
            h_errno: from_thread_pointer(h_errno_address()),
            rseq: rseq(),
            robust: robust_list(),
            model,
            relative,
        };
        if image.words.get(abi.stack_bytes / WORD) != Some(&scratch_len(&scratch)) {
            return Err(Unsupported::Layout("the size of the stack"));
        }
        abi.has_values = abi.find_has_values(&image)?;
        abi.robust = abi.robust.filter(|&head| abi.is_empty_list(head));
        Ok(abi)
    }

    /// Returns true if a list without entries has its head here in a new control block: a pointer
    /// to itself, behind a pointer to the last entry.
    fn is_empty_list(&self, head: usize) -> bool {
        let is_head = |index| self.relative.contains(&index) && self.model[index] == head;
        head.is_multiple_of(WORD)
            && [head / WORD, (head / WORD).wrapping_sub(1)].into_iter().all(is_head)
    }

    /// Finds the byte that changes from 0 to 1 when a thread gives a key its first value.
    fn find_has_values(&self, without: &Image) -> Result<usize, Unsupported> {
        const WHAT: Unsupported = Unsupported::Layout("the values of keys");
        let mut key = 0;
        // SAFETY: writes the key to the live local.
        if unsafe { libc::pthread_key_create(&mut key, None) } != 0 {
            return Err(WHAT);
        }
        let with = Scratch::with_value(key);
        let with = with.map(|scratch| Image::of(&scratch, self.control_bytes));
        // SAFETY: the key was made above, and the thread that used it has ended.
        unsafe { libc::pthread_key_delete(key) };
        let with = with?;
        let tables = self.values..self.values + KEYS_PER_TABLE * WORD;
        let first = self.first_table().ok_or(WHAT)?;
        let changes = without.bytes().zip(with.bytes()).enumerate();
        let mut set = changes.filter(|&(at, pair)| {
            pair == (0, 1)
                && !without.is_address(at)
                && !with.is_address(at)
                && ![&tables, &first].iter().any(|range| range.contains(&at))
                && !self.rseq_range().contains(&(at as isize))
                && !(self.thread_id..self.thread_id + 4).contains(&at)
        });
        match (set.next(), set.next()) {
            (Some((at, _)), None) => Ok(at),
            _ => Err(WHAT),
        }
    }

    /// Returns where the first table of values lies in the control block.
    pub(crate) fn first_table(&self) -> Option<Range<usize>> {
        let word = self.values / WORD;
        let start = self.relative.contains(&word).then(|| self.model[word])?;
        Some(start..start + KEYS_PER_TABLE * size_of::<Value>())
    }

    fn rseq_range(&self) -> Range<isize> {
        const AREA: isize = 32;
        self.rseq.map_or(0..0, |start| start..start + AREA)
    }
}

fn scratch_len(scratch: &Scratch) -> usize {
    scratch.stack().map_or(0, |stack| stack.len())
}

/// The words of a scratch thread's control block.
struct Image {
    /// The address of the block.
    start: usize,
    words: Vec<usize>,
}

impl Image {
    fn of(scratch: &Scratch, bytes: usize) -> Self {
        let block = scratch.control_block();
        // SAFETY: the thread sleeps and has a control block of that size. The kernel may write the
        // area of restartable sequences, so each word is read for itself.
        let word = |index| unsafe { block.cast::<usize>().add(index).read_volatile() };
        Image { start: block.addr().get(), words: (0..bytes / WORD).map(word).collect() }
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        self.words.iter().flat_map(|word| word.to_ne_bytes())
    }

    /// Returns true if the word with the byte `at` is an address, which differs from thread to
    /// thread.
    fn is_address(&self, at: usize) -> bool {
        self.words[at / WORD] >> 32 != 0
    }

    fn u32_at(&self, offset: usize) -> Option<u32> {
        let word = self.words.get(offset / WORD)?.to_ne_bytes();
        let at = offset % WORD;
        Some(u32::from_ne_bytes(word[at..at + 4].try_into().ok()?))
    }

    /// Returns the offset of the only word of this value.
    fn only(&self, value: usize, what: &'static str) -> Result<usize, Unsupported> {
        let mut at = self.words.iter().enumerate().filter(|&(_, &word)| word == value);
        match (at.next(), at.next()) {
            (Some((index, _)), None) => Ok(index * WORD),
            _ => Err(Unsupported::Layout(what)),
        }
    }

    /// Returns the offset of this address in the block.
    fn inside(&self, address: usize, what: &'static str) -> Result<usize, Unsupported> {
        let offset = address.wrapping_sub(self.start);
        (offset < self.words.len() * WORD).then_some(offset).ok_or(Unsupported::Layout(what))
    }

    /// Returns the words of a new block, and the indices of those that are offsets of it. Pointers
    /// to the stack, which belong to the scratch thread, become null.
    fn model(&self, stack: Range<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut relative = Vec::new();
        let model =
            self.words.iter().enumerate().map(|(index, &word)| match self.inside(word, "") {
                Ok(offset) => {
                    relative.push(index);
                    offset
                }
                Err(_) if stack.contains(&word) => 0,
                Err(_) => word,
            });
        let model = model.collect();
        (model, relative)
    }
}

fn static_info() -> Result<(usize, usize), Unsupported> {
    type Info = unsafe extern "C" fn(*mut usize, *mut usize);
    let (mut bytes, mut align) = (0, 0);
    // SAFETY: the function has this type, and writes two words to live locals.
    unsafe { function::<Info>(c"_dl_get_tls_static_info")?(&mut bytes, &mut align) };
    if bytes == 0 || !align.is_power_of_two() {
        return Err(Unsupported::Layout("the thread-locals"));
    }
    Ok((bytes, align))
}

fn functions() -> Result<Functions, Unsupported> {
    // SAFETY: the functions have the types of these fields.
    unsafe {
        Ok(Functions {
            allocate_tls: function(c"_dl_allocate_tls")?,
            deallocate_tls: function(c"_dl_deallocate_tls")?,
            call_tls_dtors: function(c"__call_tls_dtors")?,
            free: free_of_loader()?,
        })
    }
}

/// Returns the distance of `address`, a thread-local of the calling thread, from its thread
/// pointer.
pub(crate) fn from_thread_pointer(address: usize) -> TlsOffset {
    address.wrapping_sub(daiko_context::seat::thread_pointer()) as isize
}

fn errno_address() -> usize {
    // SAFETY: returns an address.
    unsafe { libc::__errno_location() }.addr()
}

fn h_errno_address() -> usize {
    unsafe extern "C" {
        fn __h_errno_location() -> *mut i32;
    }
    // SAFETY: returns an address.
    unsafe { __h_errno_location() }.addr()
}

/// Returns the offset of the head of the list of robust mutexes in a control block.
fn robust_list() -> Option<usize> {
    let head = daiko_sys::thread::robust_list().ok()?;
    head.checked_sub(daiko_context::seat::thread_pointer())
}

/// Returns the offset of the area of restartable sequences, if the library has one.
pub(crate) fn rseq() -> Option<TlsOffset> {
    let (offset, size) = (find_public(c"__rseq_offset")?, find_public(c"__rseq_size")?);
    // SAFETY: the first is a word, the second 32 bits.
    let (offset, size) = unsafe { (offset.cast::<isize>().read(), size.cast::<u32>().read()) };
    (size != 0).then_some(offset)
}
