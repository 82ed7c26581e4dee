//! Requests, replies and records as bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::contents::LogEntry;
use super::request::{
    CustomerStatus, DbRequest, MOST_REPLY_BYTES, MOST_REQUEST_BYTES, NewOrder, Payment, Refusal,
    Reply, RequestedLine,
};
use super::schema::{MOST_LINES, Scale};

fn line() -> impl Strategy<Value = RequestedLine> {
    (any::<u32>(), any::<u32>(), any::<u32>())
        .prop_map(|(item, supplier, quantity)| RequestedLine { item, supplier, quantity })
}

fn request() -> impl Strategy<Value = DbRequest> {
    let order = (any::<[u32; 3]>(), vec(line(), 1..=MOST_LINES));
    prop_oneof![
        order.prop_map(|([warehouse, district, customer], lines)| {
            let mut order = NewOrder::new(warehouse, district, customer);
            lines.into_iter().for_each(|line| order.add(line));
            DbRequest::NewOrder(order)
        }),
        (any::<[u32; 5]>(), any::<u64>()).prop_map(|(numbers, amount)| {
            let [warehouse, district, customer_warehouse, customer_district, customer] = numbers;
            DbRequest::Payment(Payment {
                warehouse,
                district,
                customer_warehouse,
                customer_district,
                customer,
                amount,
            })
        }),
        any::<[u32; 3]>().prop_map(|[warehouse, district, customer]| DbRequest::OrderStatus {
            warehouse,
            district,
            customer
        }),
        any::<[u32; 2]>()
            .prop_map(|[warehouse, carrier]| DbRequest::Delivery { warehouse, carrier }),
        any::<[u32; 3]>().prop_map(|[warehouse, district, threshold]| DbRequest::StockLevel {
            warehouse,
            district,
            threshold
        }),
        Just(DbRequest::Check),
        Just(DbRequest::Stop),
        Just(DbRequest::Describe),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let status = (any::<i64>(), any::<[u64; 4]>(), any::<[u32; 2]>(), vec(line(), 0..=MOST_LINES));
    prop_oneof![
        (any::<u32>(), any::<u64>()).prop_map(|(order, total)| Reply::Ordered { order, total }),
        any::<i64>().prop_map(|balance| Reply::Paid { balance }),
        status.prop_map(|(balance, counts, [last_order, carrier], lines)| {
            let [paid, payments, deliveries, orders] = counts;
            Reply::Status(CustomerStatus {
                balance,
                paid,
                payments,
                deliveries,
                orders,
                last_order,
                carrier,
                lines,
            })
        }),
        any::<u32>().prop_map(|orders| Reply::Delivered { orders }),
        any::<u32>().prop_map(|items| Reply::Low { items }),
        (1..1000u32).prop_map(|items| Reply::Described(Scale {
            warehouses: 1,
            customers: 5,
            items
        })),
        Just(Reply::Consistent),
        Just(Reply::Stopped),
        Just(Reply::Refused(Refusal::Malformed)),
        Just(Reply::Refused(Refusal::Full)),
        ".{0,100}".prop_map(Reply::Inconsistent),
        ".{0,100}".prop_map(Reply::Failed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_read_as_they_were_written(request in request()) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        prop_assert!(bytes.len() <= MOST_REQUEST_BYTES);
        prop_assert_eq!(DbRequest::decode(&bytes), Some(request));
        for cut in 0..bytes.len() {
            prop_assert_eq!(DbRequest::decode(&bytes[..cut]), None);
        }
        bytes.push(0);
        prop_assert_eq!(DbRequest::decode(&bytes), None);
    }

    #[test]
    fn replies_are_read_as_they_were_written(reply in reply()) {
        let mut bytes = Vec::new();
        reply.encode(&mut bytes);
        prop_assert!(bytes.len() <= MOST_REPLY_BYTES);
        prop_assert_eq!(Reply::decode(&bytes), Some(reply));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        if let Some(request) = DbRequest::decode(&bytes) {
            let mut again = Vec::new();
            request.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        if let Some(entry) = LogEntry::decode(&bytes) {
            let mut again = Vec::new();
            entry.encode(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        let _ = Reply::decode(&bytes);
    }
}

#[test]
fn an_order_has_one_to_fifteen_lines() {
    for count in [0u32, 16, u32::MAX] {
        let mut bytes = vec![1];
        [1, 1, 1, count].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.resize(bytes.len() + 12 * count.min(16) as usize, 1);
        assert_eq!(DbRequest::decode(&bytes), None, "{count}");
    }
}

#[test]
fn a_text_is_cut_where_it_is_too_long() {
    let reply = Reply::Failed("\u{e9}".repeat(1000));
    let mut bytes = Vec::new();
    reply.encode(&mut bytes);
    assert!(bytes.len() <= MOST_REPLY_BYTES && bytes.len() > MOST_REPLY_BYTES - 4);
    let Some(Reply::Failed(text)) = Reply::decode(&bytes) else { panic!("no reply") };
    assert!(text.chars().all(|character| character == '\u{e9}'));
}

#[test]
fn a_record_changes_rows() {
    for request in [DbRequest::Check, DbRequest::Stop, DbRequest::Describe] {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(LogEntry::decode(&bytes), None, "{request:?}");
    }
    let scale = Scale { warehouses: 0, customers: 1, items: 1 };
    let mut bytes = Vec::new();
    LogEntry::Filled { seed: 1, scale }.encode(&mut bytes);
    assert_eq!(LogEntry::decode(&bytes), None);
}
