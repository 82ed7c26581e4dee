//! The library Argobots, if it is installed.

use super::driver::{Toolchain, find_compiler, pkg_config, words};
use super::failure::Skip;

/// The name of the method.
pub(crate) const ARGOBOTS: &str = "argobots";

/// Finds the library, and a compiler for C.
pub(crate) fn find_c() -> Result<Toolchain, Skip> {
    with_library(find_compiler("cc", "gcc")?)
}

/// Finds the library, and a compiler for C++.
pub(crate) fn find_cpp() -> Result<Toolchain, Skip> {
    let mut compiler = find_compiler("c++", "g++")?;
    compiler.before.push("-std=c++17".into());
    with_library(compiler)
}

fn with_library(compiler: Toolchain) -> Result<Toolchain, Skip> {
    let ask = |question| pkg_config(question, "argobots");
    let (Some(version), Some(flags), Some(folder)) =
        (ask("--modversion"), ask("--cflags --libs"), ask("--variable=libdir"))
    else {
        return Err(Skip::new(
            "not found by pkg-config (not in Debian: build it from github.com/pmodels/argobots \
             and name its lib/pkgconfig in PKG_CONFIG_PATH)",
        ));
    };
    let mut after = words(&flags);
    after.push(format!("-Wl,-rpath,{}", folder.trim()));
    Ok(Toolchain { after, version: compiler.version + &version, ..compiler })
}
