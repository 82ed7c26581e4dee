//! Stacks, context switch and word scan of Daiko, one file per architecture.
