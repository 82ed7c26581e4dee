//! Takes samples of methods with worker processes, for `daiko lab run`.

use daiko::process::SharedHeap;

/// Addresses for a million fibers and their objects.
#[global_allocator]
static HEAP: SharedHeap = SharedHeap::with_reserve(256 << 30);

fn main() -> std::process::ExitCode {
    daiko_cli::sample()
}
