//! Takes samples of methods whose workers are processes, for `daiko lab run`.

use daiko::process::SharedHeap;

/// Addresses for a million fibers, with what else they need.
#[global_allocator]
static HEAP: SharedHeap = SharedHeap::with_reserve(256 << 30);

fn main() -> std::process::ExitCode {
    daiko_cli::sample()
}
