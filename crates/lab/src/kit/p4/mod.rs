//! P4: scheduling for persistent memory under simultaneous multithreading, Keio University and AIST.
//! Its settings, its figures, and whether figures here say the same; one experiment measures them,
//! another predicts them.

pub(crate) mod figures;
pub(crate) mod published;
pub(crate) mod setting;
pub(crate) mod verdict;
