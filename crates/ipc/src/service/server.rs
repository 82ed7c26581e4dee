//! Server side of calls.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Bytes;
use crate::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::caller;
use bytemuck::{AnyBitPattern, NoUninit};
use daiko_core::call::{CallMark, CallSlot, Delivered, Taken, Ticket};

use super::super::wait::{self, NotifiedBy};
use super::seats::{MAX_SERVERS, OwnSeat, SeatWord};
use super::{CallError, ServeError, Service, ServiceWords};
use daiko_rt::Deadline;
use daiko_rt::fiber::{Builder, Cancelled, JoinHandle};
use daiko_rt::runtime::Runtime;

/// Contents of a reply.
pub(super) mod code {
    /// Bytes that the server has written.
    pub(crate) const REPLIED: u32 = 0;
    /// No reply: the handler has panicked.
    pub(crate) const PANICKED: u32 = 1;
}

/// Name of a wait in messages.
const WAIT_KIND: &str = "Service::serve";
/// No fiber is idle.
const NO_SERVER: usize = usize::MAX;
/// Calls that a fiber serves in a row before other fibers of its worker run.
const IN_A_ROW: u32 = 16;

impl Service {
    /// Serves it by `fibers` fibers on each worker of the runtime: the caller's if a fiber calls,
    /// else of the default one. `handler` runs in one of them for each call, and may suspend;
    /// meanwhile other fibers serve.
    ///
    /// Calls that an earlier server had in hand when it died are reported to their clients as
    /// lost; calls that it had not taken are served now. A handler that panics is reported to its
    /// client, and serving goes on. [`Server::builder`] is for a service of several servers.
    ///
    /// # Errors
    ///
    /// If it is being served, or there is no memory for the fibers, or the segment's file was cut
    /// short, or the segment is locked or inherited.
    pub fn serve<F>(&self, fibers: usize, handler: F) -> Result<Server, ServeError>
    where
        F: Fn(&mut Call<'_>) + Send + Sync + 'static,
    {
        Server::builder(self).fibers(fibers).serve(handler)
    }

    /// Serves as [`serve`](Self::serve) does, by fibers of `runtime`.
    ///
    /// # Errors
    ///
    /// As [`serve`](Self::serve).
    pub fn serve_on<F>(
        &self,
        runtime: &Runtime,
        fibers: usize,
        handler: F,
    ) -> Result<Server, ServeError>
    where
        F: Fn(&mut Call<'_>) + Send + Sync + 'static,
    {
        Server::builder(self).fibers(fibers).on(runtime).serve(handler)
    }

    /// Takes a seat for this process, and ends the calls that a dead server had taken from it.
    pub(super) fn take_seat(&self, is_shared: bool) -> Result<OwnSeat, ServeError> {
        let segment = self.segment();
        for number in 0..MAX_SERVERS as u32 {
            self.seated(number).map(|server| segment.has_gone(server.holder));
        }
        let seat = segment.locked(|_lock| Ok(self.take_seat_locked(is_shared)));
        let seat = seat.map_err(ServeError::Segment)??;
        // Some of the calls may have been of clients that have died or left. Waiters for a server
        // look as well.
        self.announce_free_slot();
        segment.check_whole().map_err(ServeError::Segment)?;
        Ok(seat)
    }

    fn take_seat_locked(&self, is_shared: bool) -> Result<OwnSeat, ServeError> {
        let mut seats = (0..MAX_SERVERS as u32).map(|number| self.seated(number));
        if seats.clone().flatten().any(|server| !(is_shared && server.word.is_shared())) {
            return Err(ServeError::Served);
        }
        let number = seats.position(|server| server.is_none()).ok_or(ServeError::Full)? as u32;
        for at in 0..self.shape().slots {
            let (slot, mark) = (self.slot(at), self.mark(at));
            if let Some((ticket, _)) = slot.in_hand(mark).filter(|&(_, server)| server == number) {
                slot.server_has_died(ticket);
                self.ring_client(slot);
            }
        }
        let word = SeatWord::new(self.segment().me(), is_shared);
        // Release: pairs with the Acquire in `seated`.
        self.words().seats[number as usize].store(word.0, Ordering::Release);
        Ok(OwnSeat { number, word })
    }

    /// Leaves the seat: no call that was taken from it is in hand any more.
    pub(super) fn leave_seat(&self, seat: &OwnSeat) {
        let word = &self.words().seats[seat.number as usize];
        // Release: pairs with the Acquire in `seated`.
        let (left, failed) = (Ordering::Release, Ordering::Relaxed);
        let _ = word.compare_exchange(seat.word.0, 0, left, failed);
        // A client that has posted a request meanwhile looks again, perhaps to find that no process
        // serves.
        (0..self.shape().slots).for_each(|at| self.ring_client(self.slot(at)));
        self.announce_free_slot();
    }

    /// Rings for the waiter for the reply in `slot`.
    fn ring_client(&self, slot: &CallSlot) {
        if let Some(bell) = slot.bell() {
            self.segment().ring_bell(bell as usize, None);
        }
    }

    /// Takes the request that lies at `slot` for the server in this seat, if there is one.
    #[inline]
    fn take(&self, slot: &ServerSlot<'_>, seat: u32) -> Option<Ticket> {
        match slot.words.take(slot.mark, seat) {
            Taken::Call(ticket) => Some(ticket),
            Taken::Nothing => None,
            Taken::Left => {
                self.announce_free_slot();
                None
            }
        }
    }

    /// Returns true if there is a request.
    #[inline]
    fn has_request(&self) -> bool {
        let mut claims = (0..).zip(self.claims());
        claims.any(|(at, claim)| is_claimed(claim) && self.slot(at).is_requested(self.mark(at)))
    }
}

/// Returns true if a client may have a request in the slot.
#[inline]
fn is_claimed(claim: &AtomicU64) -> bool {
    // Relaxed: a request that is there already is seen at the next look.
    claim.load(Ordering::Relaxed) != 0
}

/// Options of a [`Server`], by [`Server::builder`].
#[derive(Debug)]
#[must_use]
pub struct ServerBuilder<'a> {
    service: &'a Service,
    runtime: Option<&'a Runtime>,
    fibers: usize,
    is_shared: bool,
}

impl<'a> ServerBuilder<'a> {
    /// Sets the number of fibers on each worker of the runtime. Default: 1.
    pub fn fibers(mut self, fibers: usize) -> Self {
        self.fibers = fibers;
        self
    }

    /// Serves by fibers of `runtime`. Default: the caller's if a fiber calls, else the default one.
    pub fn on(mut self, runtime: &'a Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Shares the service with other servers, up to 16 that all say so. By default a server serves
    /// alone, and is refused while there is another one.
    ///
    /// Each request is taken by one of the servers. If a server dies, the calls that it has in hand
    /// end with [`CallError::ServerDied`], and the rest serve on.
    pub fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Serves: [`Service::serve`] describes it.
    ///
    /// # Errors
    ///
    /// As [`Service::serve`]; [`ServeError::Full`] if there are 16 servers.
    pub fn serve<F>(self, handler: F) -> Result<Server, ServeError>
    where
        F: Fn(&mut Call<'_>) + Send + Sync + 'static,
    {
        let runtime = match self.runtime {
            Some(runtime) => caller::inner(runtime),
            None => caller::runtime_of(caller::current()),
        };
        let (service, seat) = (self.service.clone(), self.service.take_seat(self.is_shared)?);
        let serving = Arc::new(Serving { service, seat, ends: AtomicBool::new(false), handler });
        let mut server = Server { serving: serving.clone(), fibers: Vec::new() };
        for on in 0..runtime.worker_count() {
            let siblings = Arc::new(ServingFibers::default());
            for _ in 0..self.fibers.max(1) {
                let (serving, siblings) = (serving.clone(), siblings.clone());
                let builder = Builder::new().name("daiko-serve").on(on);
                let here = caller::current().filter(|worker| worker.is_of(runtime));
                let fiber = builder.spawn_in(runtime, here, move || serving.run(&siblings));
                server.fibers.push(fiber.map_err(ServeError::Spawn)?);
            }
        }
        Ok(server)
    }
}

/// Serves a [`Service`] until it is dropped, which waits for the calls in hand.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Segment, ServeError, Server, Service};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let service = Service::create(&segment, "double", Service::options())?;
/// // Each of some processes does this; here one does it twice.
/// let serve = || Server::builder(&service).shared().serve(|call| call.reply(&1u8));
/// let servers = [serve()?, serve()?];
/// let alone = service.serve(1, |call| call.reply(&1u8));
/// assert!(matches!(alone, Err(ServeError::Served)), "a server that does not share is refused");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    serving: Arc<dyn Ends>,
    fibers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Returns options for a server of `service`.
    pub fn builder(service: &Service) -> ServerBuilder<'_> {
        ServerBuilder { service, runtime: None, fibers: 1, is_shared: false }
    }

    /// Waits until its runtime ends, or the segment's file is found to be cut short: mostly
    /// without end.
    pub fn join(mut self) {
        for fiber in std::mem::take(&mut self.fibers) {
            let _ = fiber.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.end();
        for fiber in self.fibers.drain(..) {
            let _ = fiber.join();
        }
        self.serving.leave_service();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("fibers", &self.fibers.len()).finish_non_exhaustive()
    }
}

/// State of a server, independent of its handler.
trait Ends: Send + Sync {
    fn end(&self);
    fn leave_service(&self);
}

/// One slot, kept found by the server for its repeated looks: finding it takes longer than
/// looking.
#[derive(Debug)]
struct ServerSlot<'s> {
    words: &'s CallSlot,
    mark: &'s CallMark,
    message: Bytes<'s>,
}

impl<'s> ServerSlot<'s> {
    fn of(service: &'s Service, at: u32) -> Self {
        let (words, mark, message) = (service.slot(at), service.mark(at), service.message(at));
        ServerSlot { words, mark, message }
    }
}

/// Requests of a service, as one fiber looks for them: clients in turn.
struct Requests<'s> {
    service: &'s Service,
    /// The seat of the server.
    seat: u32,
    words: &'s ServiceWords,
    /// Claimed slots, as of the value of `claimed`.
    slots: Vec<ServerSlot<'s>>,
    claimed: Option<u32>,
    /// Place in `slots` of the next look.
    next: usize,
    /// Place of the last request: the same client is likely to call again.
    last: usize,
}

impl<'s> Requests<'s> {
    fn new(service: &'s Service, seat: u32) -> Self {
        let words = service.words();
        Requests { service, seat, words, slots: Vec::new(), claimed: None, next: 0, last: 0 }
    }

    /// Takes a request from one of two slots: the next in turn, then that of the last request. So
    /// a request waits at most while as many are answered as there are slots, and a look is short
    /// for any number of slots.
    #[inline]
    fn take(&mut self) -> Option<(usize, Ticket)> {
        // Acquire: pairs with the Release in `claim_slot`.
        let claimed = self.words.claimed.load(Ordering::Acquire);
        if self.claimed != Some(claimed) {
            self.look_anew(claimed);
        }
        let next = self.next;
        self.next = if next + 1 < self.slots.len() { next + 1 } else { 0 };
        if next != self.last
            && let Some(taken) = self.take_from(next)
        {
            self.last = next;
            return Some(taken);
        }
        self.take_from(self.last)
    }

    #[inline]
    fn take_from(&self, place: usize) -> Option<(usize, Ticket)> {
        let ticket = self.service.take(self.slots.get(place)?, self.seat)?;
        Some((place, ticket))
    }

    #[cold]
    fn look_anew(&mut self, claimed: u32) {
        let claims = (0..).zip(self.service.claims());
        let claimed_ones = claims.filter(|(_, claim)| is_claimed(claim)).map(|(at, _)| at);
        self.slots = claimed_ones.map(|at| ServerSlot::of(self.service, at)).collect();
        // Several servers begin at different slots.
        let first = self.seat as usize % self.slots.len().max(1);
        (self.claimed, self.next, self.last) = (Some(claimed), first, first);
    }
}

struct Serving<F> {
    service: Service,
    seat: OwnSeat,
    ends: AtomicBool,
    handler: F,
}

/// Fibers that serve on one worker.
struct ServingFibers {
    /// Idle fibers, the last to come first.
    idle: Mutex<Vec<usize>>,
    /// Idle fiber that is woken for the next request: no watch looks for the other idle fibers.
    first: AtomicUsize,
    numbers: AtomicUsize,
    /// Set while a server fiber lets other fibers run, and is back soon: idle server fibers have
    /// nothing to do.
    gives_way: AtomicBool,
}

impl Default for ServingFibers {
    fn default() -> Self {
        let (first, numbers) = (AtomicUsize::new(NO_SERVER), AtomicUsize::new(0));
        ServingFibers { idle: Mutex::default(), first, numbers, gives_way: AtomicBool::new(false) }
    }
}

impl ServingFibers {
    fn change(&self, change: impl FnOnce(&mut Vec<usize>)) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut idle);
        self.first.store(idle.last().copied().unwrap_or(NO_SERVER), Ordering::Relaxed);
    }

    /// Counts server fiber `holder` among the idle fibers while `wait` runs.
    fn rest(&self, holder: usize, wait: impl FnOnce()) {
        struct Back<'c>(&'c ServingFibers, usize);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.change(|idle| idle.retain(|&other| other != self.1));
            }
        }
        self.change(|idle| idle.push(holder));
        let _back = Back(self, holder);
        wait();
    }

    /// Returns true if `holder` is to serve a request that arrives.
    fn is_due(&self, holder: usize) -> bool {
        self.first.load(Ordering::Relaxed) == holder && !self.gives_way.load(Ordering::Relaxed)
    }

    /// Lets other fibers of the worker run.
    fn give_way(&self) {
        struct Back<'c>(&'c ServingFibers);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.gives_way.store(false, Ordering::Relaxed);
            }
        }
        self.gives_way.store(true, Ordering::Relaxed);
        let _back = Back(self);
        daiko_rt::yield_now();
    }
}

impl<F: Fn(&mut Call<'_>) + Send + Sync> Serving<F> {
    /// Runs one fiber until the server ends.
    fn run(&self, siblings: &ServingFibers) {
        let me = siblings.numbers.fetch_add(1, Ordering::Relaxed);
        let mut requests = Requests::new(&self.service, self.seat.number);
        let (mut answered, mut misses, mut served) = (false, 0, 0);
        while !self.ends() {
            // A client that runs is likely to ask again.
            let looks = if answered { wait::SOON } else { 1 };
            match wait::looks(looks, || requests.take()) {
                Some((place, ticket)) => {
                    answered = self.serve(&requests.slots[place], ticket);
                    (misses, served) = (0, served + 1);
                }
                None => {
                    // No slot has the request that was seen: a request in a slot that was
                    // claimed without an announcement would keep this fiber, and its worker, for
                    // ever.
                    if misses > requests.slots.len() {
                        (requests.claimed, misses) = (None, 0);
                        wait::give_way();
                    }
                    // Not a yield: it is over at once if a slot that was not looked at has a
                    // request.
                    self.wait(siblings, me);
                    (answered, misses) = (false, misses + 1);
                }
            }
            if served == IN_A_ROW {
                siblings.give_way();
                served = 0;
            }
        }
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed) || self.service.segment().is_truncated()
    }

    fn wait(&self, siblings: &ServingFibers, me: usize) {
        let (service, words) = (&self.service, self.service.words());
        siblings.rest(me, || {
            let due = || siblings.is_due(me) && service.has_request() || self.ends();
            let segment = service.segment();
            wait::until(segment, NotifiedBy::At(&words.servers), WAIT_KIND, Deadline::NEVER, due);
        });
    }

    /// Has one call handled; returns true if its client runs on another CPU.
    #[inline]
    fn serve(&self, slot: &ServerSlot<'_>, ticket: Ticket) -> bool {
        let service = &self.service;
        let mut call = Call { service, slot, ticket, replied: false, client_runs: false };
        let done = panic::catch_unwind(AssertUnwindSafe(|| (self.handler)(&mut call)));
        match done {
            Ok(()) => call.end(0, code::REPLIED),
            Err(payload) => {
                call.end(0, code::PANICKED);
                if payload.is::<Cancelled>() {
                    panic::resume_unwind(payload);
                }
            }
        }
        call.client_runs
    }
}

impl<F: Fn(&mut Call<'_>) + Send + Sync> Ends for Serving<F> {
    fn end(&self) {
        // An exchange, behind which the server can ring.
        self.ends.swap(true, Ordering::Release);
        self.service.segment().ring(&self.service.words().servers, None);
    }

    fn leave_service(&self) {
        self.service.leave_seat(&self.seat);
    }
}

/// A request in the hands of the handler of [`Service::serve`].
///
/// Request and reply share their memory: read first, then reply.
#[derive(Debug)]
pub struct Call<'s> {
    service: &'s Service,
    slot: &'s ServerSlot<'s>,
    ticket: Ticket,
    replied: bool,
    /// Set once it is replied to: the client was awake, and may be so on another CPU.
    client_runs: bool,
}

impl<'s> Call<'s> {
    /// Returns the bytes of the request.
    #[inline]
    pub fn request(&self) -> Bytes<'s> {
        let all = self.memory();
        all.first(self.slot.words.len(all.len() as u32) as usize)
    }

    /// Returns the value of the request.
    ///
    /// # Errors
    ///
    /// [`CallError::Size`] if the request has another size; [`CallError::Truncated`].
    #[inline]
    pub fn read<Q: AnyBitPattern>(&self) -> Result<Q, CallError> {
        self.service.read(self.request())
    }

    /// Returns how long the client waits for the reply, from the start of the call; `None`: for
    /// ever.
    pub fn timeout(&self) -> Option<Duration> {
        self.slot.words.timeout_ns().map(Duration::from_nanos)
    }

    /// Returns the memory of request and reply, of the size of a slot, for a reply that is written
    /// in place: [`reply_in_place`](Self::reply_in_place) sends it.
    #[inline]
    pub fn memory(&self) -> Bytes<'s> {
        self.slot.message
    }

    /// Replies with a value.
    ///
    /// # Panics
    ///
    /// If it does not fit into a slot, or the call was replied to before.
    #[inline]
    pub fn reply<R: NoUninit>(&mut self, reply: &R) {
        self.reply_bytes(bytemuck::bytes_of(reply));
    }

    /// Replies with bytes.
    ///
    /// # Panics
    ///
    /// As [`reply`](Self::reply).
    #[inline]
    pub fn reply_bytes(&mut self, reply: &[u8]) {
        assert!(!self.replied, "daiko: a call has one reply");
        let (memory, bytes) = (self.memory(), reply.len());
        assert!(bytes <= memory.len(), "{}", CallError::TooLarge { bytes, limit: memory.len() });
        memory.write(reply);
        self.end(bytes, code::REPLIED);
    }

    /// Replies with the first `len` bytes of the [`memory`](Self::memory).
    ///
    /// # Panics
    ///
    /// As [`reply`](Self::reply).
    pub fn reply_in_place(&mut self, len: usize) {
        assert!(!self.replied, "daiko: a call has one reply");
        let limit = self.memory().len();
        assert!(len <= limit, "{}", CallError::TooLarge { bytes: len, limit });
        self.end(len, code::REPLIED);
    }

    /// Ends the call, unless it was replied to.
    #[inline]
    fn end(&mut self, len: usize, code: u32) {
        if !std::mem::replace(&mut self.replied, true) {
            self.send(len, code);
        }
    }

    fn send(&mut self, len: usize, code: u32) {
        let slot = self.slot.words;
        let bell = slot.bell();
        match slot.reply(self.ticket, len as u32, code) {
            Delivered::CallerLeft => self.service.announce_free_slot(),
            Delivered::ToClient => {
                if let Some(bell) = bell {
                    let cpu = wait::own_bell(self.service.segment()).and_then(|me| me.cpu);
                    self.client_runs = self.service.segment().ring_bell(bell as usize, cpu);
                }
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        // A cancel unwinds the handler: at least its client is told that no reply will come.
        self.end(0, code::PANICKED);
    }
}
