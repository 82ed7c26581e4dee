//! The rows of the tables, as plain data, and their numbers.
//!
//! Money is in cents, taxes and discounts are in parts of 10,000. Numbers of rows count from 1 in
//! requests and rows, as in TPC-C.

use daiko::shm::bytemuck::{Pod, Zeroable};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u32 = 10;
/// The most lines of an order.
pub(crate) const MOST_LINES: usize = 15;
/// The balance that a customer begins with is a payment of this amount.
pub(crate) const FIRST_PAYMENT: u64 = 1000;
const MOST_WAREHOUSES: u32 = 1024;
const MOST_CUSTOMERS: u32 = 100_000;
const MOST_ITEMS: u32 = 1_000_000;

/// Numbers of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) warehouses: u32,
    /// Customers of a district, each with one order at first.
    pub(crate) customers: u32,
    /// Items, and rows of stock of a warehouse.
    pub(crate) items: u32,
}

impl Scale {
    /// The numbers of TPC-C for one warehouse.
    pub(crate) const ONE: Scale = Scale { warehouses: 1, customers: 3000, items: 100_000 };

    pub(crate) fn is_possible(self) -> bool {
        (1..=MOST_WAREHOUSES).contains(&self.warehouses)
            && (1..=MOST_CUSTOMERS).contains(&self.customers)
            && (1..=MOST_ITEMS).contains(&self.items)
    }

    pub(crate) fn districts(self) -> usize {
        (self.warehouses * DISTRICTS) as usize
    }

    /// Orders that a district keeps: a power of two, so that the place of an order is a part of its
    /// number.
    pub(crate) fn kept_orders(self) -> u32 {
        (self.customers + self.customers / 4).next_power_of_two().max(64)
    }
}

/// Declares a row: integers without padding between them.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
        // SAFETY: all fields are integers, for which zero is a value.
        unsafe impl Zeroable for $name {}
        // SAFETY: the fields are integers in the order of C, and take all bytes, as was just
        // asserted; so all bytes are initialised, and any bytes are a value.
        unsafe impl Pod for $name {}
    };
}

row! {
    /// A warehouse.
    Warehouse {
        /// The sum of all payments to it.
        paid: u64,
        tax: u64,
    }
}

row! {
    /// A district of a warehouse.
    District {
        /// The sum of all payments to it.
        paid: u64,
        /// The sum of the amounts of all lines that were delivered.
        delivered: u64,
        /// The number of lines that were ordered, without those of the first orders.
        lines: u64,
        /// The number of the next order.
        next_order: u32,
        /// The number of the oldest order that is not delivered; that of the next order if all are.
        undelivered: u32,
        tax: u64,
    }
}

row! {
    /// A customer of a district.
    Customer {
        /// Delivered amounts minus payments.
        balance: i64,
        /// The sum of all payments.
        paid: u64,
        discount: u64,
        payments: u64,
        deliveries: u64,
        orders: u64,
        /// The number of the last order; 0 without one.
        last_order: u32,
        unused: u32,
    }
}

row! {
    /// An item in the stock of a warehouse.
    Stock {
        /// The sum of ordered quantities.
        sold: u64,
        /// Lines of orders with this item.
        lines: u64,
        /// Those of them of other warehouses.
        remote_lines: u64,
        quantity: u32,
        unused: u32,
    }
}

row! {
    /// An order of a district.
    Order {
        /// Its number; 0: there is none in this place.
        number: u32,
        customer: u32,
        lines: u32,
        /// The carrier that has delivered it; 0 before.
        carrier: u32,
    }
}

row! {
    /// A line of an order.
    OrderLine {
        amount: u64,
        /// The number of the order; 0: there is no line in this place.
        order: u32,
        item: u32,
        /// The warehouse that has the item.
        supplier: u32,
        quantity: u32,
        is_delivered: u32,
        unused: u32,
    }
}
