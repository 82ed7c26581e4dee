//! Requests and their replies, as bytes. It knows no socket, no segment and no table.
//!
//! ```text
//! request   1 warehouse district customer count (item supplier quantity)...   new order
//!           2 warehouse district customer-warehouse customer-district customer amount   payment
//!           3 warehouse district customer      order status
//!           4 warehouse carrier                delivery
//!           5 warehouse district threshold     stock level
//!           6                                  check of all tables
//!           8                                  numbers of rows
//!           7                                  end of the server
//! ```
//!
//! A verb takes a byte, all other numbers take four, an amount eight, the least significant byte
//! first. A reply is a byte that names its kind, and its numbers.

use std::fmt;

use super::schema::{MOST_LINES, OrderLine, Scale};

/// The most bytes of a request.
pub(crate) const MOST_REQUEST_BYTES: usize = 1 + 4 * 4 + MOST_LINES * 12;
/// The most bytes of a reply: that to an order status, or a text that is cut there.
pub(crate) const MOST_REPLY_BYTES: usize = 512;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DbRequest {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus {
        warehouse: u32,
        district: u32,
        customer: u32,
    },
    Delivery {
        warehouse: u32,
        carrier: u32,
    },
    StockLevel {
        warehouse: u32,
        district: u32,
        threshold: u32,
    },
    /// Asks for the conditions of all tables.
    Check,
    /// Ends the server.
    Stop,
    /// Asks for the numbers of rows.
    Describe,
}

/// An order of a customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewOrder {
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    pub(crate) customer: u32,
    count: u32,
    lines: [RequestedLine; MOST_LINES],
}

/// A line of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestedLine {
    pub(crate) item: u32,
    pub(crate) supplier: u32,
    pub(crate) quantity: u32,
}

/// A payment of a customer of any district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) warehouse: u32,
    pub(crate) district: u32,
    pub(crate) customer_warehouse: u32,
    pub(crate) customer_district: u32,
    pub(crate) customer: u32,
    pub(crate) amount: u64,
}

/// The reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// An order has this number, and costs as much.
    Ordered {
        order: u32,
        total: u64,
    },
    /// A customer has this balance after the payment.
    Paid {
        balance: i64,
    },
    Status(CustomerStatus),
    /// As many orders were delivered.
    Delivered {
        orders: u32,
    },
    /// As many items of the last orders are below the threshold.
    Low {
        items: u32,
    },
    /// All conditions hold.
    Consistent,
    /// A condition does not hold.
    Inconsistent(String),
    Stopped,
    Described(Scale),
    Refused(Refusal),
    /// The log cannot be written.
    Failed(String),
}

/// A customer with the last order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomerStatus {
    pub(crate) balance: i64,
    pub(crate) paid: u64,
    pub(crate) payments: u64,
    pub(crate) deliveries: u64,
    pub(crate) orders: u64,
    /// The number of the last order; 0 without one.
    pub(crate) last_order: u32,
    /// The carrier of the last order, 0 before its delivery.
    pub(crate) carrier: u32,
    /// Its lines; none if the district has it no more.
    pub(crate) lines: Vec<RequestedLine>,
}

/// The reason why a request was not carried out. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed,
    NoPlace,
    NoItem,
    Full,
}

impl Refusal {
    const ALL: [Refusal; 4] =
        [Refusal::Malformed, Refusal::NoPlace, Refusal::NoItem, Refusal::Full];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Malformed => {
                "the server could not read the request; use client and server of one build"
            }
            Refusal::NoPlace => {
                "there is no such warehouse, district or customer; ask within the numbers that the \
                 server was started with"
            }
            Refusal::NoItem => "there is no such item; order others",
            Refusal::Full => {
                "the district has as many undelivered orders as it keeps; ask for a delivery first"
            }
        })
    }
}

impl NewOrder {
    /// Returns an order of no lines yet.
    pub(crate) fn new(warehouse: u32, district: u32, customer: u32) -> NewOrder {
        let lines = [RequestedLine::default(); MOST_LINES];
        NewOrder { warehouse, district, customer, count: 0, lines }
    }

    /// Adds a line.
    ///
    /// # Panics
    ///
    /// If there are [`MOST_LINES`].
    pub(crate) fn add(&mut self, line: RequestedLine) {
        self.lines[self.count as usize] = line;
        self.count += 1;
    }

    pub(crate) fn lines(&self) -> &[RequestedLine] {
        &self.lines[..self.count as usize]
    }
}

impl RequestedLine {
    pub(crate) fn of(line: OrderLine) -> RequestedLine {
        RequestedLine { item: line.item, supplier: line.supplier, quantity: line.quantity }
    }
}

impl DbRequest {
    /// Appends the request.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        match *self {
            DbRequest::NewOrder(order) => {
                bytes.push(1);
                put(bytes, &[order.warehouse, order.district, order.customer, order.count]);
                for line in order.lines() {
                    put(bytes, &[line.item, line.supplier, line.quantity]);
                }
            }
            DbRequest::Payment(payment) => {
                bytes.push(2);
                put(bytes, &[payment.warehouse, payment.district, payment.customer_warehouse]);
                put(bytes, &[payment.customer_district, payment.customer]);
                bytes.extend_from_slice(&payment.amount.to_le_bytes());
            }
            DbRequest::OrderStatus { warehouse, district, customer } => {
                bytes.push(3);
                put(bytes, &[warehouse, district, customer]);
            }
            DbRequest::Delivery { warehouse, carrier } => {
                bytes.push(4);
                put(bytes, &[warehouse, carrier]);
            }
            DbRequest::StockLevel { warehouse, district, threshold } => {
                bytes.push(5);
                put(bytes, &[warehouse, district, threshold]);
            }
            DbRequest::Check => bytes.push(6),
            DbRequest::Stop => bytes.push(7),
            DbRequest::Describe => bytes.push(8),
        }
    }

    /// Decodes `bytes`, if they are a request.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<DbRequest> {
        let rest = &mut bytes;
        let request = match take::<1>(rest)? {
            [1] => {
                let mut order = NewOrder::new(number(rest)?, number(rest)?, number(rest)?);
                let count = number(rest)? as usize;
                if !(1..=MOST_LINES).contains(&count) {
                    return None;
                }
                for _ in 0..count {
                    order.add(line(rest)?);
                }
                DbRequest::NewOrder(order)
            }
            [2] => DbRequest::Payment(Payment {
                warehouse: number(rest)?,
                district: number(rest)?,
                customer_warehouse: number(rest)?,
                customer_district: number(rest)?,
                customer: number(rest)?,
                amount: u64::from_le_bytes(take(rest)?),
            }),
            [3] => DbRequest::OrderStatus {
                warehouse: number(rest)?,
                district: number(rest)?,
                customer: number(rest)?,
            },
            [4] => DbRequest::Delivery { warehouse: number(rest)?, carrier: number(rest)? },
            [5] => DbRequest::StockLevel {
                warehouse: number(rest)?,
                district: number(rest)?,
                threshold: number(rest)?,
            },
            [6] => DbRequest::Check,
            [7] => DbRequest::Stop,
            [8] => DbRequest::Describe,
            _ => return None,
        };
        rest.is_empty().then_some(request)
    }

    /// Returns true if it changes rows.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self, DbRequest::NewOrder(_) | DbRequest::Payment(_) | DbRequest::Delivery { .. })
    }
}

impl Reply {
    /// Appends the reply.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Reply::Ordered { order, total } => {
                bytes.push(1);
                put(bytes, &[*order]);
                bytes.extend_from_slice(&total.to_le_bytes());
            }
            Reply::Paid { balance } => {
                bytes.push(2);
                bytes.extend_from_slice(&balance.to_le_bytes());
            }
            Reply::Status(status) => {
                bytes.push(3);
                bytes.extend_from_slice(&status.balance.to_le_bytes());
                for count in [status.paid, status.payments, status.deliveries, status.orders] {
                    bytes.extend_from_slice(&count.to_le_bytes());
                }
                put(bytes, &[status.last_order, status.carrier]);
                for line in &status.lines {
                    put(bytes, &[line.item, line.supplier, line.quantity]);
                }
            }
            Reply::Delivered { orders } => {
                bytes.push(4);
                put(bytes, &[*orders]);
            }
            Reply::Low { items } => {
                bytes.push(5);
                put(bytes, &[*items]);
            }
            Reply::Consistent => bytes.push(6),
            Reply::Stopped => bytes.push(7),
            Reply::Refused(refusal) => bytes.extend_from_slice(&[8, *refusal as u8]),
            Reply::Described(scale) => {
                bytes.push(11);
                put(bytes, &[scale.warehouses, scale.customers, scale.items]);
            }
            Reply::Inconsistent(text) => put_text(bytes, 9, text),
            Reply::Failed(text) => put_text(bytes, 10, text),
        }
    }

    /// Decodes `bytes`, if they are a reply.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Reply> {
        let rest = &mut bytes;
        let reply = match take::<1>(rest)? {
            [1] => Reply::Ordered { order: number(rest)?, total: u64::from_le_bytes(take(rest)?) },
            [2] => Reply::Paid { balance: i64::from_le_bytes(take(rest)?) },
            [3] => Reply::Status(status(rest)?),
            [4] => Reply::Delivered { orders: number(rest)? },
            [5] => Reply::Low { items: number(rest)? },
            [6] => Reply::Consistent,
            [7] => Reply::Stopped,
            [8] => {
                let [code] = take(rest)?;
                Reply::Refused(*Refusal::ALL.get(usize::from(code))?)
            }
            [11] => {
                let (warehouses, customers) = (number(rest)?, number(rest)?);
                let scale = Scale { warehouses, customers, items: number(rest)? };
                Reply::Described(Some(scale).filter(|scale| scale.is_possible())?)
            }
            [9] => Reply::Inconsistent(text(rest)?),
            [10] => Reply::Failed(text(rest)?),
            _ => return None,
        };
        rest.is_empty().then_some(reply)
    }
}

fn status(rest: &mut &[u8]) -> Option<CustomerStatus> {
    let mut count = || take(rest).map(u64::from_le_bytes);
    let [balance, paid, payments] = [count()?, count()?, count()?];
    let [deliveries, orders] = [count()?, count()?];
    let mut status = CustomerStatus {
        balance: balance as i64,
        paid,
        payments,
        deliveries,
        orders,
        last_order: number(rest)?,
        carrier: number(rest)?,
        lines: Vec::new(),
    };
    while !rest.is_empty() && status.lines.len() < MOST_LINES {
        status.lines.push(line(rest)?);
    }
    Some(status)
}

fn line(rest: &mut &[u8]) -> Option<RequestedLine> {
    Some(RequestedLine { item: number(rest)?, supplier: number(rest)?, quantity: number(rest)? })
}

fn put(bytes: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

/// Appends a text, cut so that the reply is not too long.
fn put_text(bytes: &mut Vec<u8>, kind: u8, text: &str) {
    bytes.push(kind);
    let end = (0..MOST_REPLY_BYTES).rev().find(|&end| text.is_char_boundary(end.min(text.len())));
    bytes.extend_from_slice(&text.as_bytes()[..end.unwrap_or_default().min(text.len())]);
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let text = str::from_utf8(std::mem::take(rest)).ok()?;
    (text.len() < MOST_REPLY_BYTES).then(|| text.into())
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    rest.split_off(..N)?.try_into().ok()
}
