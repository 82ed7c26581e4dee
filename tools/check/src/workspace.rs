//! The crates of the workspace, as cargo describes them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::list::List;
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
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Result<String, String> {
        let path = path.as_ref();
        std::fs::read_to_string(self.root.join(path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns the path behind symbolic links, or `path` itself where no file is.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.root.join(path).canonicalize().unwrap_or_else(|_| path.to_owned())
    }

    pub(crate) fn list(&self, path: impl AsRef<Path>) -> Result<List, String> {
        Ok(List::new(path.as_ref(), self.text(&path)?))
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.root.join(path), text).map_err(|error| format!("{path}: {error}"))
    }

    /// Lists the files that git tracks, or all files if the sources come without git.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, String> {
        if !self.root.join(".git").exists() {
            let mut files = Vec::new();
            list(&self.root, Path::new(""), &mut files).map_err(|error| error.to_string())?;
            files.sort();
            return Ok(files);
        }
        let mut git = Command::new("git");
        let listed = output(git.args(["ls-files", "-z"]).current_dir(&self.root))?;
        let mut files: Vec<PathBuf> = listed.split_terminator('\0').map(PathBuf::from).collect();
        // A merge lists a file several times, and a deleted file may still be tracked.
        files.dedup();
        files.retain(|file| self.root.join(file).exists());
        Ok(files)
    }

    /// Returns the named crates, or all if none is named.
    pub(crate) fn chosen(&self, names: &[&str]) -> Result<Vec<&Package>, String> {
        let is_known = |name: &str| self.packages.iter().any(|package| package.name == name);
        if let Some(stranger) = names.iter().find(|name| !is_known(name)) {
            return Err(format!("{stranger}: no crate of this workspace; see tools/check/crates"));
        }
        let is_chosen = |package: &&Package| names.is_empty() || names.contains(&&*package.name);
        Ok(self.packages.iter().filter(is_chosen).collect())
    }

    /// Reads the modules of a crate.
    pub(crate) fn tree(&self, package: &Package) -> Result<Tree, String> {
        Tree::read(&package.root, &|path| self.text(path).ok())
    }

    /// Asks cargo, which finds the workspace of the current folder.
    pub(crate) fn read() -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let mut cargo = Command::new(cargo);
        let text =
            output(cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]))?;
        let text: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        parse(&text).ok_or_else(|| {
            "cargo metadata: a field is missing; read its format, version 1".to_owned()
        })
    }
}

/// Returns the output of a command.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| format!("{name}: {error}; put it on the PATH"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{name}: {error}"))
}

/// Enters the files below `folder`, but for build outputs and hidden files.
fn list(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in root.join(folder).read_dir()? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let is_left_out =
            name == "target" || name.to_string_lossy().starts_with('.') && name != ".ci";
        if kind.is_dir() && !is_left_out {
            list(root, &folder.join(name), files)?;
        } else if kind.is_file() && !is_left_out {
            files.push(folder.join(name));
        }
    }
    Ok(())
}

fn parse(text: &Value) -> Option<Workspace> {
    let root = Path::new(text["workspace_root"].as_str()?);
    let mut packages = Vec::new();
    for package in text["packages"].as_array()? {
        let relative =
            |path: &Value| Some(Path::new(path.as_str()?).strip_prefix(root).ok()?.to_owned());
        let targets = package["targets"].as_array()?;
        let is = |target: &&Value, kind: &str| target["kind"][0].as_str() == Some(kind);
        let library = targets.iter().find(|target| is(target, "lib") || is(target, "cdylib"));
        let root_target = library.or_else(|| targets.iter().find(|target| is(target, "bin")))?;
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
            root: relative(&root_target["src_path"])?,
            dependencies,
        });
    }
    packages.sort_by(|one, other| one.name.cmp(&other.name));
    Some(Workspace { root: root.to_owned(), packages })
}
