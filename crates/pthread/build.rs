//! Options of the linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The standard library shall have no use for this function, which takes the loader's lock: a
    // thread may load a library meanwhile, and wait for threads that a constructor starts. It then
    // has a key for destructors of thread-locals.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--defsym=__cxa_thread_atexit_impl=0");
}
