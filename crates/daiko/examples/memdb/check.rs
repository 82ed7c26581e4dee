//! The conditions that hold between transactions: those of TPC-C, 3.3.2, that these tables have,
//! and sums that no half of a transaction keeps.

use super::schema::{DISTRICTS, District, MOST_LINES};
use super::tables::{DistrictIndex, Tables};

impl Tables {
    /// Checks all tables, while no transaction runs.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold, in one line.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (mut sold_lines, mut ordered_lines) = (0, 0);
        let (mut balance, mut customers_paid, mut delivered, mut paid) = (0, 0, 0, 0);
        for warehouse in 1..=self.scale.warehouses {
            let own = self.warehouses.get(warehouse as usize - 1).paid;
            let mut districts_paid = 0;
            for district in 1..=DISTRICTS {
                let name = format!("district {district} of warehouse {warehouse}");
                let at = self.district_index(warehouse, district);
                let row = self.districts.get(at.0);
                districts_paid += row.paid;
                delivered += row.delivered as i64;
                ordered_lines += row.lines;
                self.check_orders(&name, at, row)?;
                for customer in 1..=self.scale.customers {
                    let row = self.customers.get(self.customer_index(at, customer));
                    balance += row.balance;
                    customers_paid += row.paid;
                }
            }
            // Condition 1.
            let name = format!("payments of warehouse {warehouse}, of its districts");
            equal(&name, own, districts_paid)?;
            paid += own;
            for item in 1..=self.scale.items {
                sold_lines += self.stock.get(self.stock_index(warehouse, item)).lines;
            }
        }
        equal("payments of all warehouses, of all customers", paid, customers_paid)?;
        // Condition 12, of all customers together.
        let owed = balance + customers_paid as i64;
        equal("balances and payments of all customers, delivered amounts", owed, delivered)?;
        equal("lines of all stocks, of all orders", sold_lines, ordered_lines)
    }

    /// Checks the orders that a district keeps.
    fn check_orders(&self, name: &str, at: DistrictIndex, row: District) -> Result<(), String> {
        let (mut greatest, mut undelivered, mut lines) = (0, 0, 0);
        let mut stated_lines = 0;
        for place in 1..=self.scale.kept_orders() {
            let order = self.orders.get(self.order_index(at, place));
            let first = self.first_line(at, place);
            for index in first..first + MOST_LINES {
                let line = self.lines.get(index);
                if line.order == 0 {
                    continue;
                }
                lines += 1;
                equal(
                    &format!("{name}: the order of a line, that of its place"),
                    line.order,
                    order.number,
                )?;
                // Condition 7.
                let is_delivered = u32::from(order.carrier != 0);
                let of = format!("{name}: delivery of a line, of its order {}", order.number);
                equal(&of, line.is_delivered, is_delivered)?;
            }
            if order.number == 0 {
                continue;
            }
            greatest = greatest.max(order.number);
            stated_lines += order.lines;
            // Conditions 3 and 5: the undelivered orders are those from a number on.
            let is_new = order.number >= row.undelivered;
            let of = format!("{name}: order {} is new, has no carrier", order.number);
            equal(&of, is_new, order.carrier == 0)?;
            undelivered += u32::from(is_new);
        }
        // Condition 2.
        equal(&format!("{name}: the next order, the greatest one"), row.next_order - 1, greatest)?;
        let new = row.next_order - row.undelivered;
        equal(&format!("{name}: new orders by number, by count"), new, undelivered)?;
        // Condition 4.
        equal(&format!("{name}: lines by orders, by count"), stated_lines, lines)
    }
}

fn equal<T: PartialEq + std::fmt::Display>(what: &str, one: T, other: T) -> Result<(), String> {
    match one == other {
        true => Ok(()),
        false => Err(format!("{what}: {one} and {other} are not equal")),
    }
}
