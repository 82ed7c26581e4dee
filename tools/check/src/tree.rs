//! The modules of a crate, each with its file and the names that it declares.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proc_macro2::Ident;
use syn::{Item, ItemMod, UseTree};

use crate::attributes::{is_built, parts, string};

pub(crate) type ModuleId = usize;
pub(crate) type FileId = usize;
/// Returns the text of a file, or `None` if there is no such file.
pub(crate) type Read<'a> = dyn Fn(&Path) -> Option<String> + 'a;

/// A crate: the modules that a normal build reaches from one root file.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<SourceFile>,
    /// The root is the first.
    pub(crate) modules: Vec<Module>,
    /// The modules of each `macro_rules!`, since textual scope ignores the order of modules.
    pub(crate) macros: HashMap<String, Vec<ModuleId>>,
}

pub(crate) struct SourceFile {
    /// Relative to the workspace.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) syntax: Rc<syn::File>,
    /// The module that the file is.
    pub(crate) module: ModuleId,
}

#[derive(Default)]
pub(crate) struct Module {
    /// Below the crate: `["fiber", "control"]`.
    pub(crate) path: Vec<String>,
    pub(crate) file: FileId,
    pub(crate) parent: Option<ModuleId>,
    /// The names, imports in function bodies included as if they stood outside.
    pub(crate) names: HashMap<String, Vec<Definition>>,
    /// Paths of `use path::*`.
    pub(crate) globs: Vec<Vec<String>>,
}

#[derive(Clone)]
pub(crate) enum Definition {
    /// An item that this module defines.
    Item(ModuleId),
    Module(ModuleId),
    /// A `use` of this path, by the module that declares the name.
    Use(Vec<String>),
}

impl Tree {
    /// Reads the crate with the root file `root`, a path for `read`.
    pub(crate) fn read(root: &Path, read: &Read<'_>) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.add_file(read, root.to_owned(), true, None, Vec::new())?;
        Ok(tree)
    }

    /// Reads a crate from texts that stand in the test.
    #[cfg(test)]
    pub(crate) fn of(texts: &[(&str, &str)]) -> Self {
        let find = |path: &Path| texts.iter().find(|(name, _)| Path::new(name) == path);
        let read = |path: &Path| Some(find(path)?.1.to_owned());
        Self::read(Path::new(texts[0].0), &read).unwrap()
    }

    pub(crate) fn file_of(&self, module: ModuleId) -> FileId {
        self.modules[module].file
    }

    /// Returns true if `module` is a file that defines nothing: it declares modules and re-exports.
    pub(crate) fn is_table(&self, module: ModuleId) -> bool {
        let file = &self.files[self.file_of(module)];
        let defines = |item: &syn::Item| match item {
            syn::Item::Mod(child) => child.content.is_some(),
            item => !matches!(item, syn::Item::Use(_)),
        };
        file.module == module && !file.syntax.items.iter().any(defines)
    }

    /// The module `name` in `parent`, if it is built.
    pub(crate) fn child(&self, parent: ModuleId, name: &Ident) -> Option<ModuleId> {
        self.modules[parent].names.get(&name.to_string())?.iter().find_map(|definition| {
            match definition {
                Definition::Module(id) => Some(*id),
                _ => None,
            }
        })
    }

    fn add_file(
        &mut self,
        read: &Read<'_>,
        path: PathBuf,
        owns_folder: bool,
        parent: Option<ModuleId>,
        name: Vec<String>,
    ) -> Result<Option<ModuleId>, String> {
        let text = read(&path).ok_or_else(|| {
            format!("{}: no such file, but a `mod` names it; create it", path.display())
        })?;
        let syntax = syn::parse_file(&text).map_err(|error| unparsed(&path, &error))?;
        if !is_built(&syntax.attrs) {
            return Ok(None);
        }
        let folder = if owns_folder { path.with_file_name("") } else { path.with_extension("") };
        let (file, module) = (self.files.len(), self.modules.len());
        let syntax = Rc::new(syntax);
        self.files.push(SourceFile { path, text, syntax: syntax.clone(), module });
        self.modules.push(Module { path: name, file, parent, ..Module::default() });
        let place = Nest { read, folder, inline: false };
        self.add_items(module, &syntax.items, &place)?;
        Ok(Some(module))
    }

    fn add_items(
        &mut self,
        module: ModuleId,
        items: &[Item],
        place: &Nest<'_>,
    ) -> Result<(), String> {
        for item in items {
            if !is_built(parts(item).0) {
                continue;
            }
            match item {
                Item::Mod(item) => self.add_module(module, item, place)?,
                Item::Use(item) => {
                    for leaf in leaves(&item.tree) {
                        // An empty path leads out of the crate.
                        let path =
                            if item.leading_colon.is_some() { Vec::new() } else { leaf.path };
                        self.add_leaf(module, Leaf { path, ..leaf });
                    }
                }
                item => {
                    let (attributes, Some(name)) = parts(item) else { continue };
                    self.declare(module, name, Definition::Item(module));
                    if let Item::Macro(_) = item {
                        self.macros.entry(name.to_string()).or_default().push(module);
                    }
                    if attributes.iter().any(|one| one.path().is_ident("macro_export")) {
                        self.declare(0, name, Definition::Item(module));
                    }
                }
            }
        }
        Ok(())
    }

    fn add_module(
        &mut self,
        parent: ModuleId,
        item: &ItemMod,
        place: &Nest<'_>,
    ) -> Result<(), String> {
        let mut name = self.modules[parent].path.clone();
        name.push(item.ident.to_string());
        let folder = place.folder.join(item.ident.to_string());
        let id = if let Some((_, items)) = &item.content {
            let id = self.modules.len();
            let file = self.file_of(parent);
            self.modules.push(Module {
                path: name,
                file,
                parent: Some(parent),
                ..Module::default()
            });
            self.add_items(id, items, &Nest { folder, inline: true, ..*place })?;
            Some(id)
        } else if let Some((_, path)) = string(&item.attrs, "path") {
            let file = &self.files[self.file_of(parent)].path;
            let base = if place.inline { &place.folder } else { &file.with_file_name("") };
            self.add_file(place.read, normal(&base.join(path)), true, Some(parent), name)?
        } else {
            let flat = folder.with_extension("rs");
            let owns_folder = (place.read)(&flat).is_none();
            let path = if owns_folder { folder.join("mod.rs") } else { flat };
            self.add_file(place.read, path, owns_folder, Some(parent), name)?
        };
        if let Some(id) = id {
            self.declare(parent, &item.ident, Definition::Module(id));
        }
        Ok(())
    }

    /// Enters a name of a `use`.
    pub(crate) fn add_leaf(&mut self, module: ModuleId, leaf: Leaf) {
        let Module { names, globs, .. } = &mut self.modules[module];
        match leaf.name {
            None => globs.push(leaf.path),
            Some(name) => names.entry(name).or_default().push(Definition::Use(leaf.path)),
        }
    }

    fn declare(&mut self, module: ModuleId, name: &Ident, definition: Definition) {
        self.modules[module].names.entry(name.to_string()).or_default().push(definition);
    }
}

/// The folder of a module's children.
struct Nest<'a> {
    read: &'a Read<'a>,
    folder: PathBuf,
    /// Whether it is inside `mod name { .. }`, where `#[path]` counts from the folder of that name.
    inline: bool,
}

/// One name of a `use` tree.
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    /// The name that it declares; `None` for a glob.
    pub(crate) name: Option<String>,
    pub(crate) line: usize,
}

/// Lists the names of a `use` tree with their full paths.
pub(crate) fn leaves(tree: &UseTree) -> Vec<Leaf> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), &mut found);
    found
}

fn collect(tree: &UseTree, prefix: &mut Vec<String>, found: &mut Vec<Leaf>) {
    let line = |name: &Ident| name.span().start().line;
    let with = |prefix: &[String], name: &Ident| {
        let mut path = prefix.to_vec();
        if name != "self" || path.is_empty() {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(part) => {
            prefix.push(part.ident.to_string());
            collect(&part.tree, prefix, found);
            prefix.pop();
        }
        UseTree::Name(part) => {
            let path = with(prefix, &part.ident);
            found.push(Leaf { name: path.last().cloned(), path, line: line(&part.ident) });
        }
        UseTree::Rename(part) => {
            found.push(Leaf {
                path: with(prefix, &part.ident),
                name: Some(part.rename.to_string()),
                line: line(&part.ident),
            });
        }
        UseTree::Glob(star) => {
            let line = star.star_token.span.start().line;
            found.push(Leaf { path: prefix.clone(), name: None, line });
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, prefix, found)),
    }
}

/// The fault of a file that is no Rust.
pub(crate) fn unparsed(path: &Path, error: &syn::Error) -> String {
    format!("{}:{}: {error}; run `cargo check` first", path.display(), error.span().start().line)
}

/// Resolves `..` by its text, so that a file has one path.
fn normal(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(result.pop()),
            part => result.push(part),
        }
    }
    result
}
