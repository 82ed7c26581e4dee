//! Compiles the shim with MPI's own compiler, links its library, and records that library's
//! version, if the feature is on.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/version.c");
    println!("cargo::rerun-if-env-changed=MPICC");
    #[cfg(feature = "mpi")]
    if let Err(line) = mpi::build() {
        eprintln!("error: {line}");
        std::process::exit(1);
    }
}

#[cfg(feature = "mpi")]
mod mpi {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs};

    pub(super) fn build() -> Result<(), String> {
        let mpicc = env::var("MPICC").unwrap_or_else(|_| "mpicc".into());
        let out = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run cargo")?;
        let version = version(&mpicc, Path::new(&out))?;
        fs::write(Path::new(&out).join("version.txt"), version)
            .map_err(|error| format!("cannot write into {}: {error}", out.display()))?;
        cc::Build::new()
            .compiler(&mpicc)
            .file("src/shim.c")
            .warnings_into_errors(true)
            .try_compile("daiko_mpi_shim")
            .map_err(|error| format!("{mpicc} refuses src/shim.c: {error}"))?;
        link(&mpicc)
    }

    /// Returns the version that the library states. A program asks it, as headers do not tell.
    fn version(mpicc: &str, out: &Path) -> Result<String, String> {
        let program = PathBuf::from(out).join("version");
        let status = Command::new(mpicc).args(["src/version.c", "-o"]).arg(&program).status();
        let status = status.map_err(|error| {
            format!("cannot run {mpicc}: {error}; install libopenmpi-dev, or name one in MPICC")
        })?;
        if !status.success() {
            return Err(format!("{mpicc} refuses src/version.c: name another compiler in MPICC"));
        }
        let said = Command::new(&program).output();
        let said = said.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        match said.status.success() {
            true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
            false => Err(format!("the library of {mpicc} tells no version; install it anew")),
        }
    }

    /// Links the libraries that `mpicc` would. Open MPI and MPICH print their command for `-show`.
    fn link(mpicc: &str) -> Result<(), String> {
        let shown = Command::new(mpicc).arg("-show").output();
        let shown = shown.map_err(|error| format!("cannot run {mpicc}: {error}"))?.stdout;
        for word in String::from_utf8_lossy(&shown).split_whitespace() {
            if let Some(folder) = word.strip_prefix("-L") {
                println!("cargo::rustc-link-search=native={folder}");
            } else if let Some(library) = word.strip_prefix("-l") {
                println!("cargo::rustc-link-lib=dylib={library}");
            }
        }
        Ok(())
    }
}
