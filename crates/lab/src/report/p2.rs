//! Table 1 of P2: what its mutex costs, and what such mutexes cost here.

use super::{
    Page,
    items::{ItemTable, Published},
    svg::Escaped,
};
use crate::{
    kit::results::Results,
    published::{P2_MACHINE, P2_MUTEX},
};

/// What stands before the table.
const TEXT: &str = "What it costs to lock and to unlock a mutex that no other thread wants. P2 compared PTL, \
     whose threads are those of one process, and whose mutex is a variable that they change at user level, with its \
     own library, whose virtual processors are processes, and whose mutex is a semaphore of the kernel. It \
     published microseconds, and takes the difference to be that of the system calls. Here daiko is what is \
     like PTL, semop a semaphore of the kernel, and daiko-processes the mutex of fibers that processes run. Under \
     each stands how it relates to daiko here, and to PTL there.";

impl Page {
    /// The section, if there is anything to show.
    pub(super) fn p2(&mut self, results: &Results) {
        let table = table();
        let points = table.points(results);
        if points.is_empty() {
            return;
        }
        self.add(format_args!("<section><h2>Table 1 of P2</h2><p>{}</p>", Escaped(TEXT)));
        self.add(format_args!(r#"<p class="hint">published: {}.</p>"#, Escaped(P2_MACHINE)));
        self.items(&table, &points);
        self.0.push_str("</section>");
    }
}

fn table() -> ItemTable {
    let published = |[ptl, own]: [f64; 2]| {
        vec![
            Published { printed: ptl.to_string(), ratio: None },
            Published { printed: own.to_string(), ratio: Some(own / ptl) },
        ]
    };
    ItemTable {
        label: "table 1 of P2",
        heads: vec!["published, PTL, \u{b5}s".into(), "published, P2, \u{b5}s".into()],
        items: P2_MUTEX.map(|(item, times)| (item, published(times))).into(),
        baseline: "daiko",
    }
}
