//! Links to items, in the pages that rustdoc has written.

use std::path::{Path, PathBuf};

/// A folder of rustdoc, and its place in the site.
pub(crate) struct Reference {
    pub(crate) folder: PathBuf,
}

/// The place of the reference in the site.
pub(crate) const PLACE: &str = "api";

/// Prefixes of the pages of items, in the order in which a name is looked up.
const KINDS: [&str; 9] =
    ["struct", "enum", "trait", "fn", "macro", "type", "constant", "static", "union"];
/// Beginnings of the ids of an item's parts.
const PARTS: [&str; 5] = ["method", "tymethod", "variant", "structfield", "associatedconstant"];

impl Reference {
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        if folder.join("daiko/index.html").exists() {
            return Ok(Reference { folder: folder.to_owned() });
        }
        Err(format!("{} has no pages of rustdoc: build them by make docs", folder.display()))
    }

    /// Returns the page of an item of the crate `daiko`, with its fragment, relative to the site.
    ///
    /// `path` is as in a link of rustdoc: `crate::time::sleep`, `crate::Builder::on`,
    /// `crate::sync::Mutex#panics`.
    pub(crate) fn item(&self, path: &str) -> Option<String> {
        let (path, fragment) = match path.split_once('#') {
            Some((path, fragment)) => (path, Some(fragment)),
            None => (path, None),
        };
        let path = path.strip_prefix("crate")?.trim_end_matches("()").trim_end_matches('!');
        let names: Vec<&str> = path.split("::").filter(|name| !name.is_empty()).collect();
        let page = match fragment {
            None => self.page(&names).or_else(|| self.part(&names))?,
            Some(fragment) => {
                let page = self.page(&names)?;
                self.has_id(&page, fragment).then(|| format!("{page}#{fragment}"))?
            }
        };
        Some(format!("{PLACE}/{page}"))
    }

    /// Returns the first page of a crate, relative to the site.
    pub(crate) fn library(&self, name: &str) -> Option<String> {
        let page = format!("{}/index.html", name.replace('-', "_"));
        self.folder.join(&page).exists().then(|| format!("{PLACE}/{page}"))
    }

    /// Lists the crates.
    pub(crate) fn crates(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| self.library(name).is_some()).collect();
        names.sort();
        names
    }

    fn page(&self, names: &[&str]) -> Option<String> {
        let module: String = names.iter().map(|name| format!("{name}/")).collect();
        let of_kind = |kind: &&str| {
            let (name, modules) = names.split_last()?;
            let modules: String = modules.iter().map(|name| format!("{name}/")).collect();
            Some(format!("daiko/{modules}{kind}.{name}.html"))
        };
        // A function and a module may share a name; the link with `()` names the function.
        let pages = KINDS.iter().filter_map(of_kind).chain([format!("daiko/{module}index.html")]);
        pages.into_iter().find(|page| self.folder.join(page).exists())
    }

    fn part(&self, names: &[&str]) -> Option<String> {
        let (name, owner) = names.split_last()?;
        let page = self.page(owner)?;
        let id = PARTS.iter().map(|part| format!("{part}.{name}"));
        let id = id.into_iter().find(|id| self.has_id(&page, id))?;
        Some(format!("{page}#{id}"))
    }

    fn has_id(&self, page: &str, id: &str) -> bool {
        std::fs::read_to_string(self.folder.join(page))
            .is_ok_and(|html| html.contains(&format!("id=\"{id}\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_their_parts_are_found() {
        let folder = std::env::temp_dir().join(format!("daiko-site-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("daiko/time")).unwrap();
        let page = |path: &str, text: &str| std::fs::write(folder.join("daiko").join(path), text);
        page("index.html", "").unwrap();
        page("time/index.html", "").unwrap();
        page("time/fn.sleep.html", "").unwrap();
        page("struct.Builder.html", "<h4 id=\"method.on\"> <h2 id=\"panics\">").unwrap();
        let reference = Reference::new(&folder).unwrap();
        let item = |path| reference.item(path);
        assert_eq!(item("crate::time").unwrap(), "api/daiko/time/index.html");
        assert_eq!(item("crate::time::sleep()").unwrap(), "api/daiko/time/fn.sleep.html");
        assert_eq!(item("crate::Builder::on").unwrap(), "api/daiko/struct.Builder.html#method.on");
        assert_eq!(item("crate::Builder#panics").unwrap(), "api/daiko/struct.Builder.html#panics");
        assert_eq!(item("crate::Builder#errors"), None);
        assert_eq!(item("crate::Builder::off"), None);
        assert_eq!(item("std::thread"), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
