//! The tables of P5: what each item costs here, by method, and what it
//! published beside it.

use super::{
    Page,
    items::{ItemTable, Published},
};
use crate::{
    kit::results::Results,
    published::{P5_MACHINES, P5_RATIOS},
};

/// What stands before the table.
const TEXT: &str = "P5 is an evaluation of Linux's thread library NPTL beside its predecessor \
     LinuxThreads. It published the time of the one relative to the other's, on two machines; less is \
     faster, and such ratios carry over where nanoseconds do not. Beside them stands what the same items cost \
     here, in nanoseconds, and under each how that relates to NPTL here. P5 does not say how it \
     switched by a mutex, nor whether the threads that it joined had ended: here they have.";

/// The times of P5 themselves. Nothing is computed from them.
const FOOTNOTE: &str = "The times that P5 printed, as extracted from its text, which lost decimal points and \
     prefixes of units (x86 NPTL, LinuxThreads; MIPS NPTL, LinuxThreads): thread-info 54, 59; 150, 170. \
     mutex 64, 80; 570, 520. semaphore 400, 150; 1870, 960. switch-mutex 153, 274; 19.8, 62.9. \
     switch-semaphore 154, 283; 19.7, 59.8. switch-condvar 228, 309; 29.1, 64.6. create 12.5, 31.9; 146, 637. \
     join 5.7, 28.4; 805, 841. Internal evidence suggests nanoseconds for thread-info, 5.4 and 5.9 on x86, \
     and for mutex and semaphore; microseconds for all others, switches on x86 being hundredths (1.53, 2.74), \
     and the join of NPTL on MIPS 80.5. The semaphore's ratio on x86 is printed as 27, and is 2.7 by its times.";

impl Page {
    /// The section, if there is anything to show.
    pub(super) fn p5(&mut self, results: &Results) {
        let table = table();
        let points = table.points(results);
        if points.is_empty() {
            return;
        }
        let machines = P5_MACHINES.map(|(name, what)| format!("{name}: {what}")).join("; ");
        self.add(format_args!("<section><h2>The tables of P5</h2><p>{TEXT}</p>"));
        self.add(format_args!(r#"<p class="hint">{machines}.</p>"#));
        self.items(&table, &points);
        self.add(format_args!(r#"<p class="hint">{FOOTNOTE}</p></section>"#));
    }
}

fn table() -> ItemTable {
    // As printed: they have two digits.
    let printed = |ratio: f64| Published { printed: ratio.to_string(), ratio: None };
    ItemTable {
        label: "the tables of P5",
        heads: P5_MACHINES.map(|(machine, _)| format!("published, {machine}")).into(),
        items: P5_RATIOS.map(|(item, ratios)| (item, ratios.map(printed).into())).into(),
        baseline: "nptl",
    }
}
