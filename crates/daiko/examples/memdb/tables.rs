//! The tables: arrays of rows in a segment.
//!
//! The rows of a warehouse, with those of its districts, customers, stock, orders and lines, are
//! used by the holder of its latch alone; items never change. A row is copied out, and copied back
//! when it has changed.

use daiko::shm::bytemuck::Pod;
use daiko::shm::{Array, Segment, SegmentError};

use super::random::SeededRandom;
use super::schema::{
    Customer, DISTRICTS, District, FIRST_PAYMENT, MOST_LINES, Order, OrderLine, Scale, Stock,
    Warehouse,
};

pub(crate) struct Tables {
    pub(crate) scale: Scale,
    pub(crate) warehouses: Array<Warehouse>,
    pub(crate) districts: Array<District>,
    pub(crate) customers: Array<Customer>,
    /// The prices of items.
    pub(crate) items: Array<u32>,
    pub(crate) stock: Array<Stock>,
    pub(crate) orders: Array<Order>,
    pub(crate) lines: Array<OrderLine>,
    /// A part of the number of an order.
    order_mask: u32,
}

/// A district, by its index in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DistrictIndex(pub(crate) usize);

/// Bytes around a table in its segment.
const AROUND_TABLE: usize = 4096;

impl Tables {
    /// Returns the bytes that all tables take in a segment.
    pub(crate) fn bytes(scale: Scale) -> usize {
        let lens = Lens::of(scale);
        let tables = [
            lens.warehouses * size_of::<Warehouse>(),
            lens.districts * size_of::<District>(),
            lens.customers * size_of::<Customer>(),
            lens.items * size_of::<u32>(),
            lens.stock * size_of::<Stock>(),
            lens.orders * size_of::<Order>(),
            lens.lines * size_of::<OrderLine>(),
        ];
        tables.iter().map(|bytes| bytes + AROUND_TABLE).sum()
    }

    /// Makes the tables in a segment, or takes those over that a killed server has left. Their rows
    /// have to be [filled](Self::fill).
    pub(crate) fn place(segment: &Segment, scale: Scale) -> Result<Tables, SegmentError> {
        let lens = Lens::of(scale);
        Ok(Tables {
            scale,
            warehouses: table(segment, "warehouses", lens.warehouses)?,
            districts: table(segment, "districts", lens.districts)?,
            customers: table(segment, "customers", lens.customers)?,
            items: table(segment, "items", lens.items)?,
            stock: table(segment, "stock", lens.stock)?,
            orders: table(segment, "orders", lens.orders)?,
            lines: table(segment, "lines", lens.lines)?,
            order_mask: scale.kept_orders() - 1,
        })
    }

    /// Returns the index of warehouse `warehouse`, or of a row of it, from 1 on.
    pub(crate) fn stock_index(&self, warehouse: u32, item: u32) -> usize {
        (warehouse - 1) as usize * self.scale.items as usize + (item - 1) as usize
    }

    pub(crate) fn district_index(&self, warehouse: u32, district: u32) -> DistrictIndex {
        DistrictIndex(((warehouse - 1) * DISTRICTS + district - 1) as usize)
    }

    pub(crate) fn customer_index(&self, at: DistrictIndex, customer: u32) -> usize {
        at.0 * self.scale.customers as usize + (customer - 1) as usize
    }

    pub(crate) fn order_index(&self, at: DistrictIndex, order: u32) -> usize {
        at.0 * (self.order_mask as usize + 1) + (order & self.order_mask) as usize
    }

    /// Returns an order, if the district still has it.
    pub(crate) fn order(&self, at: DistrictIndex, number: u32) -> Option<Order> {
        let order = self.orders.get(self.order_index(at, number));
        (number > 0 && order.number == number).then_some(order)
    }

    /// Returns the index of the first line of an order.
    pub(crate) fn first_line(&self, at: DistrictIndex, order: u32) -> usize {
        self.order_index(at, order) * MOST_LINES
    }

    /// Fills all rows: the first state of a database with this seed.
    pub(crate) fn fill(&self, seed: u64) {
        let mut random = SeededRandom::new(seed);
        let Scale { warehouses, customers, items } = self.scale;
        for item in 0..items as usize {
            self.items.set(item, &random.within(100, 10_000));
        }
        for index in 0..self.stock.len() {
            let quantity = random.within(10, 100);
            let stock = Stock { sold: 0, lines: 0, remote_lines: 0, quantity, unused: 0 };
            self.stock.set(index, &stock);
        }
        let paid = u64::from(customers) * FIRST_PAYMENT;
        for warehouse in 0..warehouses as usize {
            let paid = paid * u64::from(DISTRICTS);
            let tax = u64::from(random.within(0, 2000));
            self.warehouses.set(warehouse, &Warehouse { paid, tax });
        }
        for district in 0..self.scale.districts() {
            let row = District {
                paid,
                delivered: 0,
                lines: 0,
                next_order: customers + 1,
                // The last three tenths are not delivered.
                undelivered: customers - customers * 3 / 10 + 1,
                tax: u64::from(random.within(0, 2000)),
            };
            self.districts.set(district, &row);
            self.fill_district(DistrictIndex(district), row, &mut random);
        }
    }

    fn fill_district(&self, at: DistrictIndex, row: District, random: &mut SeededRandom) {
        let customers = self.scale.customers;
        for customer in 1..=customers {
            let row = Customer {
                balance: -(FIRST_PAYMENT as i64),
                paid: FIRST_PAYMENT,
                discount: u64::from(random.within(0, 5000)),
                payments: 1,
                deliveries: 0,
                orders: 1,
                last_order: customers + 1 - customer,
                unused: 0,
            };
            self.customers.set(self.customer_index(at, customer), &row);
        }
        // Places without an order as well: a killed server may have left rows there.
        for number in 1..=self.order_mask + 1 {
            let is_there = number <= customers;
            let is_delivered = number < row.undelivered;
            let order = Order {
                number: if is_there { number } else { 0 },
                customer: customers.wrapping_add(1).wrapping_sub(number),
                lines: if is_there { random.within(5, MOST_LINES as u32) } else { 0 },
                carrier: if is_delivered { random.within(1, 10) } else { 0 },
            };
            self.orders.set(self.order_index(at, number), &order);
            let first = self.first_line(at, number);
            for line in 0..MOST_LINES as u32 {
                let row = match line < order.lines {
                    true => self.first_line_of(number, is_delivered, at, random),
                    false => NO_LINE,
                };
                self.lines.set(first + line as usize, &row);
            }
        }
    }

    /// Draws a line of an order that was there from the beginning. It has an amount only if it is
    /// to be delivered, as in TPC-C.
    fn first_line_of(
        &self,
        order: u32,
        is_delivered: bool,
        at: DistrictIndex,
        random: &mut SeededRandom,
    ) -> OrderLine {
        let amount = if is_delivered { 0 } else { u64::from(random.within(1, 999_999)) };
        OrderLine {
            amount,
            order,
            item: random.within(1, self.scale.items),
            supplier: at.0 as u32 / DISTRICTS + 1,
            quantity: 5,
            is_delivered: u32::from(is_delivered),
            unused: 0,
        }
    }
}

pub(crate) const NO_LINE: OrderLine = OrderLine {
    amount: 0,
    order: 0,
    item: 0,
    supplier: 0,
    quantity: 0,
    is_delivered: 0,
    unused: 0,
};

/// Numbers of rows.
struct Lens {
    warehouses: usize,
    districts: usize,
    customers: usize,
    items: usize,
    stock: usize,
    orders: usize,
    lines: usize,
}

impl Lens {
    fn of(scale: Scale) -> Lens {
        let (warehouses, items) = (scale.warehouses as usize, scale.items as usize);
        let districts = scale.districts();
        let orders = districts * scale.kept_orders() as usize;
        Lens {
            warehouses,
            districts,
            customers: districts * scale.customers as usize,
            items,
            stock: warehouses * items,
            orders,
            lines: orders * MOST_LINES,
        }
    }
}

/// Opens a table of `len` rows, or makes it.
fn table<T: Pod>(segment: &Segment, name: &str, len: usize) -> Result<Array<T>, SegmentError> {
    match Array::open(segment, name) {
        Ok(array) if array.len() == len => Ok(array),
        Err(SegmentError::NoObject { .. }) => Array::create(segment, name, len),
        Err(error) => Err(error),
        Ok(_) => Err(SegmentError::ObjectTaken { name: name.into() }),
    }
}
