//! The order of a crate's modules, and imports against it.

use std::path::Path;

use crate::cycles::cycles;
use crate::imports::Import;
use crate::tree::{ModuleId, Tree};

/// What the file `layers` of a crate states.
///
/// A line holds modules that are peers, the upper lines importing from the lower:
///
/// ```text
/// cycle 2
/// client server
/// word
/// edge server -> client: its tests end where the client's begin
/// ```
#[derive(Default)]
struct Order {
    /// From top to bottom; the root file stands above all.
    layers: Vec<Vec<Vec<String>>>,
    lines: Vec<usize>,
    edges: Vec<Edge>,
    /// The most files that one cycle may have, and the line of that.
    bound: (usize, usize),
    /// Why imports against the order are counted only.
    unenforced: Option<String>,
}

struct Edge {
    from: Vec<String>,
    to: Vec<String>,
    line: usize,
}

/// The most files that any crate may allow a cycle.
const LARGEST_BOUND: usize = 8;

/// What a check found: one line for each fault, and a summary.
pub(crate) struct Outcome {
    pub(crate) faults: Vec<String>,
    pub(crate) summary: String,
}

/// Compares the imports of the crate `name` with the order that `text`, the file at `path`, states.
///
/// `forced` ignores that the order is not enforced.
pub(crate) fn check(
    name: &str,
    tree: &Tree,
    imports: &[Import],
    path: &Path,
    text: &str,
    forced: bool,
) -> Outcome {
    let order = match Order::parse(text) {
        Ok(order) => order,
        Err((line, fault)) => {
            let faults = vec![format!("{}:{line}: {fault}", path.display())];
            return Outcome { faults, summary: String::new() };
        }
    };
    let mut faults = order.strangers(tree, path);
    let against = order.against(tree, imports, path, &mut faults);
    let largest = cycles(tree, imports).first().map_or(1, Vec::len);
    let summary =
        format!("{name}: {} against the order, largest cycle {largest} files", against.len());
    if let (Some(reason), false) = (&order.unenforced, forced) {
        return Outcome { faults, summary: format!("{summary}; not enforced: {reason}") };
    }
    faults.extend(against);
    let (bound, line) = order.bound;
    let place = format!("{}:{line}", path.display());
    if largest > bound {
        faults.push(format!(
            "{place}: a cycle has {largest} files, more than {bound}; `daiko-check layers --cycles {name}` lists them"
        ));
    } else if largest < bound {
        faults.push(format!(
            "{place}: the largest cycle has {largest} files; state that in place of {bound}"
        ));
    }
    Outcome { faults, summary }
}

impl Order {
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut order = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            let fault = |remedy: &str| Err((line, remedy.to_owned()));
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            match text.split_once(' ') {
                Some(("cycle", count)) => match count.parse() {
                    Ok(count) if count <= LARGEST_BOUND => order.bound = (count, line),
                    // A count that is not enforced yet.
                    Ok(count) if order.unenforced.is_some() => order.bound = (count, line),
                    _ => return fault(&format!("`cycle` takes a number up to {LARGEST_BOUND}")),
                },
                Some(("unenforced:", reason)) => order.unenforced = Some(reason.to_owned()),
                Some(("edge", edge)) => match Edge::parse(edge, line) {
                    Some(edge) => order.edges.push(edge),
                    None => return fault("write `edge FROM -> TO: REASON`"),
                },
                _ => {
                    order.layers.push(text.split_whitespace().map(names).collect());
                    order.lines.push(line);
                }
            }
        }
        if order.bound.1 == 0 {
            return Err((
                1,
                "no bound; add `cycle N`, the files of the largest import cycle".to_owned(),
            ));
        }
        Ok(order)
    }

    /// Reports modules that only the order or only the crate knows.
    fn strangers(&self, tree: &Tree, path: &Path) -> Vec<String> {
        let mut faults = Vec::new();
        let exists = |entry: &[String]| tree.modules.iter().any(|module| module.path == entry);
        for (layer, line) in self.layers.iter().zip(&self.lines) {
            for entry in layer.iter().filter(|entry| !exists(entry)) {
                faults.push(format!(
                    "{}:{line}: no module {}; delete it here",
                    path.display(),
                    entry.join("::")
                ));
            }
        }
        for module in tree.modules.iter().filter(|module| module.path.len() == 1) {
            if self.entry(&module.path).is_none() {
                faults.push(format!(
                    "{}: module {} is missing; enter it above all that it imports",
                    path.display(),
                    module.path[0],
                ));
            }
        }
        faults
    }

    /// Returns one line for each import against the order, and reports edges that none needs.
    fn against(
        &self,
        tree: &Tree,
        imports: &[Import],
        path: &Path,
        faults: &mut Vec<String>,
    ) -> Vec<String> {
        let mut used = vec![false; self.edges.len()];
        let mut found = Vec::new();
        for import in imports {
            let (from, to) = (self.place(tree, import.from), self.place(tree, import.to));
            if from.entry == to.entry || from.layer < to.layer {
                continue;
            }
            let edge = |edge: &Edge| edge.from == from.entry && edge.to == to.entry;
            if let Some(edge) = self.edges.iter().position(edge) {
                used[edge] = true;
                continue;
            }
            let relation = if from.layer == to.layer { "beside" } else { "above" };
            let (from, to) = (show(from.entry), show(to.entry));
            found.push(format!(
                "{}:{}: {} imports {to}, which is {relation} {from} in {}; move the item down, or add `edge {from} -> {to}: REASON`",
                tree.files[import.file].path.display(),
                import.line,
                import.path,
                path.display(),
            ));
        }
        for edge in self.edges.iter().zip(used).filter(|(_, used)| !used).map(|(edge, _)| edge) {
            faults.push(format!(
                "{}:{}: no import needs this edge; delete it",
                path.display(),
                edge.line
            ));
        }
        found
    }

    /// The entry that rules a module: the longest that contains it.
    fn place<'a>(&'a self, tree: &'a Tree, module: ModuleId) -> Place<'a> {
        self.entry(&tree.modules[module].path).unwrap_or(Place { layer: 0, entry: &[] })
    }

    fn entry(&self, path: &[String]) -> Option<Place<'_>> {
        let places = (1..).zip(&self.layers);
        let entries = places
            .flat_map(|(layer, entries)| entries.iter().map(move |entry| Place { layer, entry }));
        entries.filter(|place| path.starts_with(place.entry)).max_by_key(|place| place.entry.len())
    }
}

struct Place<'a> {
    /// From 1, the top; 0 for the root file.
    layer: usize,
    entry: &'a [String],
}

impl Edge {
    fn parse(text: &str, line: usize) -> Option<Self> {
        let (from, rest) = text.split_once(" -> ")?;
        let (to, reason) = rest.split_once(": ")?;
        (!reason.trim().is_empty()).then(|| Self { from: names(from), to: names(to), line })
    }
}

fn names(path: &str) -> Vec<String> {
    path.split("::").filter(|name| *name != "crate").map(str::to_owned).collect()
}

fn show(entry: &[String]) -> String {
    if entry.is_empty() { "crate".to_owned() } else { entry.join("::") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::imports::{Reading, imports};
    use crate::tree::Tree;

    fn faults(order: &str) -> Vec<String> {
        let mut tree = Tree::of(&[
            ("lib.rs", "mod high; mod low; pub use high::up; pub struct Root;"),
            ("high.rs", "pub fn up() { crate::low::down() } pub mod bottom;"),
            ("high/bottom.rs", ""),
            ("low.rs", "\npub fn down() { crate::up() }"),
        ]);
        let imports = imports(&mut tree, Reading::Defined);
        super::check("x", &tree, &imports, Path::new("layers"), order, false).faults
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
        let nested = "cycle 2\nhigh\nlow\nhigh::bottom\nedge low -> high: a";
        assert!(faults(nested).is_empty());
    }

    #[test]
    fn the_order_knows_the_modules_of_the_crate_and_no_others() {
        let missing = "layers: module low is missing; enter it above all that it imports";
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
            ["layers:1: `cycle` takes a number up to 8"]
        );
        assert_eq!(faults(allowed).len(), 1);
        assert!(faults(&format!("unenforced: it is in flux\ncycle 9\n{allowed}")).is_empty());
    }
}
