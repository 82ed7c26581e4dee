//! The system calls of Daiko: futex, memory, affinity, clocks, signals.
