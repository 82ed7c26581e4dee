//! Figures of P3: wake-ups that consider interrupts which follow the process, Tokyo University of
//! Technology. It counts migrations, misses and CPU use of a kernel under its policy and under the
//! existing one.

/// The machine of P3.
pub(crate) const MACHINE: &str =
    "Core i7 980X, 6 cores with 12 threads, 24 GB, Linux 3.2-rc7, Intel 82599 10 GbE, iperf";

/// Number of flows that P3's machine received.
pub(crate) const FLOWS: u64 = 512;

/// P3's table 2: unintended migrations as a part of all; "8%".
pub(crate) const UNINTENDED: f64 = 0.08;

/// Number of consecutive unintended migrations, on average and at most.
pub(crate) const SETTLE: [f64; 2] = [1.21, 9.0];

/// P3's table 3: events per second with the existing scheduler, and with its own.
pub(crate) const EVENTS: [(&str, [f64; 2]); 5] = [
    ("migrations", [2200.0, 1142.0]),
    ("llc-load-misses", [7228.0, 7085.0]),
    ("llc-store-misses", [6171.0, 5857.0]),
    ("dtlb-load-misses", [6714.0, 6124.0]),
    ("dtlb-store-misses", [6648.0, 6114.0]),
];

/// P3's table 4: CPU use in per cent, likewise.
pub(crate) const CPU: [f64; 2] = [25.3, 24.0];
