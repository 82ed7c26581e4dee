//! The token of a runtime section. It lies below all that takes it; only `call` makes tokens.

use std::marker::PhantomData;

/// The token of a runtime section: the caller is in one, or is no part of a fiber's run. It has no
/// size.
#[derive(Clone, Copy)]
pub struct InCall<'c> {
    /// The borrowed section.
    section: PhantomData<&'c ()>,
    /// The section belongs to one fiber.
    not_send: PhantomData<*const ()>,
}

impl InCall<'_> {
    /// Makes a token. The caller says why there is a section, or needs to be none.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        InCall { section: PhantomData, not_send: PhantomData }
    }
}
