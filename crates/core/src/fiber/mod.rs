//! The words of one fiber: who runs it, whether it runs, what mail waits for it.
