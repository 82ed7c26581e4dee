//! The load: transactions in the mix of TPC-C, drawn with a seed.

use super::random::SeededRandom;
use super::request::{DbRequest, NewOrder, Payment, RequestedLine};
use super::schema::{DISTRICTS, MOST_LINES, Scale};

/// The kinds of transactions, with their shares in per cent.
pub(crate) const KINDS: [(&str, u32); 5] =
    [("new-order", 45), ("payment", 43), ("order-status", 4), ("delivery", 4), ("stock-level", 4)];

/// The requests of a session, at a warehouse of its own.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    random: SeededRandom,
    scale: Scale,
    warehouse: u32,
}

impl Mix {
    /// Returns the requests of session number `session`, which differ by the seed.
    pub(crate) fn new(seed: u64, session: usize, scale: Scale) -> Mix {
        let warehouse = (session % scale.warehouses as usize) as u32 + 1;
        // A number draws the seeds of sessions, so that no two have a part in common.
        let mut random = SeededRandom::new(seed ^ (session as u64) << 32);
        let random = SeededRandom::new(random.next());
        Mix { random, scale, warehouse }
    }

    /// Draws a request; returns the index of its kind as well.
    pub(crate) fn next(&mut self) -> (usize, DbRequest) {
        let mut left = self.random.within(0, 99);
        let kind = KINDS.iter().position(|(_, share)| {
            let is_it = left < *share;
            left = left.wrapping_sub(*share);
            is_it
        });
        let kind = kind.unwrap_or_default();
        let request = match KINDS[kind].0 {
            "new-order" => self.new_order(),
            "payment" => self.payment(),
            "order-status" => DbRequest::OrderStatus {
                warehouse: self.warehouse,
                district: self.district(),
                customer: self.random.skewed(self.scale.customers),
            },
            "delivery" => DbRequest::Delivery {
                warehouse: self.warehouse,
                carrier: self.random.within(1, 10),
            },
            _ => DbRequest::StockLevel {
                warehouse: self.warehouse,
                district: self.district(),
                threshold: self.random.within(10, 20),
            },
        };
        (kind, request)
    }

    fn district(&mut self) -> u32 {
        self.random.within(1, DISTRICTS)
    }

    fn new_order(&mut self) -> DbRequest {
        let customer = self.random.skewed(self.scale.customers);
        let mut order = NewOrder::new(self.warehouse, self.district(), customer);
        let lines = self.random.within(5, MOST_LINES as u32);
        // One in a hundred orders an item that is not there, last.
        let is_refused = self.random.within(1, 100) == 1;
        for line in 1..=lines {
            let item = match is_refused && line == lines {
                true => self.scale.items + 1,
                false => self.random.skewed(self.scale.items),
            };
            let is_remote = self.random.within(1, 100) == 1;
            let supplier = if is_remote { self.other_warehouse() } else { self.warehouse };
            order.add(RequestedLine { item, supplier, quantity: self.random.within(1, 10) });
        }
        DbRequest::NewOrder(order)
    }

    fn payment(&mut self) -> DbRequest {
        let (warehouse, district) = (self.warehouse, self.district());
        let is_remote = self.random.within(1, 100) <= 15;
        let (customer_warehouse, customer_district) = match is_remote {
            true => (self.other_warehouse(), self.district()),
            false => (warehouse, district),
        };
        DbRequest::Payment(Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.random.skewed(self.scale.customers),
            amount: u64::from(self.random.within(100, 500_000)),
        })
    }

    /// Draws another warehouse, if there is one.
    fn other_warehouse(&mut self) -> u32 {
        match self.scale.warehouses {
            1 => 1,
            count => (self.warehouse - 1 + self.random.within(1, count - 1)) % count + 1,
        }
    }
}
