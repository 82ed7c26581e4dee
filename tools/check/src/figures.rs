//! Figures of the code that no check bounds.

use std::collections::BTreeSet;
use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ImplItemFn, Item};

use crate::attributes::{is_built, parts};
use crate::comments::code_lines;
use crate::imports::{Import, Reading, imports};
use crate::tree::{ModuleId, Tree};

/// Modules, and the names in them that do not count.
pub(crate) struct Reach<'a> {
    pub(crate) modules: Vec<&'a str>,
    pub(crate) except: Vec<&'a str>,
}

impl<'a> Reach<'a> {
    /// Parses `MODULE... except NAME...`.
    pub(crate) fn parse(words: &[&'a str]) -> Self {
        let mut parts = words.split(|word| *word == "except");
        let mut part = || parts.next().unwrap_or_default().to_vec();
        Self { modules: part(), except: part() }
    }

    /// Lists the files outside the modules that have a path to an item in them.
    pub(crate) fn files<'t>(&self, tree: &'t mut Tree) -> BTreeSet<&'t Path> {
        let imports = imports(tree, Reading::Defined);
        let inside = |module: ModuleId| {
            let path = tree.modules[module].path.join("::") + "::";
            self.modules.iter().any(|outer| path.starts_with(&format!("{outer}::")))
        };
        let counts = |import: &&Import| {
            let name = import.path.rsplit("::").next().unwrap_or_default();
            let is_module = tree.modules[import.to].path.last().is_some_and(|last| last == name);
            inside(import.to) && !inside(import.from) && !is_module && !self.except.contains(&name)
        };
        imports.iter().filter(counts).map(|import| &*tree.files[import.file].path).collect()
    }
}

/// Counts the lines of a crate that have code, without tests and models.
///
/// Files of other folders, which the crate includes by a path or a symbolic link, do not count.
pub(crate) fn lines(tree: &Tree, is_own: impl Fn(&Path) -> bool) -> usize {
    let files = tree.files.iter().filter(|file| is_own(&file.path));
    files
        .map(|file| {
            let mut unbuilt = Unbuilt(Vec::new());
            unbuilt.visit_file(&file.syntax);
            let built = |line: &usize| {
                !unbuilt.0.iter().any(|(first, last)| (first..=last).contains(&line))
            };
            code_lines(&file.text).iter().filter(|line| built(line)).count()
        })
        .sum()
}

/// The first and last lines of items that only tests and models build.
struct Unbuilt(Vec<(usize, usize)>);

impl Unbuilt {
    fn note(&mut self, item: &impl Spanned) {
        let span = item.span();
        self.0.push((span.start().line, span.end().line));
    }
}

impl<'ast> Visit<'ast> for Unbuilt {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_built(parts(item).0) {
            visit::visit_item(self, item);
        } else {
            self.note(item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_built(&item.attrs) {
            self.note(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Reach, lines};
    use crate::tree::Tree;

    #[test]
    fn lines_without_code_or_for_tests_do_not_count() {
        let text = "//! Doc.\n\nfn a() { // yes\n}\n/* no\n */ const B: &str = \"\n// yes\";\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\nimpl D {\n    #[cfg(test)]\n    fn e() {}\n}";
        let tree = Tree::of(&[("a/lib.rs", text)]);
        assert_eq!(lines(&tree, |path| path.starts_with("a")), 6);
        assert_eq!(lines(&tree, |path| path.starts_with("b")), 0);
    }

    #[test]
    fn a_file_that_reaches_in_is_counted_once_unless_all_its_names_are_excepted() {
        let count = |except: &[&str]| {
            let mut tree = Tree::of(&[
                (
                    "lib.rs",
                    "mod target; mod once; mod only_module; mod excepted; mod other { pub fn f() {} }",
                ),
                (
                    "target.rs",
                    "use crate::other; mod inner; pub fn one() {} pub fn two() { other::f() } pub fn call() {}",
                ),
                ("target/inner.rs", "fn f() { super::one() }"),
                ("once.rs", "use crate::target; fn f() { target::one(); crate::target::two() }"),
                ("only_module.rs", "use crate::target;"),
                ("excepted.rs", "fn f() { crate::target::call() }"),
            ]);
            Reach::parse(&[&["target", "except"], except].concat()).files(&mut tree).len()
        };
        assert_eq!(count(&[]), 2);
        assert_eq!(count(&["call"]), 1);
        assert_eq!(count(&["call", "one", "two"]), 0);
    }
}
