//! The modules of a crate, each with its file and the names that it declares.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use proc_macro2::Ident;
use syn::{Attribute, Item, ItemMod, UseTree};

use crate::cfg::is_built;

pub(crate) type ModuleId = usize;
pub(crate) type FileId = usize;
/// Returns the text of a file, or `None` if there is no such file.
pub(crate) type Read<'a> = dyn Fn(&Path) -> Option<String> + 'a;

/// A crate: the modules that a normal build reaches from one root file.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
    /// The root is the first.
    pub(crate) modules: Vec<Module>,
    /// Where each `macro_rules!` is, since textual scope ignores the modules.
    pub(crate) macros: HashMap<String, Vec<ModuleId>>,
}

pub(crate) struct File {
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
    pub(crate) names: HashMap<String, Vec<Definition>>,
    /// Imports in function bodies, which only paths of that module may use.
    pub(crate) inner_names: HashMap<String, Vec<Definition>>,
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
    /// Reads the crate with the root file `root`, a path for `read`, as all others.
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
        let syntax = syn::parse_file(&text).map_err(|error| {
            format!(
                "{}:{}: {error}; run `cargo check` first",
                path.display(),
                error.span().start().line
            )
        })?;
        if !is_built(&syntax.attrs) {
            return Ok(None);
        }
        let folder = match owns_folder {
            true => path.with_file_name(""),
            false => path.with_extension(""),
        };
        let (file, module) = (self.files.len(), self.modules.len());
        let syntax = Rc::new(syntax);
        self.files.push(File { path, text, syntax: syntax.clone(), module });
        self.modules.push(Module { path: name, file, parent, ..Module::default() });
        let place = Place { read, folder, inline: false };
        self.add_items(module, &syntax.items, &place)?;
        Ok(Some(module))
    }

    fn add_items(
        &mut self,
        module: ModuleId,
        items: &[Item],
        place: &Place<'_>,
    ) -> Result<(), String> {
        for item in items {
            if !is_built(attributes(item)) {
                continue;
            }
            match item {
                Item::Mod(item) => self.add_module(module, item, place)?,
                Item::Use(item) => {
                    for leaf in leaves(&item.tree) {
                        // An empty path leads out of the crate.
                        let path =
                            if item.leading_colon.is_some() { Vec::new() } else { leaf.path };
                        self.add_leaf(module, Leaf { path, ..leaf }, false);
                    }
                }
                Item::Macro(item) => {
                    let Some(name) = &item.ident else { continue };
                    self.declare(module, name, Definition::Item(module));
                    self.macros.entry(name.to_string()).or_default().push(module);
                    if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
                    {
                        self.declare(0, name, Definition::Item(module));
                    }
                }
                Item::ForeignMod(block) => {
                    for item in &block.items {
                        if let syn::ForeignItem::Fn(item) = item {
                            self.declare(module, &item.sig.ident, Definition::Item(module));
                        }
                    }
                }
                item => {
                    if let Some(name) = item_name(item) {
                        self.declare(module, name, Definition::Item(module));
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
        place: &Place<'_>,
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
            self.add_items(id, items, &Place { folder, inline: true, ..*place })?;
            Some(id)
        } else if let Some(path) = explicit_path(&item.attrs) {
            let base = match place.inline {
                true => place.folder.clone(),
                false => self.files[self.file_of(parent)].path.with_file_name(""),
            };
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

    /// Enters a name of a `use`; `inner` if it stands in a function body.
    pub(crate) fn add_leaf(&mut self, module: ModuleId, leaf: Leaf, inner: bool) {
        let module = &mut self.modules[module];
        match leaf.name {
            None => module.globs.push(leaf.path),
            Some(name) => {
                let names = if inner { &mut module.inner_names } else { &mut module.names };
                names.entry(name).or_default().push(Definition::Use(leaf.path));
            }
        }
    }

    fn declare(&mut self, module: ModuleId, name: &Ident, definition: Definition) {
        self.modules[module].names.entry(name.to_string()).or_default().push(definition);
    }
}

/// Where the files of a module's children are.
struct Place<'a> {
    read: &'a Read<'a>,
    folder: PathBuf,
    /// Inside `mod name { .. }`, where `#[path]` counts from the folder of that name.
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

fn explicit_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
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

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn item_name(item: &Item) -> Option<&Ident> {
    Some(match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    })
}
