//! Fibers whose waiters are polled for by agents and resumed in nanoseconds.
