//! The stages of a worker that is a process, as its successor reads them.

/// The way in which a process comes to be a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coming {
    /// A process is this worker.
    No = 0,
    /// The process begins with the runtime.
    First = 1,
    /// The process succeeds another, and begins anew with the agent of that process.
    Anew = 2,
    /// The process succeeds another, and is given the registers of that process.
    GoesOn = 3,
}

/// The reason why no process can take a dead process's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unclear(pub(crate) u32);

impl Unclear {
    pub(crate) const NOT_KILLED: Unclear = Unclear(0);
    pub(crate) const REGISTERS: Unclear = Unclear(1);
    pub(crate) const COMING: Unclear = Unclear(2);
    pub(super) const BLOCKING: Unclear = Unclear(3);
    pub(super) const AGENT: Unclear = Unclear(4);
    pub(super) const CALL: Unclear = Unclear(5);
    pub(crate) const FORK: Unclear = Unclear(6);
    pub(super) const STACK: Unclear = Unclear(7);

    pub(crate) fn text(self) -> &'static str {
        const TEXTS: [&str; 8] = [
            "it was not killed",
            "no other can be given its registers",
            "it was taking the place of another",
            "a blocking call there was using the runtime",
            "its agent was at work",
            "its fiber was in a call of the runtime",
            "no other can be forked",
            "it was on a stack that other processes do not have",
        ];
        TEXTS[self.0 as usize]
    }
}
