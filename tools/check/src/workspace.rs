//! The crates of the workspace, as cargo describes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::tree::Tree;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) packages: Vec<Package>,
}

pub(crate) struct Package {
    pub(crate) name: String,
    /// Relative to the workspace.
    pub(crate) folder: PathBuf,
    /// The library's root file, or that of the first program if there is no library.
    pub(crate) root: PathBuf,
    /// Crates of this workspace, also those that only tests or the build script use.
    pub(crate) dependencies: Vec<String>,
}

impl Workspace {
    /// Reads a file of the workspace.
    pub(crate) fn text(&self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(self.root.join(path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads the modules of a crate.
    pub(crate) fn tree(&self, package: &Package) -> Result<Tree, String> {
        Tree::read(&package.root, &|path| self.text(path).ok())
    }

    /// Asks cargo, which finds the workspace of the current folder.
    pub(crate) fn read() -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .output()
            .map_err(|error| format!("cargo metadata: {error}; put cargo on the PATH"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let text: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        parse(&text).ok_or_else(|| {
            "cargo metadata: a field is missing; read its format, version 1".to_owned()
        })
    }
}

fn parse(text: &Value) -> Option<Workspace> {
    let root = Path::new(text["workspace_root"].as_str()?);
    let mut packages = Vec::new();
    for package in text["packages"].as_array()? {
        let relative =
            |path: &Value| Some(Path::new(path.as_str()?).strip_prefix(root).ok()?.to_owned());
        let targets = package["targets"].as_array()?;
        let is = |target: &&Value, kind: &str| target["kind"][0].as_str() == Some(kind);
        let Some(target) = targets
            .iter()
            .find(|target| is(target, "lib"))
            .or_else(|| targets.iter().find(|target| is(target, "bin")))
        else {
            continue;
        };
        let mut dependencies = Vec::new();
        for dependency in package["dependencies"].as_array()? {
            // A crate of the workspace is a path, so has no source.
            if dependency["source"].is_null() {
                dependencies.push(dependency["name"].as_str()?.to_owned());
            }
        }
        dependencies.sort();
        dependencies.dedup();
        packages.push(Package {
            name: package["name"].as_str()?.to_owned(),
            folder: relative(&package["manifest_path"])?.parent()?.to_owned(),
            root: relative(&target["src_path"])?,
            dependencies,
        });
    }
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Some(Workspace { root: root.to_owned(), packages })
}
