//! P4: scheduling for persistent memory under simultaneous multithreading, Keio University and
//! AIST. This module has its settings, its figures, and their comparison with figures here. One
//! experiment measures them, another predicts them.

pub(crate) mod comparison;
pub(crate) mod figures;
pub(crate) mod published;
pub(crate) mod setting;
