//! The imports of a crate: every path that leads to an item of another file of it.

use syn::visit::{self, Visit};
use syn::{Attribute, Block, Item, ItemMod, ItemUse, Macro, Path, Visibility};

use crate::attributes::{is_built, parts};
use crate::resolve::Destination;
use crate::tokens::sequences;
use crate::tree::{FileId, Leaf, ModuleId, Tree, leaves};

/// A path in one file and a module of another file that may define its item.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) file: FileId,
    pub(crate) line: usize,
    pub(crate) from: ModuleId,
    pub(crate) to: ModuleId,
    /// The path as written, without generic arguments.
    pub(crate) path: String,
}

/// The file that a path imports.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reading {
    /// The file that defines the item, wherever it is re-exported.
    Defined,
    /// The file of the module that the path names last, though it may only re-export the item.
    Named,
}

/// Lists the imports between the files of a crate, in the order of files and lines.
pub(crate) fn imports(tree: &mut Tree, reading: Reading) -> Vec<Import> {
    let mut written = Written { tree, module: 0, blocks: 0, paths: Vec::new(), inner: Vec::new() };
    for file in &written.tree.files {
        written.module = file.module;
        written.visit_file(&file.syntax);
    }
    let Written { paths, inner, .. } = written;
    for (module, leaf) in inner {
        tree.add_leaf(module, leaf);
    }
    let mut found: Vec<Import> =
        paths.iter().flat_map(|path| path.imports(tree, reading)).collect();
    found.sort();
    found.dedup();
    found
}

/// A path as it is written.
struct WrittenPath {
    module: ModuleId,
    path: Vec<String>,
    line: usize,
    kind: PathKind,
}

#[derive(Clone, Copy, PartialEq)]
enum PathKind {
    /// A `use`, which imports all meanings of the name.
    Import,
    /// A value or a type, so not a module if the name has another meaning.
    Item,
    /// A macro, which textual scope may bring here.
    Macro,
}

impl WrittenPath {
    fn imports(&self, tree: &Tree, reading: Reading) -> Vec<Import> {
        let mut targets = tree.resolve(self.module, &self.path);
        if let (Reading::Named, [outer @ .., _]) = (reading, &self.path[..]) {
            let is_module = |target: &Destination| matches!(target, Destination::Module(_));
            let named = tree.resolve(self.module, outer);
            if named.iter().any(is_module) && !targets.iter().all(is_module) {
                targets = named;
            }
        }
        if reading == Reading::Defined {
            // Only an item that is reached through a table is imported, by a path of its own.
            let is_table = |target: &Destination| matches!(target, Destination::Module(id) if tree.is_table(*id));
            targets.retain(|target| !is_table(target));
        }
        let is_item = |target: &Destination| matches!(target, Destination::Item(_));
        if self.kind != PathKind::Import && targets.iter().any(is_item) {
            targets.retain(is_item);
        }
        let mut modules: Vec<ModuleId> = targets.into_iter().map(Destination::module).collect();
        if self.kind == PathKind::Macro && modules.is_empty() && self.path.len() == 1 {
            modules = tree.macros.get(&self.path[0]).cloned().unwrap_or_default();
        }
        let file = tree.file_of(self.module);
        if self.kind == PathKind::Macro
            && modules.iter().any(|module| tree.file_of(*module) == file)
        {
            return Vec::new();
        }
        modules.retain(|module| tree.file_of(*module) != file);
        if self.kind != PathKind::Import && tree.is_imported(self.module, &self.path[0]) {
            // The `use` stands for itself. A path through it may end in a further file.
            let used = tree.resolve(self.module, &self.path[..1]);
            modules.retain(|module| !used.contains(&Destination::Item(*module)));
        }
        let import = |to| Import {
            file,
            line: self.line,
            from: self.module,
            to,
            path: self.path.join("::"),
        };
        modules.into_iter().map(import).collect()
    }
}

/// Collects the paths of a file.
struct Written<'a> {
    tree: &'a Tree,
    module: ModuleId,
    /// How many function bodies enclose the current node.
    blocks: usize,
    paths: Vec<WrittenPath>,
    /// Imports in function bodies.
    inner: Vec<(ModuleId, Leaf)>,
}

impl Written<'_> {
    fn note(&mut self, path: Vec<String>, line: usize, kind: PathKind) {
        self.paths.push(WrittenPath { module: self.module, path, line, kind });
    }
}

/// Leaves out nodes that only tests and models build.
macro_rules! built {
    ($($visit:ident: $node:ident,)*) => {
        $(fn $visit(&mut self, node: &'ast syn::$node) {
            if is_built(&node.attrs) {
                visit::$visit(self, node);
            }
        })*
    };
}

impl<'ast> Visit<'ast> for Written<'_> {
    built! {
        visit_arm: Arm,
        visit_expr_block: ExprBlock,
        visit_expr_call: ExprCall,
        visit_expr_if: ExprIf,
        visit_expr_macro: ExprMacro,
        visit_expr_method_call: ExprMethodCall,
        visit_field: Field,
        visit_field_value: FieldValue,
        visit_impl_item_const: ImplItemConst,
        visit_impl_item_fn: ImplItemFn,
        visit_local: Local,
        visit_stmt_macro: StmtMacro,
        visit_trait_item_fn: TraitItemFn,
        visit_variant: Variant,
    }

    fn visit_item(&mut self, item: &'ast Item) {
        if is_built(parts(item).0) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let outer = self.module;
        if item.content.is_some() {
            self.module = self.tree.child(outer, &item.ident).unwrap_or(outer);
            visit::visit_item_mod(self, item);
            self.module = outer;
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        for leaf in leaves(&item.tree) {
            self.note(leaf.path.clone(), leaf.line, PathKind::Import);
            if self.blocks > 0 {
                self.inner.push((self.module, leaf));
            }
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.blocks += 1;
        visit::visit_block(self, block);
        self.blocks -= 1;
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            let line = path.segments[0].ident.span().start().line;
            let names = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.note(names, line, PathKind::Item);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let line = call.bang_token.span.start().line;
        let names = call.path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note(names, line, PathKind::Macro);
        for sequence in sequences(&call.tokens) {
            let kind = if sequence.is_macro { PathKind::Macro } else { PathKind::Item };
            self.note(sequence.path, sequence.line, kind);
        }
    }

    // `pub(in path)` and attributes import nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

#[cfg(test)]
mod tests {
    use super::Reading;
    use crate::tree::Tree;

    /// The imports of `a.rs`, as `path -> file`, beside these files.
    fn of_a(text: &str) -> Vec<String> {
        let mut tree = Tree::of(&[
            (
                "lib.rs",
                "mod a; mod b; mod c; mod table; pub use b::{Deep, inner::twice}; pub use c::c; pub use std::mem as outer; mod d { } pub use b::inner::twice as d;",
            ),
            ("a.rs", text),
            (
                "b/mod.rs",
                "pub mod deep; pub mod inner; pub use self::deep::Deep; pub use deep::*; pub fn own() {} macro_rules! textual { () => {} } #[macro_export] macro_rules! public { () => {} }",
            ),
            (
                "b/deep.rs",
                "pub struct Deep; pub fn globbed() {} #[cfg(test)] mod tests { use super::super::own; }",
            ),
            ("b/inner.rs", "pub fn twice() {}"),
            ("table/mod.rs", "pub mod leaf; pub use self::leaf::twice;"),
            ("table/leaf.rs", "pub fn twice() {}"),
            (
                "c.rs",
                "pub fn c() {} pub enum Kind { One } pub(crate) use crate::b::own as renamed;",
            ),
        ]);
        let found = super::imports(&mut tree, Reading::Defined);
        let in_a = found.iter().filter(|one| tree.files[one.file].path.ends_with("a.rs"));
        let show = |one: &super::Import| {
            format!("{} -> {}", one.path, tree.files[tree.file_of(one.to)].path.display())
        };
        let mut shown: Vec<String> = in_a.map(show).collect();
        shown.sort();
        shown
    }

    #[test]
    fn a_use_leads_to_the_file_that_defines_the_item() {
        assert_eq!(of_a("use crate::Deep;"), ["crate::Deep -> b/deep.rs"]);
        assert_eq!(
            of_a("use crate::{b::{own, inner::twice as x}, c::*};"),
            [
                "crate::b::inner::twice -> b/inner.rs",
                "crate::b::own -> b/mod.rs",
                "crate::c -> c.rs"
            ]
        );
        assert_eq!(of_a("use super::b::globbed;"), ["super::b::globbed -> b/deep.rs"]);
        assert_eq!(of_a("use crate::c::renamed;"), ["crate::c::renamed -> b/mod.rs"]);
        assert_eq!(of_a("use crate::outer;"), ["crate::outer -> lib.rs"]);
    }

    #[test]
    fn a_name_of_a_module_and_a_function_is_both_in_a_use_only() {
        assert_eq!(of_a("use crate::c;"), ["crate::c -> c.rs"]);
        assert_eq!(
            of_a("fn f() { crate::c(); crate::c::c() }"),
            ["crate::c -> c.rs", "crate::c::c -> c.rs"]
        );
    }

    #[test]
    fn a_function_is_not_the_module_of_its_name() {
        assert_eq!(of_a("fn f() { crate::d() }"), ["crate::d -> b/inner.rs"]);
        assert_eq!(of_a("use crate::d;"), ["crate::d -> b/inner.rs", "crate::d -> lib.rs"]);
    }

    #[test]
    fn a_name_that_a_macro_makes_is_its_module_s() {
        assert_eq!(of_a("use crate::b::made;"), ["crate::b::made -> b/mod.rs"]);
    }

    #[test]
    fn inline_paths_are_imports() {
        assert_eq!(
            of_a("fn f(x: &crate::Deep) { crate::b::own() }"),
            ["crate::Deep -> b/deep.rs", "crate::b::own -> b/mod.rs"]
        );
        assert_eq!(
            of_a("fn f(x: u8) { match x { super::c::Kind::One => {} } }"),
            ["super::c::Kind::One -> c.rs"]
        );
        assert_eq!(of_a("impl<T: crate::b::own> S for <T as crate::c::Kind>::X {}").len(), 2);
    }

    #[test]
    fn names_that_a_use_brought_lead_on() {
        assert_eq!(
            of_a("use crate::b; fn f() { b::inner::twice() }"),
            ["b::inner::twice -> b/inner.rs", "crate::b -> b/mod.rs"]
        );
        assert_eq!(of_a("fn f() { use crate::b; b::inner::twice() }").len(), 2);
        assert_eq!(of_a("use crate::b::{self}; fn f() { b::inner::twice() }").len(), 2);
        assert_eq!(of_a("mod here { use super::super::c::*; fn f() -> Kind {} }").len(), 2);
    }

    #[test]
    fn a_module_that_defines_nothing_is_no_import_but_an_item_reached_through_it_is() {
        assert_eq!(
            of_a("use crate::table; fn f() { table::leaf::twice() }"),
            ["table::leaf::twice -> table/leaf.rs"]
        );
        assert_eq!(of_a("use crate::table::twice;"), ["crate::table::twice -> table/leaf.rs"]);
    }

    #[test]
    fn macros_import_and_are_imported() {
        assert_eq!(
            of_a("fn f() { println!(\"{}\", crate::b::own()) }"),
            ["crate::b::own -> b/mod.rs"]
        );
        assert_eq!(of_a("macro_rules! m { () => { $crate::c::c() } }"), ["crate::c::c -> c.rs"]);
        assert_eq!(
            of_a("fn f() { textual!(); crate::public!() }"),
            ["crate::public -> b/mod.rs", "textual -> b/mod.rs"]
        );
        assert!(of_a("macro_rules! textual { () => {} } textual!();").is_empty());
    }

    #[test]
    fn tests_models_declarations_and_other_crates_are_no_imports() {
        assert!(of_a("#[cfg(test)] mod tests { use crate::c; }").is_empty());
        assert!(of_a("#[cfg(all(test, loom))] use crate::c;").is_empty());
        assert!(of_a("impl X { #[cfg(test)] fn f() { crate::c::c() } }").is_empty());
        assert!(of_a("pub(in crate::b) fn f() { let b = std::mem::take(x); ::c::c() }").is_empty());
        assert_eq!(of_a("use crate::b as c; use ::c::inner::twice;"), ["crate::b -> b/mod.rs"]);
        assert!(of_a("mod c {} fn f() { c::c(); self::c::c() }").is_empty());
    }
}
