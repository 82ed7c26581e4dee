//! The rows after transactions.

use std::sync::Arc;
use std::thread;

use daiko::shm::Array;
use daiko::shm::bytemuck::Pod;

use super::log::Fsync;
use super::mix::Mix;
use super::place::{LogFolder, Opened, SMALL, in_memory, log_options, open, rows, segment, writes};
use super::request::{DbRequest, NewOrder, Payment, Refusal, Reply, RequestedLine};
use super::schema::MOST_LINES;
use super::support::workers;
use super::tables::Tables;

fn ask(opened: &Opened, request: DbRequest) -> Reply {
    opened.database.execute(&request).0
}

/// Returns an order of these items, from the first warehouse.
fn order(customer: u32, items: &[(u32, u32)]) -> DbRequest {
    let mut order = NewOrder::new(1, 2, customer);
    for &(item, quantity) in items {
        order.add(RequestedLine { item, supplier: 1, quantity });
    }
    DbRequest::NewOrder(order)
}

fn payment(customer: u32, amount: u64) -> DbRequest {
    let (customer_warehouse, customer_district) = (2, 3);
    let (warehouse, district) = (1, 2);
    DbRequest::Payment(Payment {
        warehouse,
        district,
        customer_warehouse,
        customer_district,
        customer,
        amount,
    })
}

#[test]
fn an_order_is_shown_delivered_and_paid() {
    let opened = in_memory();
    let status = |district, customer| {
        let reply = ask(&opened, DbRequest::OrderStatus { warehouse: 1, district, customer });
        let Reply::Status(status) = reply else { panic!("{reply:?}") };
        status
    };
    let before = status(2, 5);
    assert_eq!((before.balance, before.orders, before.payments), (-1000, 1, 1));
    let Reply::Ordered { order: number, total } = ask(&opened, order(5, &[(1, 2), (7, 10)])) else {
        panic!("no order")
    };
    let price: u64 =
        [(0, 2), (6, 10)].map(|(i, n)| u64::from(opened.tables.items.get(i)) * n).iter().sum();
    assert!(number == 31 && total > price / 3 && total < 2 * price, "{number} {total} {price}");
    let after = status(2, 5);
    assert_eq!((after.orders, after.last_order, after.carrier), (2, 31, 0));
    let lines =
        [(1, 2), (7, 10)].map(|(item, quantity)| RequestedLine { item, supplier: 1, quantity });
    assert_eq!(after.lines, lines);
    // The nine undelivered orders of the beginning come first, two at a time.
    for _ in 0..5 {
        assert_eq!(status(2, 5).carrier, 0);
        let Reply::Delivered { orders } =
            ask(&opened, DbRequest::Delivery { warehouse: 1, carrier: 4 })
        else {
            panic!("no delivery")
        };
        assert!(orders >= 10, "{orders}");
    }
    let delivered = status(2, 5);
    assert_eq!(delivered.carrier, 4);
    assert!(delivered.balance >= before.balance + price as i64);
    assert_eq!(ask(&opened, payment(9, 5)), Reply::Paid { balance: -1005 });
    assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
}

#[test]
fn a_stock_is_low_only_until_it_is_filled_up() {
    let opened = in_memory();
    let low = |threshold| {
        let reply = ask(&opened, DbRequest::StockLevel { warehouse: 1, district: 2, threshold });
        let Reply::Low { items } = reply else { panic!("{reply:?}") };
        items
    };
    let items: Vec<_> = (1..=15).map(|item| (item, 10)).collect();
    for _ in 0..20 {
        assert!(matches!(ask(&opened, order(1, &items)), Reply::Ordered { .. }));
    }
    // Of the last twenty orders, which have the same items.
    assert_eq!((low(0), low(10), low(1000)), (0, 0, 15));
    assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
}

#[test]
fn all_conditions_hold_between_transactions() {
    let opened = in_memory();
    assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
    let mut mixes: Vec<_> = (0..3).map(|session| Mix::new(1, session, SMALL)).collect();
    let (mut refused, mut kinds) = (0, [0; 5]);
    for number in 0..6000 {
        let (kind, request) = mixes[number % 3].next();
        kinds[kind] += 1;
        match ask(&opened, request) {
            Reply::Refused(refusal) => {
                assert_eq!(refusal, Refusal::NoItem);
                refused += 1;
            }
            reply => assert!(!matches!(reply, Reply::Failed(_)), "{reply:?}"),
        }
        if number % 500 == 0 {
            assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
        }
    }
    assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
    // One in a hundred of the orders.
    assert!((5..80).contains(&refused), "{refused}");
    let about = |count: i32, share: i32| (count - 60 * share).abs() < 200;
    assert!(
        kinds.iter().zip([45, 43, 4, 4, 4]).all(|(count, share)| about(*count, share)),
        "{kinds:?}"
    );
}

#[test]
fn each_condition_finds_a_row_that_is_wrong() {
    fn spoil<T: Pod>(table: &Array<T>, index: usize, change: impl FnOnce(&mut T)) {
        let mut row = table.get(index);
        change(&mut row);
        table.set(index, &row);
    }
    type Spoil = (&'static str, fn(&Tables));
    let spoils: [Spoil; 11] = [
        ("of its districts", |tables| spoil(&tables.warehouses, 1, |row| row.paid += 1)),
        ("of its districts", |tables| spoil(&tables.districts, 7, |row| row.paid += 1)),
        ("payments of all customers", |tables| spoil(&tables.customers, 9, |row| row.balance += 1)),
        ("payments of all warehouses", |tables| spoil(&tables.customers, 9, |row| row.paid += 1)),
        ("lines of all stocks", |tables| spoil(&tables.stock, 9, |row| row.lines += 1)),
        ("lines of all stocks", |tables| spoil(&tables.districts, 9, |row| row.lines += 1)),
        ("delivered amounts", |tables| spoil(&tables.districts, 9, |row| row.delivered += 1)),
        ("the next order", |tables| spoil(&tables.districts, 9, |row| row.next_order += 1)),
        ("has no carrier", |tables| spoil(&tables.districts, 9, |row| row.undelivered += 1)),
        ("by count", |tables| spoil(&tables.orders, 1, |row| row.lines += 1)),
        ("delivery of a line", |tables| spoil(&tables.lines, 15, |row| row.is_delivered ^= 1)),
    ];
    for (number, (condition, spoil)) in spoils.into_iter().enumerate() {
        let opened = in_memory();
        spoil(&opened.tables);
        let Reply::Inconsistent(text) = ask(&opened, DbRequest::Check) else { panic!("{number}") };
        assert!(text.contains(condition) && text.lines().count() == 1, "{number}: {text}");
    }
}

#[test]
fn a_refused_request_changes_nothing() {
    let opened = in_memory();
    let at = |warehouse, district, customer| {
        let mut order = NewOrder::new(warehouse, district, customer);
        order.add(RequestedLine { item: 1, supplier: 1, quantity: 1 });
        DbRequest::NewOrder(order)
    };
    let mut remote = NewOrder::new(1, 1, 1);
    remote.add(RequestedLine { item: 1, supplier: 4, quantity: 1 });
    let cases = [
        (at(0, 1, 1), Refusal::NoPlace),
        (at(4, 1, 1), Refusal::NoPlace),
        (at(u32::MAX, 1, 1), Refusal::NoPlace),
        (at(1, 0, 1), Refusal::NoPlace),
        (at(1, 11, 1), Refusal::NoPlace),
        (at(1, 1, 0), Refusal::NoPlace),
        (at(1, 1, 31), Refusal::NoPlace),
        (DbRequest::NewOrder(remote), Refusal::NoPlace),
        (order(1, &[(1, 1), (0, 1)]), Refusal::NoItem),
        (order(1, &[(1, 1), (201, 1)]), Refusal::NoItem),
        (order(1, &[(1, 1), (1, 0)]), Refusal::Malformed),
        (order(1, &[(1, 1), (1, 11)]), Refusal::Malformed),
        (payment(31, 1), Refusal::NoPlace),
        (payment(1, 0), Refusal::Malformed),
        (payment(1, u64::MAX), Refusal::Malformed),
        (DbRequest::Delivery { warehouse: 1, carrier: 0 }, Refusal::Malformed),
        (DbRequest::Delivery { warehouse: 1, carrier: 11 }, Refusal::Malformed),
        (DbRequest::Delivery { warehouse: 9, carrier: 1 }, Refusal::NoPlace),
        (DbRequest::OrderStatus { warehouse: 1, district: 1, customer: 99 }, Refusal::NoPlace),
        (DbRequest::StockLevel { warehouse: 1, district: 99, threshold: 9 }, Refusal::NoPlace),
        (DbRequest::Stop, Refusal::Malformed),
    ];
    let before = rows(&opened.tables);
    for (request, refusal) in cases {
        assert_eq!(ask(&opened, request), Reply::Refused(refusal), "{request:?}");
        assert_eq!(refusal.to_string().lines().count(), 1);
    }
    assert!(rows(&opened.tables) == before);
}

#[test]
fn a_district_that_is_full_takes_orders_after_a_delivery() {
    let opened = in_memory();
    let items = [(1, 1)];
    let ordered =
        (0..200).take_while(|_| matches!(ask(&opened, order(1, &items)), Reply::Ordered { .. }));
    // It keeps 64, of which 9 were there at first and are not delivered.
    assert_eq!(ordered.count(), 64 - 9);
    assert_eq!(ask(&opened, order(1, &items)), Reply::Refused(Refusal::Full));
    ask(&opened, DbRequest::Delivery { warehouse: 1, carrier: 1 });
    let outcomes =
        [(); 3].map(|()| matches!(ask(&opened, order(1, &items)), Reply::Ordered { .. }));
    assert_eq!(outcomes, [true, true, false]);
    assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
}

#[test]
fn the_same_requests_give_the_same_rows() {
    let two = [(), ()].map(|()| {
        let (segment, scale) = (segment(SMALL), SMALL);
        let tables = Tables::place(&segment, scale).unwrap();
        tables.fill(5);
        // Rows that a killed server has left.
        writes().take(500).for_each(|request| drop(tables.carry_out(&request)));
        tables.fill(7);
        writes().skip(100).take(500).for_each(|request| drop(tables.carry_out(&request)));
        rows(&tables)
    });
    assert!(two[0] == two[1]);
    let opened = in_memory();
    writes().skip(100).take(500).for_each(|request| drop(opened.tables.carry_out(&request)));
    assert!(rows(&opened.tables) == two[0]);
}

/// Fibers on two workers, each of which reads and writes rows of several warehouses: repeated one
/// after the other in the order of the log, their transactions give the same rows.
#[test]
fn transactions_of_many_sessions_are_serializable() {
    for fsync in Fsync::NAMES.map(|(_, fsync)| fsync) {
        let folder = LogFolder::new();
        let opened = Arc::new(open(&log_options(&folder.path, fsync)).unwrap());
        let sessions = Arc::clone(&opened);
        workers(2).run(move || {
            let fibers = (0..40).map(|session| {
                let opened = Arc::clone(&sessions);
                daiko::Builder::new().spread().spawn(move || {
                    let mut mix = Mix::new(9, session, SMALL);
                    for _ in 0..50 {
                        let (_, position) = opened.database.execute(&mix.next().1);
                        opened.database.log().unwrap().reach(position).unwrap();
                    }
                })
            });
            let fibers: Vec<_> = fibers.map(Result::unwrap).collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
        let before = rows(&opened.tables);
        drop(opened);
        assert!(rows(&folder.open().tables) == before);
    }
}

/// The same of kernel threads that wait for the log at the end only, so that they often meet.
#[test]
fn transactions_of_parallel_threads_are_serializable() {
    let folder = LogFolder::new();
    let opened = folder.open();
    thread::scope(|scope| {
        for session in 0..4 {
            let database = &opened.database;
            // All of them at the first warehouse.
            let mut mix = Mix::new(11, session * SMALL.warehouses as usize, SMALL);
            scope.spawn(move || (0..3000).for_each(|_| _ = database.execute(&mix.next().1)));
        }
    });
    let (checked, position) = opened.database.execute(&DbRequest::Check);
    assert_eq!(checked, Reply::Consistent);
    opened.database.log().unwrap().reach(position).unwrap();
    let before = rows(&opened.tables);
    drop(opened);
    assert!(rows(&folder.open().tables) == before);
}

#[test]
fn lines_of_an_order_are_as_many_as_a_request_may_have() {
    let opened = in_memory();
    let items: Vec<_> = (1..=MOST_LINES as u32).map(|item| (item, 1)).collect();
    assert!(matches!(ask(&opened, order(1, &items)), Reply::Ordered { .. }));
    // A shorter order in the same place leaves no line of the longer one.
    for _ in 0..70 {
        ask(&opened, order(1, &[(1, 1)]));
        ask(&opened, DbRequest::Delivery { warehouse: 1, carrier: 1 });
    }
    assert_eq!(ask(&opened, DbRequest::Check), Reply::Consistent);
}
