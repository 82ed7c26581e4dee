//! The transactions, on rows that the caller has for itself. Each checks its request first,
//! and changes nothing if it refuses it. None waits, reads a clock or draws a random number: so the
//! same requests in the same order give the same rows, and a log of requests is enough.

use super::request::{CustomerStatus, DbRequest, NewOrder, Payment, Refusal, Reply, RequestedLine};
use super::schema::{Customer, DISTRICTS, MOST_LINES, Order, OrderLine};
use super::tables::{DistrictIndex, NO_LINE, Tables};

/// Orders of a district that a delivery delivers. TPC-C has 1; but new orders are more often, and
/// here a district keeps a fixed number of orders.
const DELIVERED_AT_ONCE: u32 = 2;
/// Orders that a stock level looks at.
const LAST_ORDERS: u32 = 20;
const CARRIERS: u32 = 10;
/// The most of an item in a line: less than that by which a stock is filled up.
const MOST_QUANTITY: u32 = 10;
/// The most that a payment pays: the sums of payments, even of years, fit into 63 bits.
const MOST_PAID: u64 = 1 << 24;

/// The warehouses of a request, in ascending order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarehouseSet {
    count: usize,
    numbers: [u32; MOST_LINES + 1],
}

impl WarehouseSet {
    /// Returns the warehouses with the rows that a request uses, unless one is not there.
    pub(crate) fn of(request: &DbRequest, warehouses: u32) -> Result<WarehouseSet, Refusal> {
        let mut set = WarehouseSet { count: 0, numbers: [0; MOST_LINES + 1] };
        match request {
            DbRequest::NewOrder(order) => {
                set.add(order.warehouse);
                order.lines().iter().for_each(|line| set.add(line.supplier));
            }
            DbRequest::Payment(payment) => {
                set.add(payment.warehouse);
                set.add(payment.customer_warehouse);
            }
            DbRequest::OrderStatus { warehouse, .. }
            | DbRequest::Delivery { warehouse, .. }
            | DbRequest::StockLevel { warehouse, .. } => set.add(*warehouse),
            DbRequest::Check | DbRequest::Stop | DbRequest::Describe => {}
        }
        let are_there = set.numbers().iter().all(|number| (1..=warehouses).contains(number));
        if are_there { Ok(set) } else { Err(Refusal::NoPlace) }
    }

    pub(crate) fn numbers(&self) -> &[u32] {
        &self.numbers[..self.count]
    }

    fn add(&mut self, number: u32) {
        if let Err(at) = self.numbers().binary_search(&number) {
            self.numbers.copy_within(at..self.count, at + 1);
            self.numbers[at] = number;
            self.count += 1;
        }
    }
}

impl Tables {
    /// Carries out a request. The caller has the latches of its [warehouses](WarehouseSet).
    pub(crate) fn carry_out(&self, request: &DbRequest) -> Result<Reply, Refusal> {
        match request {
            DbRequest::NewOrder(order) => self.new_order(order),
            DbRequest::Payment(payment) => self.payment(payment),
            DbRequest::OrderStatus { warehouse, district, customer } => {
                self.order_status(*warehouse, *district, *customer)
            }
            DbRequest::Delivery { warehouse, carrier } => self.delivery(*warehouse, *carrier),
            DbRequest::StockLevel { warehouse, district, threshold } => {
                self.stock_level(*warehouse, *district, *threshold)
            }
            DbRequest::Describe => Ok(Reply::Described(self.scale)),
            DbRequest::Check | DbRequest::Stop => Err(Refusal::Malformed),
        }
    }

    fn new_order(&self, order: &NewOrder) -> Result<Reply, Refusal> {
        let (at, customer_at) = self.customer(order.warehouse, order.district, order.customer)?;
        for line in order.lines() {
            if !(1..=self.scale.items).contains(&line.item) {
                return Err(Refusal::NoItem);
            }
            if !(1..=MOST_QUANTITY).contains(&line.quantity) {
                return Err(Refusal::Malformed);
            }
        }
        let mut district = self.districts.get(at.0);
        let number = district.next_order;
        // The place is that of an order that was delivered, or of none.
        if number - district.undelivered >= self.scale.kept_orders() || number == u32::MAX {
            return Err(Refusal::Full);
        }
        let (first, mut sum) = (self.first_line(at, number), 0);
        for (index, line) in order.lines().iter().enumerate() {
            let amount = self.sell(order.warehouse, line);
            sum += amount;
            let RequestedLine { item, supplier, quantity } = *line;
            let row = OrderLine { amount, order: number, item, supplier, quantity, ..NO_LINE };
            self.lines.set(first + index, &row);
        }
        for index in order.lines().len()..MOST_LINES {
            self.lines.set(first + index, &NO_LINE);
        }
        let lines = order.lines().len() as u32;
        let row = Order { number, customer: order.customer, lines, carrier: 0 };
        self.orders.set(self.order_index(at, number), &row);
        district.next_order += 1;
        district.lines += u64::from(lines);
        self.districts.set(at.0, &district);
        let mut customer = self.customers.get(customer_at);
        customer.orders += 1;
        customer.last_order = number;
        self.customers.set(customer_at, &customer);
        let warehouse = self.warehouses.get(order.warehouse as usize - 1);
        let taxed = sum * (10_000 + warehouse.tax + district.tax) / 10_000;
        let total = taxed * (10_000 - customer.discount) / 10_000;
        Ok(Reply::Ordered { order: number, total })
    }

    /// Takes the items of a line from the stock of its supplier. Returns their price.
    fn sell(&self, warehouse: u32, line: &RequestedLine) -> u64 {
        let at = self.stock_index(line.supplier, line.item);
        let mut stock = self.stock.get(at);
        // A stock that gets low is filled up.
        let filled = if stock.quantity < line.quantity + 10 { 91 } else { 0 };
        stock.quantity = stock.quantity + filled - line.quantity;
        stock.sold += u64::from(line.quantity);
        stock.lines += 1;
        stock.remote_lines += u64::from(line.supplier != warehouse);
        self.stock.set(at, &stock);
        u64::from(self.items.get(line.item as usize - 1)) * u64::from(line.quantity)
    }

    fn payment(&self, payment: &Payment) -> Result<Reply, Refusal> {
        let at = self.district(payment.warehouse, payment.district)?;
        let Payment { customer_warehouse, customer_district, customer, amount, .. } = *payment;
        let (_, customer_at) = self.customer(customer_warehouse, customer_district, customer)?;
        if !(1..=MOST_PAID).contains(&amount) {
            return Err(Refusal::Malformed);
        }
        let warehouse_at = payment.warehouse as usize - 1;
        let mut warehouse = self.warehouses.get(warehouse_at);
        warehouse.paid += amount;
        self.warehouses.set(warehouse_at, &warehouse);
        let mut district = self.districts.get(at.0);
        district.paid += amount;
        self.districts.set(at.0, &district);
        let mut customer = self.customers.get(customer_at);
        customer.balance -= amount as i64;
        customer.paid += amount;
        customer.payments += 1;
        self.customers.set(customer_at, &customer);
        Ok(Reply::Paid { balance: customer.balance })
    }

    fn order_status(&self, warehouse: u32, district: u32, customer: u32) -> Result<Reply, Refusal> {
        let (at, customer_at) = self.customer(warehouse, district, customer)?;
        let row = self.customers.get(customer_at);
        let Customer { balance, paid, payments, deliveries, orders, last_order, .. } = row;
        let order = self.order(at, last_order);
        let lines = match &order {
            Some(order) => {
                let first = self.first_line(at, last_order);
                let rows = first..first + order.lines as usize;
                rows.map(|index| RequestedLine::of(self.lines.get(index))).collect()
            }
            None => Vec::new(),
        };
        let carrier = order.map_or(0, |order| order.carrier);
        Ok(Reply::Status(CustomerStatus {
            balance,
            paid,
            payments,
            deliveries,
            orders,
            last_order,
            carrier,
            lines,
        }))
    }

    fn delivery(&self, warehouse: u32, carrier: u32) -> Result<Reply, Refusal> {
        if !(1..=CARRIERS).contains(&carrier) {
            return Err(Refusal::Malformed);
        }
        let mut orders = 0;
        for number in 1..=DISTRICTS {
            let at = self.district(warehouse, number)?;
            for _ in 0..DELIVERED_AT_ONCE {
                orders += u32::from(self.deliver_oldest(at, carrier));
            }
        }
        Ok(Reply::Delivered { orders })
    }

    /// Delivers the oldest order of a district that is not delivered. Returns false if all are.
    fn deliver_oldest(&self, at: DistrictIndex, carrier: u32) -> bool {
        let mut district = self.districts.get(at.0);
        let number = district.undelivered;
        if number == district.next_order {
            return false;
        }
        let order_at = self.order_index(at, number);
        let mut order = self.orders.get(order_at);
        order.carrier = carrier;
        self.orders.set(order_at, &order);
        let (first, mut amount) = (self.first_line(at, number), 0);
        for index in first..first + order.lines as usize {
            let mut line = self.lines.get(index);
            amount += line.amount;
            line.is_delivered = 1;
            self.lines.set(index, &line);
        }
        district.undelivered += 1;
        district.delivered += amount;
        self.districts.set(at.0, &district);
        let customer_at = self.customer_index(at, order.customer);
        let mut customer = self.customers.get(customer_at);
        customer.balance += amount as i64;
        customer.deliveries += 1;
        self.customers.set(customer_at, &customer);
        true
    }

    fn stock_level(&self, warehouse: u32, district: u32, threshold: u32) -> Result<Reply, Refusal> {
        let at = self.district(warehouse, district)?;
        let next = self.districts.get(at.0).next_order;
        let mut items = Vec::with_capacity(LAST_ORDERS as usize * MOST_LINES);
        for number in next.saturating_sub(LAST_ORDERS)..next {
            let Some(order) = self.order(at, number) else { continue };
            let first = self.first_line(at, number);
            items.extend(
                (first..first + order.lines as usize).map(|index| self.lines.get(index).item),
            );
        }
        items.sort_unstable();
        items.dedup();
        let is_low =
            |item: &&u32| self.stock.get(self.stock_index(warehouse, **item)).quantity < threshold;
        Ok(Reply::Low { items: items.iter().filter(is_low).count() as u32 })
    }

    fn district(&self, warehouse: u32, district: u32) -> Result<DistrictIndex, Refusal> {
        let is_there =
            (1..=self.scale.warehouses).contains(&warehouse) && (1..=DISTRICTS).contains(&district);
        if is_there { Ok(self.district_index(warehouse, district)) } else { Err(Refusal::NoPlace) }
    }

    fn customer(
        &self,
        warehouse: u32,
        district: u32,
        customer: u32,
    ) -> Result<(DistrictIndex, usize), Refusal> {
        let at = self.district(warehouse, district)?;
        if !(1..=self.scale.customers).contains(&customer) {
            return Err(Refusal::NoPlace);
        }
        Ok((at, self.customer_index(at, customer)))
    }
}
