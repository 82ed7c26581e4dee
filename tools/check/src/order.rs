//! The order of a crate's modules, and imports against it.

use crate::cycles::cycles;
use crate::imports::Import;
use crate::list::{List, fault};
use crate::tree::{ModuleId, Tree};

/// The most files that any crate may allow a cycle.
const LARGEST_BOUND: usize = 8;

/// The statements of a crate's file `layers`.
///
/// A line holds modules that are peers, the upper lines importing from the lower:
///
/// ```text
/// cycle 2
/// client server
/// word
/// edge server -> client: the reason
/// ```
struct Order<'a> {
    list: &'a List,
    /// The modules from top to bottom, each with its line, which is its layer as well.
    entries: Vec<(usize, Vec<String>)>,
    edges: Vec<Edge>,
    /// The size of the largest cycle, and the line of that.
    bound: (usize, usize),
    /// The reason why imports against the order are counted only.
    unenforced: Option<&'a str>,
}

struct Edge {
    from: Vec<String>,
    to: Vec<String>,
    line: usize,
}

/// The result for a crate: one line for each fault, and a summary.
#[derive(Default)]
pub(crate) struct OrderReport {
    pub(crate) faults: Vec<String>,
    pub(crate) summary: String,
}

/// Compares the imports of the crate `name` with the order in `list`.
///
/// `is_forced` ignores that the order is not enforced.
pub(crate) fn check(
    name: &str,
    tree: &Tree,
    imports: &[Import],
    list: &List,
    is_forced: bool,
) -> OrderReport {
    let order = match Order::parse(list) {
        Ok(order) => order,
        Err(fault) => return OrderReport { faults: vec![fault], ..OrderReport::default() },
    };
    let mut faults = order.strangers(tree);
    let (against, needed) = order.against(tree, imports);
    for (edge, _) in order.edges.iter().zip(needed).filter(|(_, needed)| !needed) {
        faults.push(list.fault(edge.line, "no import needs this edge; delete it"));
    }
    let largest = cycles(tree, imports).first().map_or(1, Vec::len);
    let count = against.len();
    let mut summary = format!("{name}: {count} against the order, largest cycle {largest} files");
    if let (Some(reason), false) = (order.unenforced, is_forced) {
        summary += &format!("; not enforced: {reason}");
        return OrderReport { faults, summary };
    }
    faults.extend(against);
    let (bound, line) = order.bound;
    if largest != bound {
        let remedy = match largest > bound {
            true => format!("break it (`daiko-check layers --cycles {name}`)"),
            false => "lower the bound".to_owned(),
        };
        faults.push(
            list.fault(
                line,
                format!("the largest cycle has {largest} files, not {bound}; {remedy}"),
            ),
        );
    }
    OrderReport { faults, summary }
}

impl<'a> Order<'a> {
    fn parse(list: &'a List) -> Result<Self, String> {
        let mut order =
            Self { list, entries: Vec::new(), edges: Vec::new(), bound: (0, 0), unenforced: None };
        for (line, text) in list.entries() {
            match text.split_once(' ') {
                Some(("cycle", count)) => {
                    let count = count.parse().unwrap_or(usize::MAX);
                    if count > LARGEST_BOUND && order.unenforced.is_none() {
                        return Err(
                            list.fault(line, format!("write `cycle N`, N at most {LARGEST_BOUND}"))
                        );
                    }
                    order.bound = (count, line);
                }
                Some(("unenforced:", reason)) => order.unenforced = Some(reason),
                Some(("edge", edge)) => {
                    let edge = Edge::parse(edge, line);
                    order.edges.push(
                        edge.ok_or_else(|| list.fault(line, "write `edge FROM -> TO: REASON`"))?,
                    );
                }
                _ => {
                    order.entries.extend(text.split_whitespace().map(|entry| (line, names(entry))))
                }
            }
        }
        if order.bound.1 == 0 {
            return Err(
                list.fault(1, "no bound; add `cycle N`, the files of the largest import cycle")
            );
        }
        Ok(order)
    }

    /// Reports modules that only the order or only the crate knows.
    fn strangers(&self, tree: &Tree) -> Vec<String> {
        let mut faults = Vec::new();
        for (line, entry) in &self.entries {
            if !tree.modules.iter().any(|module| module.path == *entry) {
                faults.push(
                    self.list.fault(*line, format!("no module {}; delete it here", show(entry))),
                );
            }
        }
        for module in tree.modules.iter().filter(|module| module.path.len() == 1) {
            if self.entry(&module.path).is_none() {
                let name = &module.path[0];
                faults.push(self.list.fault(
                    1,
                    format!("module {name} is missing; enter it above all that it imports"),
                ));
            }
        }
        faults
    }

    /// Returns one fault for each import against the order, and whether each edge is needed.
    fn against(&self, tree: &Tree, imports: &[Import]) -> (Vec<String>, Vec<bool>) {
        let mut needed = vec![false; self.edges.len()];
        let mut faults = Vec::new();
        for import in imports {
            let (above, from) = self.place(tree, import.from);
            let (below, to) = self.place(tree, import.to);
            if from == to || above < below {
                continue;
            }
            if let Some(edge) =
                self.edges.iter().position(|edge| edge.from == from && edge.to == to)
            {
                needed[edge] = true;
                continue;
            }
            let relation = if above == below { "beside" } else { "above" };
            let (path, from, to) = (&import.path, show(from), show(to));
            let message = format!(
                "{path} imports {to}, which is {relation} {from} in {}; move the item down, or add `edge {from} -> {to}: REASON`",
                self.list.path.display(),
            );
            faults.push(fault(&tree.files[import.file].path, import.line, message));
        }
        (faults, needed)
    }

    /// Returns the layer and the entry of a module; the root file stands above all entries.
    fn place(&self, tree: &Tree, module: ModuleId) -> (usize, &[String]) {
        self.entry(&tree.modules[module].path).unwrap_or((0, &[]))
    }

    /// Returns the longest entry that contains the module.
    fn entry(&self, path: &[String]) -> Option<(usize, &[String])> {
        let entries = self.entries.iter().filter(|(_, entry)| path.starts_with(entry));
        let (line, entry) = entries.max_by_key(|(_, entry)| entry.len())?;
        Some((*line, entry))
    }
}

impl Edge {
    fn parse(text: &str, line: usize) -> Option<Self> {
        let (from, rest) = text.split_once(" -> ")?;
        let (to, _reason) = rest.split_once(": ")?;
        Some(Self { from: names(from), to: names(to), line })
    }
}

/// Splits a path; `crate` is the empty one.
fn names(path: &str) -> Vec<String> {
    path.split("::").filter(|name| *name != "crate").map(str::to_owned).collect()
}

fn show(entry: &[String]) -> String {
    if entry.is_empty() { "crate".to_owned() } else { entry.join("::") }
}

#[cfg(test)]
mod tests {
    use crate::imports::{Reading, imports};
    use crate::list::List;
    use crate::tree::Tree;

    fn faults(order: &str) -> Vec<String> {
        let mut tree = Tree::of(&[
            ("lib.rs", "mod high; mod low; pub use high::up; pub struct Root;"),
            ("high.rs", "pub fn up() { crate::low::down() } pub mod bottom;"),
            ("high/bottom.rs", "pub fn end() { super::up() }"),
            ("low.rs", "\npub fn down() { crate::up() }"),
        ]);
        let imports = imports(&mut tree, Reading::Defined);
        let list = &List::new("layers", order);
        super::check("x", &tree, &imports, list, false).faults
    }

    #[test]
    fn an_import_from_below_or_beside_fails_with_its_place() {
        let fault = "low.rs:2: crate::up imports high, which is above low in layers; move the item down, or add `edge low -> high: REASON`";
        assert_eq!(faults("cycle 2\nhigh\nlow"), [fault]);
        let fault = faults("cycle 2\nlow\nhigh");
        assert!(
            fault.len() == 1 && fault[0].starts_with("high.rs:1: crate::low::down"),
            "{fault:?}"
        );
        assert_eq!(faults("cycle 2\nlow high").len(), 2);
    }

    #[test]
    fn an_edge_needs_a_reason_and_an_import() {
        assert!(
            faults("# comment\ncycle 2\n\nhigh\nlow\nedge low -> high: it is called back")
                .is_empty()
        );
        assert_eq!(
            faults("cycle 2\nhigh\nlow\nedge low -> high:"),
            ["layers:4: write `edge FROM -> TO: REASON`"]
        );
        let unused = "cycle 2\nhigh\nlow\nedge low -> high: a\nedge high -> low: b";
        assert_eq!(faults(unused), ["layers:5: no import needs this edge; delete it"]);
    }

    #[test]
    fn the_longest_entry_rules() {
        let nested = faults("cycle 2\nhigh\nlow\nhigh::bottom\nedge low -> high: a");
        assert!(nested.len() == 1 && nested[0].contains("`edge high::bottom -> high: REASON`"));
    }

    #[test]
    fn the_order_knows_the_modules_of_the_crate_and_no_others() {
        let missing = "layers:1: module low is missing; enter it above all that it imports";
        assert_eq!(faults("cycle 2\nhigh")[0], missing);
        assert_eq!(
            faults("cycle 2\nunenforced: x\nhigh\nlow\nlower"),
            ["layers:5: no module lower; delete it here"]
        );
    }

    #[test]
    fn the_bound_is_the_largest_cycle() {
        let allowed = "high\nlow\nedge low -> high: a";
        assert_eq!(faults(&format!("cycle 3\n{allowed}")).len(), 1);
        assert_eq!(faults(&format!("cycle 1\n{allowed}")).len(), 1);
        assert_eq!(
            faults(&format!("cycle 9\n{allowed}")),
            ["layers:1: write `cycle N`, N at most 8"]
        );
        assert_eq!(faults(allowed).len(), 1);
        assert!(faults(&format!("unenforced: it is in flux\ncycle 9\n{allowed}")).is_empty());
    }
}
