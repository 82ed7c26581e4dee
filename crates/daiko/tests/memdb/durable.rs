//! The program with a log: acknowledged transactions are there after any end, each as a whole, and
//! transactions that cannot be logged are refused.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, thread};

use super::place::LogFolder;
use super::program::{Connection, FEW, Program, assert_fails, program};
use super::random::SeededRandom;
use super::request::{DbRequest, NewOrder, Payment, Reply, RequestedLine};
use super::support::child::emulated::LinuxPart;
use super::support::child::stderr;
use super::support::disk::{limited, on_small_tmpfs, unlimited, without_fdatasync};
use super::support::until;

const POLICIES: [&str; 3] = ["always", "everysec", "no"];
const CUSTOMERS: u32 = 30;
const WAREHOUSES: u32 = 2;
/// The orders that a district of so many customers keeps.
const KEPT: u32 = 64;

/// Returns the command of a server with this log.
fn logged(path: &Path, fsync: &str) -> Command {
    let mut command = program(&["serve", "--tcp", "127.0.0.1:0", "--fsync", fsync, "--log"]);
    command.arg(path).args(FEW).stderr(Stdio::null());
    command
}

/// A customer, as the server must show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shown {
    paid: u64,
    payments: u64,
    orders: u64,
    last_order: u32,
    lines: Vec<RequestedLine>,
}

/// The customers of a district, which one client has for itself, and the requests without a reply.
/// Other clients order from the stock of the same warehouses, and deliver.
struct Oracle {
    district: u32,
    customers: Vec<Shown>,
    next_order: u32,
    asked: Vec<DbRequest>,
}

impl Oracle {
    /// Takes the first state from a server.
    fn new(district: u32, connection: &mut Connection) -> Oracle {
        let customers = Oracle::shown(district, connection);
        Oracle { district, customers, next_order: CUSTOMERS + 1, asked: Vec::new() }
    }

    fn shown(district: u32, connection: &mut Connection) -> Vec<Shown> {
        let show = |customer| {
            let request = DbRequest::OrderStatus { warehouse: 1, district, customer };
            let reply = connection.ask(request);
            let Reply::Status(status) = reply else { panic!("{reply:?}") };
            let super::request::CustomerStatus {
                paid, payments, orders, last_order, lines, ..
            } = status;
            Shown { paid, payments, orders, last_order, lines }
        };
        (1..=CUSTOMERS).map(show).collect()
    }

    fn draw(&self, random: &mut SeededRandom) -> DbRequest {
        let customer = random.within(1, CUSTOMERS);
        match random.within(0, 9) {
            0 => DbRequest::Delivery { warehouse: 1, carrier: random.within(1, 10) },
            1..=5 => {
                let mut order = NewOrder::new(1, self.district, customer);
                for _ in 0..random.within(1, 15) {
                    order.add(RequestedLine {
                        item: random.within(1, 200),
                        supplier: random.within(1, WAREHOUSES),
                        quantity: random.within(1, 10),
                    });
                }
                DbRequest::NewOrder(order)
            }
            _ => DbRequest::Payment(Payment {
                warehouse: random.within(1, WAREHOUSES),
                district: random.within(1, 10),
                customer_warehouse: 1,
                customer_district: self.district,
                customer,
                amount: random.within(1, 1000).into(),
            }),
        }
    }

    /// Does to the customers as the server does. Returns the number of an order.
    fn apply(&mut self, request: &DbRequest) -> u32 {
        match request {
            DbRequest::NewOrder(order) => {
                let number = self.next_order;
                self.next_order += 1;
                let shown = &mut self.customers[order.customer as usize - 1];
                shown.orders += 1;
                shown.last_order = number;
                shown.lines = order.lines().to_vec();
                return number;
            }
            DbRequest::Payment(payment) => {
                let shown = &mut self.customers[payment.customer as usize - 1];
                shown.paid += payment.amount;
                shown.payments += 1;
            }
            _ => {}
        }
        0
    }

    /// Notes a reply to the oldest request without one.
    fn note(&mut self, reply: &Reply) {
        let request = self.asked.remove(0);
        match reply {
            Reply::Refused(super::request::Refusal::Full) => {}
            Reply::Ordered { order, .. } => assert_eq!(*order, self.apply(&request)),
            Reply::Paid { .. } => drop(self.apply(&request)),
            Reply::Delivered { .. } => {}
            other => panic!("{other:?} to {request:?}"),
        }
    }

    /// Sends requests, some at a time, until the server is gone.
    fn load(&mut self, mut connection: Connection, seed: u64, acknowledged: &AtomicU64) {
        let mut random = SeededRandom::new(seed ^ u64::from(self.district) << 32);
        loop {
            let requests: Vec<_> =
                (0..random.within(1, 8)).map(|_| self.draw(&mut random)).collect();
            self.asked.extend(&requests);
            if connection.send(&requests).is_err() {
                return;
            }
            for _ in 0..requests.len() {
                let Ok(reply) = connection.reply() else { return };
                self.note(&reply);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Checks that the server has all acknowledged requests, and the first without a reply.
    fn check(&mut self, connection: &mut Connection) {
        let found = Oracle::shown(self.district, connection);
        // An order without a reply may have been refused, as the district was full.
        for request in std::mem::take(&mut self.asked) {
            if found == self.expected() {
                break;
            }
            let before = (self.customers.clone(), self.next_order);
            self.apply(&request);
            if let DbRequest::NewOrder(order) = request {
                let at = order.customer as usize - 1;
                if found[at].orders < self.customers[at].orders {
                    (self.customers, self.next_order) = before;
                }
            }
        }
        let expected = self.expected();
        let differing: Vec<_> =
            found.iter().zip(&expected).filter(|(found, expected)| found != expected).collect();
        assert!(differing.is_empty(), "found and expected: {differing:#?}");
    }

    /// Returns the customers as they are shown. The district keeps the last 64 orders.
    fn expected(&self) -> Vec<Shown> {
        let mut expected = self.customers.clone();
        for shown in &mut expected {
            if shown.last_order + KEPT < self.next_order {
                shown.lines.clear();
            }
        }
        expected
    }
}

const CLIENTS: u32 = 4;
const ROUNDS: u64 = 8;

/// Loads servers of one log and kills them, again and again.
fn kill_often(fsync: &str) {
    let folder = LogFolder::new();
    let mut oracles = Vec::new();
    let (mut random, mut acknowledged_at_all) = (SeededRandom::new(7), 0);
    let check = |server: &Program, oracles: &mut Vec<Oracle>| {
        let mut connection = server.connect();
        if oracles.is_empty() {
            oracles.extend((1..=CLIENTS).map(|district| Oracle::new(district, &mut connection)));
        }
        oracles.iter_mut().for_each(|oracle| oracle.check(&mut connection));
        assert_eq!(connection.ask(DbRequest::Check), Reply::Consistent);
    };
    for round in 0..ROUNDS {
        let server = Program::of(logged(&folder.path, fsync), 1);
        check(&server, &mut oracles);
        let (acknowledged, enough) = (AtomicU64::new(0), u64::from(random.within(0, 600)));
        thread::scope(|scope| {
            for oracle in &mut oracles {
                let connection = server.connect();
                scope.spawn(|| oracle.load(connection, round, &acknowledged));
            }
            until("acknowledged requests", || acknowledged.load(Ordering::Relaxed) >= enough);
            server.child.send(libc::SIGKILL);
        });
        acknowledged_at_all += acknowledged.into_inner();
    }
    let server = Program::of(logged(&folder.path, fsync), 1);
    check(&server, &mut oracles);
    assert!(acknowledged_at_all > 0);
    println!("{fsync}: {acknowledged_at_all} acknowledged");
}

#[test]
fn acknowledged_transactions_are_there_after_a_kill_if_each_write_is_synchronised() {
    kill_often("always");
}

#[test]
fn acknowledged_transactions_are_there_after_a_kill_if_they_were_only_written() {
    kill_often("everysec");
    kill_often("no");
}

#[test]
fn a_log_has_one_server_and_is_checked_without_one() {
    let folder = LogFolder::new();
    let check = || {
        let mut command = program(&["check", "--log"]);
        command.arg(&folder.path).output().unwrap()
    };
    let server = Program::of(logged(&folder.path, "no"), 1);
    let mut second = logged(&folder.path, "no");
    assert_fails(&second.stderr(Stdio::piped()).output().unwrap(), "stop that server");
    assert_fails(&check(), "stop that server");
    drop(server);
    let checked = check();
    assert_eq!(checked.stdout, b"consistent\n", "{}", stderr(&checked));
}

/// A payment of the first customer to a warehouse.
fn payment(warehouse: u32) -> DbRequest {
    DbRequest::Payment(Payment {
        warehouse,
        district: 1,
        customer_warehouse: warehouse,
        customer_district: 1,
        customer: 1,
        amount: 1,
    })
}

fn status(warehouse: u32) -> DbRequest {
    DbRequest::OrderStatus { warehouse, district: 1, customer: 1 }
}

/// Returns the payments of the first customer.
#[track_caller]
fn payments(connection: &mut Connection, warehouse: u32) -> u64 {
    let reply = connection.ask(status(warehouse));
    let Reply::Status(status) = reply else { panic!("{reply:?}") };
    status.payments
}

#[track_caller]
fn assert_failed(reply: &Reply, reason: &str) {
    let Reply::Failed(text) = reply else { panic!("{reply:?}") };
    assert!(text.starts_with("the log cannot be written: ") && text.contains(reason), "{text}");
}

const AT_ONCE: u64 = 100;

/// Pays until there is no more room, and returns the number of payments that were acknowledged. At
/// most [`AT_ONCE`] were not.
fn fill(connection: &mut Connection, reason: &str) -> u64 {
    for number in 0..10_000 {
        let requests = [payment(1); AT_ONCE as usize];
        connection.send(&requests).unwrap();
        let replies = requests.map(|_| connection.reply().unwrap());
        let failed = replies.iter().position(|reply| matches!(reply, Reply::Failed(_)));
        if let Some(first) = failed {
            replies[first..].iter().for_each(|reply| assert_failed(reply, reason));
            return number * AT_ONCE + first as u64;
        }
    }
    panic!("there is room for ever");
}

/// Fills the room of a log, and checks that the server and the log are well.
fn check_without_room(command: impl Fn() -> Command, reason: &str) {
    let server = Program::of(command(), 1);
    let mut connection = server.connect();
    let written = fill(&mut connection, reason);
    assert!(written > 1000, "{written}");
    // Writes are refused, for other clients too, and reads of rows that the log does not have.
    // Reads of other rows go on.
    assert_failed(&server.connect().ask(payment(1)), reason);
    assert_failed(&server.connect().ask(payment(2)), reason);
    assert_failed(&connection.ask(status(1)), reason);
    assert_eq!(payments(&mut connection, 2), 1);
    drop(server);
    let server = Program::of(command(), 1);
    let mut connection = server.connect();
    let kept = payments(&mut connection, 1);
    // A payment without an acknowledgement may be there.
    let possible = 1 + written..=1 + written + AT_ONCE;
    assert!(possible.contains(&kept), "{written} {kept}");
    assert_eq!(connection.ask(DbRequest::Check), Reply::Consistent);
}

/// Returns the command of a server with the fewest rows. The limit on the bytes of a file is above
/// the size of its tables.
fn with_limit(path: &Path, fsync: &str) -> Command {
    let mut command = program(&["serve", "--tcp", "127.0.0.1:0", "--fsync", fsync, "--log"]);
    command.arg(path).args(["--warehouses", "2", "--customers", "1", "--items", "1"]);
    command.stderr(Stdio::null());
    limited(command, 2 << 20)
}

#[test]
fn without_room_writes_are_refused_and_reads_go_on() {
    for fsync in POLICIES {
        let folder = LogFolder::new();
        check_without_room(|| with_limit(&folder.path, fsync), "File too large");
    }
}

#[test]
fn writes_are_accepted_again_when_there_is_room() {
    let folder = LogFolder::new();
    let server = Program::of(with_limit(&folder.path, "no"), 1);
    let mut connection = server.connect();
    let written = fill(&mut connection, "File too large");
    unlimited(server.child.0.id());
    until("room", || matches!(connection.ask(payment(1)), Reply::Paid { .. }));
    // The payments that were refused for lack of room were kept, and are written by now.
    let kept = payments(&mut connection, 1);
    assert!(kept > written + 2, "{kept} {written}");
    drop(server);
    let server = Program::of(with_limit(&folder.path, "no"), 1);
    assert_eq!(payments(&mut server.connect(), 1), kept);
}

const FULL: &str = "durable::a_full_disk_refuses_writes_and_reads_go_on";

#[test]
fn a_full_disk_refuses_writes_and_reads_go_on() {
    on_small_tmpfs(FULL, |folder| {
        let path = folder.join("log");
        for fsync in POLICIES {
            check_without_room(|| logged(&path, fsync), "No space left on device");
            fs::remove_file(&path).unwrap();
        }
    });
}

#[test]
fn a_write_that_was_not_synchronised_is_not_acknowledged_and_none_is_accepted_after_it() {
    if LinuxPart::Filters.is_lacking() {
        return;
    }
    let folder = LogFolder::new();
    let server = Program::of(logged(&folder.path, "always"), 1);
    assert!(matches!(server.connect().ask(payment(1)), Reply::Paid { .. }));
    drop(server);
    let server = Program::of(without_fdatasync(logged(&folder.path, "always")), 1);
    let mut connection = server.connect();
    assert_eq!(payments(&mut connection, 1), 2);
    connection.send(&[DbRequest::Describe, payment(1), DbRequest::Describe]).unwrap();
    assert!(matches!(connection.reply().unwrap(), Reply::Described(_)));
    assert_failed(&connection.reply().unwrap(), "Input/output error");
    assert!(matches!(connection.reply().unwrap(), Reply::Described(_)));
    assert_failed(&connection.ask(payment(1)), "restart the server");
}
