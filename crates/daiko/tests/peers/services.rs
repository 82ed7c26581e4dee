//! Requests and replies between processes. Some of the processes die.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::child::{Killed, command, is_child};
use crate::support::segments::segment_name;
use crate::support::{self, assert_names, until, workers};
use daiko::shm;
use daiko::shm::{
    Call, CallError, Client, Segment, SegmentError, ServeError, Server, Service, ServiceOptions,
};
use daiko::sync::Event;
use daiko::{Runtime, SpawnError};

const LONG: Duration = Duration::from_secs(30);
/// The timeout of a call that is to end by itself.
const SHORT: Duration = Duration::from_millis(20);
const SEGMENT: &str = "DAIKO_TEST_SEGMENT";

/// A segment with a service, removed at the end.
struct Place {
    segment: Segment,
    service: Service,
}

impl Place {
    fn new(name: &str) -> Place {
        Self::with(name, Service::options())
    }

    fn with(name: &str, options: ServiceOptions) -> Place {
        let segment = Segment::create(segment_name(name), 1 << 20).unwrap();
        let service = Service::create(&segment, "service", options).unwrap();
        Place { segment, service }
    }

    fn client(&self) -> Client {
        Client::of(self.service.clone())
    }

    /// Serves with so many fibers, none of which replies before the gate is open.
    fn serve_behind_gate(&self, runtime: &Runtime, fibers: usize) -> Gate {
        let (opens, taken) = (Arc::new(Event::manual()), Arc::new(AtomicUsize::new(0)));
        let (opened, takes) = (opens.clone(), taken.clone());
        let handler = move |call: &mut Call<'_>| {
            takes.fetch_add(1, Ordering::Relaxed);
            opened.wait();
            call.reply(&7u8);
        };
        let server = self.service.serve_on(runtime, fibers, handler).unwrap();
        Gate { opens, taken, _server: server }
    }

    /// Runs the test of this `name` in a child, which finds the segment by [`theirs`].
    fn child(&self, name: &str) -> Killed {
        Killed(
            command(name).env(SEGMENT, self.segment.path()).stdout(Stdio::null()).spawn().unwrap(),
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.segment.remove().unwrap();
    }
}

/// Keeps the calls in hand of a server waiting. Dropping it opens it, as the server waits for these
/// calls: otherwise a test that fails would never end.
struct Gate {
    opens: Arc<Event>,
    taken: Arc<AtomicUsize>,
    _server: Server,
}

impl Gate {
    fn open(&self) {
        self.opens.set();
    }

    /// Waits until so many calls were taken.
    fn has_taken(&self, calls: usize) {
        until("calls in hand", || self.taken.load(Ordering::Relaxed) >= calls);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// Opens the segment of the parent, in a child.
fn theirs() -> Segment {
    Segment::open(std::env::var_os(SEGMENT).unwrap()).unwrap()
}

/// Serves doubles, in a child.
fn serve_doubles() -> ! {
    let segment = theirs();
    let runtime = workers(1);
    let service = Service::open(&segment, "service").unwrap();
    let double = |call: &mut Call<'_>| call.reply(&(2 * call.read::<u64>().unwrap()));
    service.serve_on(&runtime, 2, double).unwrap().join();
    unreachable!("the server is never ended");
}

fn ask(client: &Client, number: u64) -> Result<u64, CallError> {
    client.call_timeout(&number, LONG)?.read()
}

#[test]
fn fibers_of_two_processes_talk() {
    const NAME: &str = "services::fibers_of_two_processes_talk";
    if is_child() {
        serve_doubles();
    }
    let place = Place::new("talk");
    let _server = place.child(NAME);
    until("a server", || place.service.is_served());
    let client = Arc::new(place.client());
    let runtime = workers(2);
    let fibers: Vec<_> = (0..100)
        .map(|who| {
            let client = client.clone();
            runtime.spawn(move || {
                (0..50).for_each(|i| assert_eq!(ask(&client, who * i).unwrap(), 2 * who * i));
            })
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    // A thread calls as well.
    (0..50).for_each(|i| assert_eq!(ask(&client, i).unwrap(), 2 * i));
}

#[test]
fn clients_of_a_killed_server_are_told_and_go_on_with_the_next() {
    const NAME: &str = "services::clients_of_a_killed_server_are_told_and_go_on_with_the_next";
    if is_child() {
        serve_doubles();
    }
    let place = Place::new("killed");
    let client = place.client();
    let runtime = workers(1);
    assert!(matches!(ask(&client, 1), Err(CallError::NotServed)));
    let asked = AtomicUsize::new(0);
    runtime.scope(|s| {
        for _ in 0..5 {
            let server = place.child(NAME);
            until("a server", || place.service.is_served());
            asked.store(0, Ordering::Relaxed);
            let fiber = s.spawn(|| {
                loop {
                    match ask(&client, 3) {
                        Ok(answer) => assert_eq!(answer, 6),
                        Err(error) => return error,
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
            until("calls", || asked.load(Ordering::Relaxed) > 100);
            drop(server);
            let error = fiber.join().unwrap();
            assert!(matches!(error, CallError::ServerDied | CallError::NotServed), "{error:?}");
            until("the death is seen", || !place.service.is_served());
        }
    });
}

/// Takes calls, and never replies.
fn serve_nothing() -> ! {
    let segment = theirs();
    let runtime = workers(1);
    let service = Service::open(&segment, "service").unwrap();
    service.serve_on(&runtime, 1, |_| daiko::park()).unwrap().join();
    unreachable!("the server is never ended");
}

#[test]
fn a_call_in_hand_of_a_killed_server_is_lost_at_once() {
    const NAME: &str = "services::a_call_in_hand_of_a_killed_server_is_lost_at_once";
    if is_child() {
        serve_nothing();
    }
    let place = Place::new("in-hand");
    let runtime = workers(1);
    let server = place.child(NAME);
    until("a server", || place.service.is_served());
    let client = Arc::new(place.client());
    let waits = {
        let client = client.clone();
        runtime.spawn(move || client.call(&1u64).map(|_| ()))
    };
    let blocks = {
        let client = client.clone();
        std::thread::spawn(move || client.call(&1u64).map(|_| ()))
    };
    // The serving child has one call in hand once another call is not taken.
    until("a call in hand", || {
        let call = client.call_timeout(&0u64, Duration::from_millis(10));
        matches!(call.map(drop), Err(CallError::TimedOut { taken: false }))
    });
    drop(server);
    for outcome in [waits.join().unwrap(), blocks.join().unwrap()] {
        assert!(
            matches!(outcome, Err(CallError::ServerDied | CallError::NotServed)),
            "{outcome:?}"
        );
    }
}

/// Leaves a call in the hand of the server.
fn leave_one_in_hand(client: &Client) {
    until("a call that is taken in time", || match client.call_timeout(&0u8, SHORT).map(drop) {
        Err(CallError::TimedOut { taken }) => taken,
        other => panic!("{other:?}"),
    });
}

#[test]
fn deadlines_are_kept_and_slots_come_back() {
    let place = Place::with("deadlines", Service::options().slots(2));
    let runtime = workers(1);
    let gate = place.serve_behind_gate(&runtime, 3);
    let client = place.client();
    (0..2).for_each(|_| leave_one_in_hand(&client));
    let third = client.call_timeout(&0u8, SHORT).map(drop);
    assert!(matches!(third, Err(CallError::TimedOut { taken: false })), "it waits for a slot");
    gate.open();
    for _ in 0..10 {
        assert_eq!(client.call_timeout(&1u8, LONG).unwrap().read::<u8>().unwrap(), 7);
    }
    drop(gate);
    assert!(matches!(ask(&client, 1), Err(CallError::NotServed)));
}

#[test]
fn a_service_is_served_once_and_again_after_its_end() {
    let place = Place::new("once");
    let runtime = workers(1);
    let serve = || place.service.serve_on(&runtime, 1, |call| call.reply(&1u8));
    let server = serve().unwrap();
    assert!(matches!(serve(), Err(ServeError::Served)));
    let other = Segment::open(place.segment.path()).unwrap();
    let elsewhere = Service::open(&other, "service").unwrap();
    assert!(matches!(elsewhere.serve_on(&runtime, 1, |_| ()), Err(ServeError::Served)));
    drop(server);
    drop(elsewhere.serve_on(&runtime, 1, |_| ()).unwrap());
    drop(serve().unwrap());
}

/// Shares the service, by one fiber. The reply is the id of the process. For a request 0 the id is
/// stored in the mutex, and no reply comes.
fn share() -> ! {
    let segment = theirs();
    let runtime = workers(1);
    let service = Service::open(&segment, "service").unwrap();
    let who = shm::Mutex::<u64>::open(&segment, "who").unwrap();
    let me = u64::from(std::process::id());
    let handler = move |call: &mut Call<'_>| match call.read::<u64>() {
        Ok(0) => {
            *who.lock().unwrap() = me;
            daiko::park();
        }
        _ => call.reply(&me),
    };
    Server::builder(&service).shared().on(&runtime).serve(handler).unwrap().join();
    unreachable!("the server is never ended");
}

#[test]
fn of_several_servers_one_is_killed_and_the_others_serve_on() {
    const NAME: &str = "services::of_several_servers_one_is_killed_and_the_others_serve_on";
    if is_child() {
        share();
    }
    let place = Place::with("shared", Service::options().slots(8).slots_per_client(8));
    let who = shm::Mutex::create(&place.segment, "who", 0u64).unwrap();
    let client = place.client();
    let servers = |count| until("servers", || place.service.server_count() == count);
    let hangs = || {
        until("a call in hand", || *who.lock().unwrap() != 0);
        std::mem::take(&mut *who.lock().unwrap())
    };
    let hang = || client.call_timeout(&0u64, LONG).map(drop);
    let is_lost = |outcome| matches!(outcome, Err(CallError::ServerDied));
    let mut processes: Vec<_> = (0..2).map(|_| place.child(NAME)).collect();
    let mut kill = |victim: u64| processes.retain(|process| u64::from(process.0.id()) != victim);
    servers(2);
    let runtime = workers(1);
    let alone = place.service.serve_on(&runtime, 1, |_| ());
    assert!(matches!(alone, Err(ServeError::Served)), "they share it");
    std::thread::scope(|s| {
        let first = s.spawn(hang);
        let victim = hangs();
        let other = ask(&client, 1).unwrap();
        assert_ne!(other, victim);
        (0..100).for_each(|_| assert_eq!(ask(&client, 1).unwrap(), other, "the other is busy"));
        kill(victim);
        assert!(is_lost(first.join().unwrap()));
        (0..100).for_each(|_| assert_eq!(ask(&client, 1).unwrap(), other));
        servers(1);

        // The other one is busy as well now: a third takes the call that was not begun.
        let second = s.spawn(hang);
        assert_eq!(hangs(), other);
        let waits = s.spawn(|| ask(&client, 1));
        let third = place.child(NAME);
        assert_eq!(waits.join().unwrap().unwrap(), u64::from(third.0.id()));
        kill(other);
        assert!(is_lost(second.join().unwrap()));
        assert_eq!(ask(&client, 1).unwrap(), u64::from(third.0.id()));
        drop(third);
        until("no server", || matches!(ask(&client, 1), Err(CallError::NotServed)));
    });
}

/// Takes calls, counts them, and replies once the event allows it.
fn serve_when_told() -> ! {
    let segment = theirs();
    let runtime = workers(1);
    let service = Service::open(&segment, "service").unwrap();
    let taken = shm::Mutex::<u64>::open(&segment, "taken").unwrap();
    let may = shm::Event::open(&segment, "may").unwrap();
    let handler = move |call: &mut Call<'_>| {
        *taken.lock().unwrap() += 1;
        may.wait();
        call.reply(&7u8);
    };
    service.serve_on(&runtime, 4, handler).unwrap().join();
    unreachable!("the server is never ended");
}

#[test]
fn deadlines_are_kept_though_the_server_is_stopped_in_mid_call() {
    const NAME: &str = "services::deadlines_are_kept_though_the_server_is_stopped_in_mid_call";
    if is_child() {
        serve_when_told();
    }
    let place = Place::with("stopped", Service::options().slots(8).slots_per_client(8));
    let taken = shm::Mutex::create(&place.segment, "taken", 0u64).unwrap();
    let may = shm::Event::create(&place.segment, "may").unwrap();
    let server = place.child(NAME);
    until("a server", || place.service.is_served());
    let (client, runtime) = (place.client(), workers(1));
    let call = |timeout| client.call_timeout(&0u8, timeout)?.read::<u8>();
    runtime.scope(|fibers| {
        std::thread::scope(|threads| {
            let waits = [fibers.spawn(|| call(LONG)), fibers.spawn(|| call(LONG))];
            let blocks = threads.spawn(|| call(LONG));
            let leaves = threads.spawn(|| leave_one_in_hand(&client));
            until("four calls in hand", || *taken.lock().unwrap() >= 4);
            server.stop();
            // The server may be at any point: the calls in its hand stay there, and it takes no
            // further call.
            leaves.join().unwrap();
            assert!(matches!(call(SHORT), Err(CallError::TimedOut { taken: false })));
            assert!(place.service.is_served(), "it is not dead");
            may.set();
            assert!(matches!(call(SHORT), Err(CallError::TimedOut { taken: false })));
            server.go_on();
            waits.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap().unwrap(), 7));
            assert_eq!(blocks.join().unwrap().unwrap(), 7);
        });
    });
    (0..10).for_each(|_| assert_eq!(call(LONG).unwrap(), 7));
}

#[test]
fn a_full_segment_has_no_room_for_another_service() {
    let place = Place::new("full");
    let options = Service::options().slots(4096).slot_bytes(1000);
    let error = Service::create(&place.segment, "another", options).unwrap_err();
    assert!(matches!(error, SegmentError::NoRoom { bytes, .. } if bytes == options.bytes()));
    assert_names(&error, "create it larger");
    let runtime = workers(1);
    let _server = place.service.serve_on(&runtime, 1, |call| call.reply(&7u8)).unwrap();
    assert_eq!(place.client().call_timeout(&1u8, LONG).unwrap().read::<u8>().unwrap(), 7);
}

#[test]
fn a_service_that_there_cannot_be_is_refused() {
    let place = Place::new("impossible");
    let usual = Service::options;
    for options in [
        usual().slots(0),
        usual().slots(4097),
        usual().slots(u32::MAX),
        usual().slots_per_client(0),
        usual().slots_per_client(65),
        usual().slot_bytes(u32::MAX),
    ] {
        for made in [
            Service::create(&place.segment, "another", options),
            Service::open_or_create(&place.segment, "service", options),
        ] {
            let error = made.unwrap_err();
            assert!(matches!(error, SegmentError::Impossible { .. }), "{error:?}");
            assert_names(&error, "choose 1 to 4096 slots");
        }
    }
    assert_eq!(place.segment.objects(), ["service"]);
}

#[test]
fn a_waiter_for_a_server_is_told_when_there_is_one() {
    const NAME: &str = "services::a_waiter_for_a_server_is_told_when_there_is_one";
    if is_child() {
        serve_doubles();
    }
    let place = Place::new("served");
    let (client, runtime) = (place.client(), workers(1));
    let is_late = |error| matches!(error, CallError::TimedOut { taken: false });
    for _ in 0..3 {
        assert!(is_late(client.wait_served(Some(SHORT)).unwrap_err()));
        runtime.scope(|fibers| {
            std::thread::scope(|threads| {
                let waits = fibers.spawn(|| client.wait_served(Some(LONG)));
                let blocks = threads.spawn(|| client.wait_served(Some(LONG)));
                until_one_waits_for_room(&place.segment);
                let _server = place.child(NAME);
                waits.join().unwrap().unwrap();
                blocks.join().unwrap().unwrap();
                client.wait_served(Some(Duration::ZERO)).unwrap();
                assert_eq!(ask(&client, 3).unwrap(), 6);
            });
        });
        // The server was killed, which is reported, too.
        until("the death is seen", || !place.service.is_served());
    }
    drop(place.service.serve_on(&runtime, 1, |_| ()).unwrap());
    assert!(is_late(client.wait_served(Some(Duration::ZERO)).unwrap_err()));
}

#[test]
fn errors_tell_whether_a_call_may_be_repeated() {
    use CallError as E;
    for error in [E::TimedOut { taken: false }, E::NotServed, E::TooLarge { bytes: 2, limit: 1 }] {
        assert!(error.was_not_carried_out(), "{error}");
    }
    let size = E::Size { expected: 2, found: 1 };
    for error in
        [E::TimedOut { taken: true }, E::ServerDied, E::Panicked, size, E::Truncated, E::Corrupt]
    {
        assert!(!error.was_not_carried_out(), "{error}");
    }
}

#[test]
fn a_handler_that_panics_is_reported_and_serves_on() {
    let place = Place::new("panic");
    let runtime = workers(1);
    let handler = |call: &mut Call<'_>| {
        assert_ne!(call.read::<u64>().unwrap(), 3, "not three");
        call.reply(&1u64);
    };
    let _server = place.service.serve_on(&runtime, 1, handler).unwrap();
    let client = place.client();
    for i in 0..6 {
        let answer = ask(&client, i);
        assert!(if i == 3 { matches!(answer, Err(CallError::Panicked)) } else { answer.is_ok() });
    }
}

#[test]
fn messages_have_any_size_up_to_that_of_a_slot() {
    let place = Place::with("sizes", Service::options().slot_bytes(1000));
    let runtime = workers(1);
    let reverse = |call: &mut Call<'_>| {
        let mut bytes = call.request().to_vec();
        bytes.reverse();
        call.reply_bytes(&bytes);
    };
    let _server = place.service.serve_on(&runtime, 1, reverse).unwrap();
    let client = place.client();
    for len in [0, 1, 7, 40, 41, 999, 1000] {
        let request: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let reply = client.call_bytes(&request, Some(LONG)).unwrap().to_vec();
        assert!(reply.iter().rev().eq(&request), "{len}");
    }
    let error = client.call_bytes(&[0; 1001], None).map(drop).unwrap_err();
    assert!(matches!(error, CallError::TooLarge { bytes: 1001, limit: 1000 }));
    let reply = client.call(&[1u8; 3]).unwrap();
    assert!(matches!(reply.read::<u64>(), Err(CallError::Size { expected: 8, found: 3 })));
    // Writes the request in place.
    let draft = client.draft(Some(LONG)).unwrap();
    draft.bytes().write(b"abc");
    assert_eq!(draft.call(3).unwrap().to_vec(), b"cba");
}

#[test]
fn a_client_that_is_cancelled_leaves_its_call() {
    let place = Place::with("cancel", Service::options().slots(1));
    let runtime = workers(1);
    let gate = place.serve_behind_gate(&runtime, 2);
    let client = Arc::new(place.client());
    let fiber = {
        let client = client.clone();
        runtime.spawn(move || drop(client.call(&1u8)))
    };
    gate.has_taken(1);
    fiber.cancel();
    assert!(fiber.join().is_err());
    gate.open();
    assert_eq!(client.call_timeout(&1u8, LONG).unwrap().read::<u8>().unwrap(), 7);
}

/// Calls for ever, until it is killed.
fn call_for_ever() -> ! {
    let client = Client::connect(&theirs(), "service").unwrap();
    workers(1).run(move || {
        loop {
            let _ = client.call(&1u64);
        }
    })
}

#[test]
fn killed_clients_leave_their_slots_to_others() {
    const NAME: &str = "services::killed_clients_leave_their_slots_to_others";
    if is_child() {
        call_for_ever();
    }
    let place = Place::with("clients", Service::options().slots(2));
    let runtime = workers(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let serve = move |call: &mut Call<'_>| {
        counted.fetch_add(1, Ordering::Relaxed);
        call.reply(&(2 * call.read::<u64>().unwrap()));
    };
    let _server = place.service.serve_on(&runtime, 2, serve).unwrap();
    for _ in 0..5 {
        let clients = [(); 2].map(|()| place.child(NAME));
        let before = calls.load(Ordering::Relaxed);
        until("calls", || calls.load(Ordering::Relaxed) > before + 100);
        drop(clients);
    }
    let client = place.client();
    (0..10).for_each(|i| assert_eq!(ask(&client, i).unwrap(), 2 * i));
}

/// Calls once, in a child, and waits for the reply for ever.
fn call_once() -> ! {
    let _ = Client::connect(&theirs(), "service").unwrap().call(&1u64);
    unreachable!("it is killed");
}

#[test]
fn a_slot_of_a_client_killed_in_mid_call_is_free_once_the_server_ends_with_it() {
    const NAME: &str =
        "services::a_slot_of_a_client_killed_in_mid_call_is_free_once_the_server_ends_with_it";
    if is_child() {
        call_once();
    }
    let place = Place::with("mid-call", Service::options().slots(1));
    // One worker serves all: a waiting fiber must not keep it.
    let runtime = workers(1);
    let gate = place.serve_behind_gate(&runtime, 2);
    let child = place.child(NAME);
    gate.has_taken(1);
    let client = Arc::new(place.client());
    let waiting = [(); 3].map(|()| {
        let client = client.clone();
        runtime.spawn(move || client.call_timeout(&1u64, LONG).unwrap().read::<u8>().unwrap())
    });
    drop(child);
    until("the death is seen", || place.segment.attached().len() == 1);
    let timed_out = client.call_timeout(&1u64, SHORT).map(drop);
    assert!(matches!(timed_out, Err(CallError::TimedOut { taken: false })), "{timed_out:?}");
    gate.open();
    waiting.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), 7));
}

/// Takes all slots, in a child, and keeps them.
fn keep_all_slots() -> ! {
    let client = Client::connect(&theirs(), "service").unwrap();
    let _drafts: Vec<_> = (0..2).map(|_| client.draft(None).unwrap()).collect();
    shm::Event::open(&theirs(), "kept").unwrap().set();
    loop {
        std::thread::park();
    }
}

/// Each fiber calls until every fiber has had an answer, so a call that is always overtaken would
/// stop the test.
#[test]
fn calls_that_wait_for_a_slot_are_not_overtaken() {
    const FIBERS: usize = 16;
    let place = Place::with("turns", Service::options().slots(4));
    let runtime = workers(1);
    let _server = place.service.serve_on(&runtime, 1, |call| call.reply(&1u8)).unwrap();
    let (client, answered) = (place.client(), AtomicUsize::new(0));
    runtime.scope(|s| {
        for _ in 0..FIBERS {
            s.spawn(|| {
                let ask = || {
                    assert_eq!(client.call_timeout(&0u8, LONG).unwrap().read::<u8>().unwrap(), 1)
                };
                ask();
                answered.fetch_add(1, Ordering::Relaxed);
                while answered.load(Ordering::Relaxed) < FIBERS {
                    ask();
                }
            });
        }
    });
}

#[test]
fn a_client_of_many_fibers_leaves_slots_to_others() {
    let place = Place::with("share", Service::options().slots(32));
    let runtime = workers(1);
    let (greedy, modest) = (place.client(), place.client());
    let gate = Arc::new(Event::manual());
    let opened = gate.clone();
    let taken = Arc::new(AtomicUsize::new(0));
    let takes = taken.clone();
    let _server = place.service.serve_on(&runtime, 33, move |call| {
        takes.fetch_add(1, Ordering::Relaxed);
        if call.read::<u8>().unwrap() == 0 {
            opened.wait();
        }
    });
    runtime.scope(|s| {
        let _opens = support::OnDrop(|| gate.set());
        for _ in 0..100 {
            s.spawn(|| drop(greedy.call_timeout(&0u8, LONG).unwrap()));
        }
        until("its share is in use", || taken.load(Ordering::Relaxed) == 2);
        drop(modest.call_timeout(&1u8, LONG).unwrap());
        assert_eq!(taken.load(Ordering::Relaxed), 3);
    });
}

/// The memory of the service, as a peer process may access it.
fn raw_service(segment: &Segment) -> daiko_ipc::Object {
    // SAFETY: the words that tests access there are accessed as such by the service as well.
    unsafe { segment.object("service", "a service", |_| Ok(())) }.unwrap()
}

/// Waits until a client waits for a slot of the service.
fn until_one_waits_for_room(segment: &Segment) {
    /// The offset of the listeners that wait for a slot.
    const WAITING: usize = 16;
    let service = raw_service(segment);
    until("a waiter for a slot", || service.at::<AtomicU64>(WAITING).load(Ordering::Relaxed) != 0);
}

#[test]
fn a_waiter_for_its_clients_slots_gets_a_slot_that_comes_free_in_the_service() {
    let place = Place::with("either", Service::options().slots(2).slots_per_client(2));
    let runtime = workers(1);
    let gate = place.serve_behind_gate(&runtime, 3);
    let (client, other) = (place.client(), place.client());
    // A slot that a client has used stays with the client as long as it is attached.
    drop(other.draft(None).unwrap());
    runtime.scope(|fibers| {
        std::thread::scope(|threads| {
            let ask = || client.call_timeout(&0u8, LONG).unwrap().read::<u8>().unwrap();
            let first = fibers.spawn(ask);
            gate.has_taken(1);
            let second = threads.spawn(ask);
            until_one_waits_for_room(&place.segment);
            let third = fibers.spawn(ask);
            drop(other);
            gate.has_taken(2);
            gate.open();
            assert_eq!(
                [first.join().unwrap(), second.join().unwrap(), third.join().unwrap()],
                [7; 3]
            );
        });
    });
}

/// Threads and fibers sleep for a slot of the service.
#[test]
fn a_client_that_could_have_more_slots_goes_on_with_its_slots() {
    const EACH: usize = 200;
    let place = Place::with("few", Service::options().slots(2).slots_per_client(2));
    let (runtime, serving) = (workers(1), workers(1));
    let _server = place.service.serve_on(&serving, 1, |call| call.reply(&1u8)).unwrap();
    let (client, other) = (place.client(), place.client());
    drop(other.draft(None).unwrap());
    let asks = || {
        for at in 0..EACH {
            // Some callers leave while they wait.
            let timeout = if at % 7 == 0 { Duration::ZERO } else { LONG };
            match client.call_timeout(&0u8, timeout).map(drop) {
                Ok(()) => {}
                Err(CallError::TimedOut { .. }) if timeout.is_zero() => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    runtime.scope(|fibers| {
        std::thread::scope(|threads| {
            for _ in 0..3 {
                threads.spawn(asks);
                fibers.spawn(asks);
            }
        });
    });
}

#[test]
fn a_slot_of_a_client_that_came_during_the_wait_and_died_is_free() {
    const NAME: &str = "services::a_slot_of_a_client_that_came_during_the_wait_and_died_is_free";
    if is_child() {
        // Claims a slot that another client had, and rings no doorbell: the claimer dies before.
        let segment = theirs();
        let service = raw_service(&segment);
        service.at::<AtomicU64>(256).store(segment.me().bits(), Ordering::Relaxed);
        std::process::abort();
    }
    let place = Place::with("late", Service::options().slots(1));
    let runtime = workers(1);
    let _server = place.service.serve_on(&runtime, 1, |call| call.reply(&1u8)).unwrap();
    let (client, other) = (Arc::new(place.client()), place.client());
    drop(other.draft(None).unwrap());
    let waits = runtime.spawn(move || client.call_timeout(&0u8, LONG).map(drop));
    until_one_waits_for_room(&place.segment);
    let _child = place.child(NAME);
    assert!(waits.join().unwrap().is_ok());
}

/// All clients have asked before the first reply. So there is always a request to answer next,
/// though not at the first look: every other slot belongs to a client that asks nothing.
#[test]
fn a_server_with_requests_without_end_gives_way_to_its_neighbours() {
    const CLIENTS: usize = 32;
    let place = Place::with("gives-way", Service::options().slots_per_client(CLIENTS as u32));
    let (server, clients) = (workers(1), workers(1));
    let [all_ask, begun, there] = [(); 3].map(|()| Arc::new(Event::manual()));
    let (asked, answered) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let answered_before = Arc::new(AtomicUsize::new(usize::MAX));
    let (ask, counted, noted) = (all_ask.clone(), answered.clone(), answered_before.clone());
    let (begins, neighbour_there) = (begun.clone(), there.clone());
    let served = place.service.serve_on(&server, 1, move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            ask.wait();
            begins.set();
        }
    });
    let _server = served.unwrap();
    let neighbour = server.spawn(move || {
        neighbour_there.set();
        begun.wait();
        noted.store(answered.load(Ordering::Relaxed), Ordering::Relaxed);
    });
    // The server does not look at each turn for a fiber that has not started.
    there.wait();
    let (client, silent) = (place.client(), place.client());
    let claims = || (client.draft(None).unwrap(), silent.draft(None).unwrap());
    drop((0..CLIENTS).map(|_| claims()).collect::<Vec<_>>());
    clients.scope(|s| {
        for _ in 0..CLIENTS {
            s.spawn(|| {
                // All other clients have suspended in their calls before this fiber runs.
                if asked.fetch_add(1, Ordering::Relaxed) + 1 == CLIENTS {
                    all_ask.set();
                }
                drop(client.call_timeout(&0u8, LONG).unwrap());
            });
        }
    });
    neighbour.join().unwrap();
    let before = answered_before.load(Ordering::Relaxed);
    assert!(before < CLIENTS * 3 / 4, "{before} calls in a row");
}

#[test]
fn a_waiter_for_a_slot_of_an_ending_service_is_told() {
    const NAME: &str = "services::a_waiter_for_a_slot_of_an_ending_service_is_told";
    if is_child() {
        keep_all_slots();
    }
    let place = Place::with("no-room", Service::options().slots(2).slots_per_client(2));
    let runtime = workers(1);
    let server = place.service.serve_on(&runtime, 1, |call| call.reply(&1u8)).unwrap();
    let kept = shm::Event::create(&place.segment, "kept").unwrap();
    let _child = place.child(NAME);
    let client = Arc::new(place.client());
    kept.wait();
    let waits = {
        let client = client.clone();
        runtime.spawn(move || client.call(&1u64).map(drop))
    };
    let blocks = {
        let client = client.clone();
        std::thread::spawn(move || client.call(&1u64).map(drop))
    };
    drop(server);
    for outcome in [waits.join().unwrap(), blocks.join().unwrap()] {
        assert!(matches!(outcome, Err(CallError::NotServed)), "{outcome:?}");
    }
}

#[test]
fn errors_are_one_line_that_names_the_remedy() {
    use CallError as E;
    for (error, remedy) in [
        (E::TimedOut { taken: true }, "it may yet be carried out"),
        (E::TimedOut { taken: false }, "it will not be carried out"),
        (E::NotServed, "start its server"),
        (E::ServerDied, "call again"),
        (E::Panicked, "see its standard error"),
        (E::TooLarge { bytes: 2, limit: 1 }, "larger slots"),
        (E::Size { expected: 2, found: 1 }, "with the same types"),
        (E::Truncated, "remove it and create it anew"),
        (E::Corrupt, "create it anew"),
    ] {
        assert_names(&error, remedy);
    }
    assert_names(&ServeError::Served, "end that server first");
    assert_names(&ServeError::Full, "end one of them first");
    let truncated = SegmentError::Truncated { path: "x".into() };
    assert_names(&ServeError::Segment(truncated), "end all its users");
    assert_names(&ServeError::Spawn(SpawnError::ShuttingDown), "spawn before");
}
