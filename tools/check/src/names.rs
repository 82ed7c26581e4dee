//! Names that promise an answer, and names with many meanings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item, Signature, TraitItemFn, Visibility};

use crate::attributes::{is_built, parts};
use crate::list::{List, fault};
use crate::summaries::returns_bool;
use crate::tree::Tree;

/// The beginnings of a name that promise a `bool`.
const PREDICATES: [&str; 4] = ["is_", "has_", "was_", "can_"];
/// Most types of one name that other files see.
const SAME_NAME: usize = 3;

/// The places of names. A file counts once, though several crates include it.
#[derive(Default)]
pub(crate) struct Names {
    /// Functions that are named as predicates, and are none.
    functions: BTreeMap<String, Vec<Site>>,
    /// Types that other files see.
    types: BTreeMap<String, Vec<Site>>,
    /// The number of types of each name, private ones included.
    all_types: BTreeMap<String, usize>,
    /// The file that is being read.
    file: PathBuf,
    files: BTreeSet<PathBuf>,
}

type Site = (PathBuf, usize);

impl Names {
    /// Enters the names of a crate.
    pub(crate) fn add(&mut self, tree: &Tree) {
        for file in &tree.files {
            if self.files.insert(file.path.clone()) {
                self.file.clone_from(&file.path);
                self.visit_file(&file.syntax);
            }
        }
    }

    /// Compares the names with the list of those that are exempt, and returns the faults.
    ///
    /// An entry is `fn NAME` or `type NAME`.
    pub(crate) fn check(&self, exempt: &List) -> Vec<String> {
        let refused = self.refused();
        let mut faults = exempt.unneeded(|entry| refused.contains_key(entry));
        for (name, sites) in refused.iter().filter(|(name, _)| !exempt.contains(name)) {
            let (first, others) = sites.split_first().expect("a name is entered with its place");
            let message = if name.starts_with("fn ") {
                format!("{name} returns no bool; name it by its effect")
            } else {
                let others: Vec<String> = others
                    .iter()
                    .map(|(file, line)| format!("{}:{line}", file.display()))
                    .collect();
                format!("{name} is also defined at {}; name it by its subject", others.join(", "))
            };
            faults.push(fault(&first.0, first.1, message));
        }
        faults
    }

    /// Returns the largest numbers of types that share a name, as a sentence.
    pub(crate) fn most(&self) -> String {
        let visible = self.types.iter().map(|(name, sites)| (sites.len(), name)).max();
        let all = self.all_types.iter().map(|(name, count)| (*count, name)).max();
        let show = |most: Option<(usize, &String)>| most.map(|(n, name)| format!("{n} ({name})"));
        let (visible, all) = (show(visible).unwrap_or_default(), show(all).unwrap_or_default());
        format!("most types of one name: {visible}, with private types {all}")
    }

    /// Returns true if the entry of the list is needed.
    pub(crate) fn fails(&self, entry: &str) -> bool {
        self.refused().contains_key(entry)
    }

    /// Returns the entries that the list must have.
    fn refused(&self) -> BTreeMap<String, &[Site]> {
        let functions =
            self.functions.iter().map(|(name, sites)| (format!("fn {name}"), &sites[..]));
        let types = self.types.iter().filter(|(_, sites)| sites.len() > SAME_NAME);
        functions.chain(types.map(|(name, sites)| (format!("type {name}"), &sites[..]))).collect()
    }

    fn note_function(&mut self, signature: &Signature) {
        let name = signature.ident.to_string();
        if PREDICATES.iter().any(|start| name.starts_with(start))
            && !returns_bool(&signature.output)
        {
            enter(&mut self.functions, &self.file, &signature.ident);
        }
    }

    fn note_type(&mut self, visibility: &Visibility, name: &Ident) {
        *self.all_types.entry(name.to_string()).or_default() += 1;
        if !matches!(visibility, Visibility::Inherited) {
            enter(&mut self.types, &self.file, name);
        }
    }
}

fn enter(names: &mut BTreeMap<String, Vec<Site>>, file: &Path, name: &Ident) {
    let site = (file.to_owned(), name.span().start().line);
    names.entry(name.to_string()).or_default().push(site);
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_built(parts(item).0) {
            return;
        }
        match item {
            Item::Fn(item) => self.note_function(&item.sig),
            Item::Struct(item) => self.note_type(&item.vis, &item.ident),
            Item::Enum(item) => self.note_type(&item.vis, &item.ident),
            Item::Union(item) => self.note_type(&item.vis, &item.ident),
            Item::Trait(item) => self.note_type(&item.vis, &item.ident),
            Item::Type(item) => self.note_type(&item.vis, &item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if is_built(&item.attrs) {
            self.note_function(&item.sig);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.note_function(&item.sig);
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::Names;
    use crate::list::List;
    use crate::tree::Tree;

    fn faults(text: &str, exempt: &str) -> Vec<String> {
        let mut names = Names::default();
        names.add(&Tree::of(&[("a.rs", text)]));
        names.check(&List::new("list", exempt))
    }

    #[test]
    fn a_predicate_returns_a_bool() {
        let fault = ["a.rs:1: fn is_there returns no bool; name it by its effect"];
        assert_eq!(faults("fn is_there() -> Result<(), Error> {}", ""), fault);
        assert_eq!(faults("impl A { fn is_there(&self) {} }", ""), fault);
        assert_eq!(faults("trait A { fn is_there(&self) -> u8; }", ""), fault);
        assert_eq!(faults("fn was_it() {} fn has_it() {} fn can_it() {}", "").len(), 3);
    }

    #[test]
    fn a_bool_may_be_in_a_result() {
        for kind in
            ["bool", "Option<bool>", "Result<bool, Error>", "io::Result<bool>", "Poll<bool>"]
        {
            assert!(faults(&format!("fn is_there() -> {kind} {{}}"), "").is_empty(), "{kind}");
        }
        assert!(faults("#[cfg(test)] fn is_there() {} fn island() {}", "").is_empty());
    }

    #[test]
    fn four_visible_types_of_one_name_are_too_many() {
        let three = "pub struct A; mod b { pub enum A {} } mod c { pub(super) type A = u8; }";
        assert!(faults(&format!("{three} mod d {{ struct A; }}"), "").is_empty());
        let four = faults(&format!("{three}\nmod d {{ pub trait A {{}} }}"), "");
        assert_eq!(
            four,
            ["a.rs:1: type A is also defined at a.rs:1, a.rs:1, a.rs:2; name it by its subject"]
        );
    }

    #[test]
    fn an_exemption_must_be_needed() {
        assert!(faults("fn is_there() {}", "# names\nfn is_there\n").is_empty());
        assert_eq!(
            faults("", "fn is_there"),
            ["list:1: fn is_there needs no exemption; delete the line"]
        );
    }
}
