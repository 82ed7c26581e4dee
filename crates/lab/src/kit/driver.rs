//! Peers in other languages: small programs, compiled against the installed libraries on first use,
//! and kept in the user's cache.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use super::failure::{Failure, OrFailure, Skip, quoted};

/// Names and contents of a program's files, the main file first.
pub(crate) type Sources = &'static [(&'static str, &'static str)];

/// Compiler, arguments and version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Toolchain {
    pub(crate) program: PathBuf,
    /// Arguments before the main file and after it, and environment variables.
    pub(crate) before: Vec<String>,
    pub(crate) after: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    /// Version of compiler and library: another version compiles again.
    pub(crate) version: String,
}

/// A program in another language.
pub(crate) struct Driver {
    sources: Sources,
    /// Finds compiler and library, or returns the missing one.
    find: fn() -> Result<Toolchain, Skip>,
    found: OnceLock<Result<Toolchain, Skip>>,
}

impl Driver {
    pub(crate) const fn new(sources: Sources, find: fn() -> Result<Toolchain, Skip>) -> Self {
        Self { sources, find, found: OnceLock::new() }
    }

    /// Fails with the reason to skip if compiler or library are missing, as far as that is visible
    /// without compiling.
    pub(crate) fn supports(&self) -> Result<(), Skip> {
        self.toolchain().map(drop)
    }

    fn toolchain(&self) -> Result<&Toolchain, Skip> {
        self.found.get_or_init(self.find).as_ref().map_err(Skip::clone)
    }

    /// Path of the compiled program. Compiles it if the cache does not have it.
    pub(crate) fn program(&self) -> Result<PathBuf, Failure> {
        build(self.sources, self.toolchain()?)
    }
}

/// Path of the program of these sources. Compiles it if the cache does not have it.
pub(crate) fn build(sources: Sources, toolchain: &Toolchain) -> Result<PathBuf, Failure> {
    let program = cache()?.join(key(sources, toolchain));
    if !program.exists() {
        compile(sources, toolchain, &program)?;
    }
    Ok(program)
}

/// Folder `$XDG_CACHE_HOME/daiko` or `~/.cache/daiko`.
fn cache() -> Result<PathBuf, Failure> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map(|cache| cache.join("daiko"))
        .ok_or_else(|| Failure::Unavailable("no place for a cache: set XDG_CACHE_HOME".into()))
}

/// Builds a name that changes with the sources, the compiler and the library.
fn key(sources: Sources, toolchain: &Toolchain) -> String {
    let mut hasher = DefaultHasher::new();
    (sources, toolchain).hash(&mut hasher);
    let stem = sources[0].0.split('.').next().unwrap_or_default();
    format!("{stem}-{:016x}", hasher.finish())
}

/// Compiles in a folder of its own and renames the result, so that no process sees an incomplete
/// program.
fn compile(sources: Sources, toolchain: &Toolchain, program: &Path) -> Result<(), Failure> {
    let unusable = |error: io::Error| {
        let line = format!("cannot write {}: {error}; set XDG_CACHE_HOME", program.display());
        Failure::Unavailable(line)
    };
    let cache = program.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(cache).map_err(unusable)?;
    let folder = tempfile::tempdir_in(cache).map_err(unusable)?;
    for (name, text) in sources {
        fs::write(folder.path().join(name), text).map_err(unusable)?;
    }
    call_compiler(folder.path(), sources[0].0, toolchain)?;
    fs::rename(folder.path().join("program"), program).map_err(unusable)
}

fn call_compiler(folder: &Path, main: &str, toolchain: &Toolchain) -> Result<(), Failure> {
    let output = Command::new(&toolchain.program)
        .current_dir(folder)
        .envs(toolchain.variables.iter().cloned())
        .args(&toolchain.before)
        .args(["-o", "program", main])
        .args(&toolchain.after)
        .stdin(Stdio::null())
        .output()
        .or_unavailable(toolchain.program.display())?;
    if !output.status.success() {
        let line = first_error(&String::from_utf8_lossy(&output.stderr));
        return Err(Failure::Unavailable(format!("{main} does not compile: {line}")));
    }
    Ok(())
}

/// Returns the line with the cause of an error from a compiler's output.
pub fn first_error(complaint: &str) -> String {
    // The line of the linker's caller only says that the linker failed.
    let is_cause = |line: &&str| !line.trim().is_empty() && !line.starts_with("collect2:");
    let lines = || complaint.lines().filter(is_cause);
    let line = lines().find(|line| line.contains("error")).or_else(|| lines().next_back());
    quoted(line.unwrap_or("the compiler gives no reason"))
}

/// Finds a compiler for C or C++, with the name `program`, which Debian `packages` provide.
pub(crate) fn find_compiler(program: &str, packages: &str) -> Result<Toolchain, Skip> {
    let version = say(Path::new(program), &["--version"], "").ok_or_else(|| {
        Skip::without(format_args!("no {program} to compile its driver"), packages)
    })?;
    Ok(Toolchain { program: program.into(), before: words("-O2"), version, ..Toolchain::default() })
}

/// Returns a program's output for `input`, or `None` if it does not exist or fails.
pub(crate) fn say(program: &Path, arguments: &[&str], input: &'static str) -> Option<String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // The input fits into a pipe. A program may also read nothing.
    let _ = child.stdin.take()?.write_all(input.as_bytes());
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the answer of `pkg-config` about a library.
pub(crate) fn pkg_config(question: &str, library: &str) -> Option<String> {
    let arguments: Vec<_> = question.split(' ').chain([library]).collect();
    say(Path::new("pkg-config"), &arguments, "")
}

/// Splits `text` into words.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_found_among_notes() {
        let complaint = "ring.c: In function 'main':\nring.c:3:1: \u{1b}error: no\nnote: more\n";
        assert_eq!(first_error(complaint), "ring.c:3:1: \u{fffd}error: no");
    }

    #[test]
    fn the_error_of_the_linker_is_its_own() {
        let complaint = "/usr/bin/ld: cannot find -labt: No such file or directory\n\
                         collect2: error: ld returned 1 exit status\n";
        let cause = "/usr/bin/ld: cannot find -labt: No such file or directory";
        assert_eq!(first_error(complaint), cause);
    }

    fn toolchain(program: &str) -> Toolchain {
        Toolchain {
            program: program.into(),
            before: vec![],
            after: vec![],
            variables: vec![],
            version: "1".into(),
        }
    }

    #[test]
    fn another_version_has_another_key() {
        let sources: Sources = &[("ring.x", "text")];
        let old = toolchain("cc");
        let new = Toolchain { version: "2".into(), ..old.clone() };
        assert_ne!(key(sources, &old), key(sources, &new));
        assert_ne!(key(sources, &old), key(&[("ring.x", "other")], &old));
        assert!(key(sources, &old).starts_with("ring-"));
    }

    #[test]
    fn a_compiler_that_fails_leaves_nothing_behind() {
        let cache = tempfile::tempdir().unwrap();
        let program = cache.path().join("ring-0");
        let result = compile(&[("ring.x", "text")], &toolchain("/bin/false"), &program);
        assert!(matches!(result, Err(Failure::Unavailable(_))), "{result:?}");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    }

    #[test]
    fn a_cache_that_is_not_writable_is_told_with_the_remedy() {
        let program = Path::new("/proc/daiko/ring-0");
        let failure = compile(&[("ring.x", "text")], &toolchain("cc"), program).unwrap_err();
        assert!(failure.to_string().ends_with("set XDG_CACHE_HOME"), "{failure}");
    }
}
