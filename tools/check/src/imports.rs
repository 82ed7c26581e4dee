//! The imports of a crate: every path that leads to an item of another file of it.

use syn::visit::{self, Visit};
use syn::{Attribute, Block, Item, ItemMod, ItemUse, Macro, Path, Visibility};

use crate::cfg::is_built;
use crate::resolve::Target;
use crate::tokens::sequences;
use crate::tree::{self, FileId, ModuleId, Tree};

/// A path in one file and a module of another file that may define its item.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) file: FileId,
    pub(crate) line: usize,
    pub(crate) from: ModuleId,
    pub(crate) to: ModuleId,
    /// As written, without generic arguments.
    pub(crate) path: String,
}

/// Lists the imports between the files of a crate, in the order of files and lines.
pub(crate) fn imports(tree: &mut Tree) -> Vec<Import> {
    let mut written = Written { tree, module: 0, blocks: 0, paths: Vec::new(), inner: Vec::new() };
    for file in &written.tree.files {
        written.module = file.module;
        written.visit_file(&file.syntax);
    }
    let Written { paths, inner, .. } = written;
    for (module, leaf) in inner {
        tree.add_leaf(module, leaf, true);
    }
    let mut found: Vec<Import> = paths.iter().flat_map(|path| path.imports(tree)).collect();
    found.sort();
    found.dedup();
    found
}

/// A path as it is written.
struct Use {
    module: ModuleId,
    path: Vec<String>,
    line: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// In a `use`, which imports all meanings of the name.
    Import,
    /// Of a value or a type, so not of a module if the name has another meaning.
    Item,
    /// Of a macro, which textual scope may bring here.
    Macro,
}

impl Use {
    fn imports(&self, tree: &Tree) -> Vec<Import> {
        let mut targets = tree.resolve(self.module, &self.path);
        let is_item = |target: &Target| matches!(target, Target::Item(_));
        if self.kind != Kind::Import && targets.iter().any(is_item) {
            targets.retain(is_item);
        }
        let mut modules: Vec<ModuleId> = targets.into_iter().map(Target::module).collect();
        if self.kind == Kind::Macro && modules.is_empty() && self.path.len() == 1 {
            modules = tree.macros.get(&self.path[0]).cloned().unwrap_or_default();
        }
        let file = tree.file_of(self.module);
        if modules.iter().any(|module| tree.file_of(*module) == file) && self.kind == Kind::Macro {
            return Vec::new();
        }
        modules.retain(|module| tree.file_of(*module) != file);
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
    paths: Vec<Use>,
    inner: Vec<(ModuleId, tree::Leaf)>,
}

impl Written<'_> {
    fn note(&mut self, path: Vec<String>, line: usize, kind: Kind) {
        self.paths.push(Use { module: self.module, path, line, kind });
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
        if is_built(tree::attributes(item)) {
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
        for leaf in tree::leaves(&item.tree) {
            self.note(leaf.path.clone(), leaf.line, Kind::Import);
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
            self.note(names, line, Kind::Item);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let line = call.bang_token.span.start().line;
        let names = call.path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note(names, line, Kind::Macro);
        for sequence in sequences(&call.tokens) {
            let kind = if sequence.is_macro { Kind::Macro } else { Kind::Item };
            self.note(sequence.path, sequence.line, kind);
        }
    }

    // `pub(in path)` and attributes import nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
