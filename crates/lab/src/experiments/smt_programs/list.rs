//! The programs, their groups and their tools.

use std::path::Path;
use std::process::Command;

use super::forms::{Form, Group, Level};
use crate::kit::driver::{self, Sources, Toolchain};
use crate::kit::{Choice, Failure, Skip, host};

/// A program of the folder `drivers/classes`; `work.h` there has its rules.
pub(super) struct ForeignProgram {
    pub(super) name: &'static str,
    pub(super) group: Group,
    sources: Sources,
    tool: &'static Tool,
}

/// The way to build or to interpret a program.
struct Tool {
    /// Compiler or interpreter, with the packages of Debian that provide it.
    program: [&'static str; 2],
    /// Arguments before the text of an interpreted program; `None` if it is compiled.
    interprets: Option<&'static str>,
    /// Flags of a library.
    flags: &'static str,
    /// A header or another program that it needs, with its package.
    needs: Option<(Need, &'static str)>,
}

/// Something that a program needs besides its compiler.
enum Need {
    /// A header below `/usr/include`, or below its folder of this architecture.
    Header(&'static str),
    Program(&'static str),
}

const fn compiler(program: [&'static str; 2]) -> Tool {
    Tool { program, interprets: None, flags: "", needs: None }
}

const fn interpreter(program: [&'static str; 2], option: &'static str) -> Tool {
    Tool { interprets: Some(option), ..compiler(program) }
}

const CC: [&str; 2] = ["cc", "gcc libc6-dev"];

const fn library(header: &'static str, flags: &'static str, package: &'static str) -> Tool {
    Tool { flags, needs: Some((Need::Header(header), package)), ..compiler(CC) }
}

const fn server(name: &'static str, package: &'static str) -> Tool {
    Tool { needs: Some((Need::Program(name), package)), ..compiler(CC) }
}

static C: Tool = compiler(CC);
static CPP: Tool = compiler(["c++", "g++"]);
static PERL: Tool = interpreter(["perl", "perl"], "-e");
static PYTHON: Tool = interpreter(["python3", "python3"], "-c");
static PMDK: Tool = library("libpmemobj.h", "-lpmem -lpmemobj", "libpmem-dev libpmemobj-dev");
static BLAS: Tool = library("cblas.h", "-lopenblas", "libopenblas-dev");
static GLIB: Tool = library("glib-2.0/glib.h", "pkg-config:glib-2.0", "libglib2.0-dev pkg-config");
static LEVELDB: Tool = library("leveldb/c.h", "-lleveldb", "libleveldb-dev");
static LMDB: Tool = library("lmdb.h", "-llmdb", "liblmdb-dev");
static LUA: Tool = library("lua5.4/lua.h", "-I/usr/include/lua5.4 -llua5.4", "liblua5.4-dev");
static OPENSSL: Tool = library("openssl/sha.h", "-lcrypto", "libssl-dev");
static ROCKSDB: Tool = library("rocksdb/c.h", "-lrocksdb", "librocksdb-dev");
static SQLITE: Tool = library("sqlite3.h", "-lsqlite3", "libsqlite3-dev");
static ZLIB: Tool = library("zlib.h", "-lz", "zlib1g-dev");
static ZSTD: Tool = library("zstd.h", "-lzstd", "libzstd-dev");
static MEMCACHED: Tool = server("memcached", "memcached");
static REDIS: Tool = server("redis-server", "redis-server");

/// The file of a program and its headers.
macro_rules! sources {
    ($file:literal) => {
        &[
            ($file, include_str!(concat!("../../../drivers/classes/", $file))),
            ("work.h", include_str!("../../../drivers/classes/work.h")),
            ("server.h", include_str!("../../../drivers/classes/server.h")),
            ("redis.h", include_str!("../../../drivers/classes/redis.h")),
            ("sqlite.h", include_str!("../../../drivers/classes/sqlite.h")),
        ]
    };
}

const fn program(
    name: &'static str,
    group: Group,
    sources: Sources,
    tool: &'static Tool,
) -> ForeignProgram {
    ForeignProgram { name, group, sources, tool }
}

/// All programs, in the order of tables. Those of other authors are sorted, and belong to the two
/// groups by turns: the rule was fixed before the classifier saw one of them.
pub(super) static PROGRAMS: &[ForeignProgram] = &[
    program("btree", Group::Training, sources!("btree.c"), &C),
    program("chained-join", Group::Training, sources!("chained-join.c"), &C),
    program("list", Group::Training, sources!("list.c"), &C),
    program("product", Group::Training, sources!("product.c"), &C),
    program("bodies", Group::Training, sources!("bodies.c"), &C),
    program("crc", Group::Training, sources!("crc.c"), &C),
    program("pm-tree", Group::Training, sources!("pm-tree.c"), &PMDK),
    program("pm-log", Group::Training, sources!("pm-log.c"), &PMDK),
    program("hash-join", Group::Looked, sources!("hash-join.c"), &C),
    program("page-rank", Group::Looked, sources!("page-rank.c"), &C),
    program("binary-tree", Group::Looked, sources!("binary-tree.c"), &C),
    program("updates", Group::Looked, sources!("updates.c"), &C),
    program("binary-search", Group::Looked, sources!("binary-search.c"), &C),
    program("sort", Group::Looked, sources!("sort.c"), &C),
    program("interpreter", Group::Looked, sources!("interpreter.c"), &C),
    program("pm-hash", Group::Looked, sources!("pm-hash.c"), &PMDK),
    program("pm-copy", Group::Looked, sources!("pm-copy.c"), &PMDK),
    program("skip-list", Group::Test, sources!("skip-list.c"), &C),
    program("sparse-product", Group::Test, sources!("sparse-product.c"), &C),
    program("words", Group::Test, sources!("words.c"), &C),
    program("breadth-first", Group::Test, sources!("breadth-first.c"), &C),
    program("mandelbrot", Group::Test, sources!("mandelbrot.c"), &C),
    program("edit-distance", Group::Test, sources!("edit-distance.c"), &C),
    program("heap", Group::Test, sources!("heap.c"), &C),
    program("stream", Group::Test, sources!("stream.c"), &C),
    program("pm-transactions", Group::Test, sources!("pm-transactions.c"), &PMDK),
    program("pm-queue", Group::Test, sources!("pm-queue.c"), &PMDK),
    program("blas-product", Group::Libraries, sources!("blas-product.c"), &BLAS),
    program("glib-hash", Group::HeldOut, sources!("glib-hash.c"), &GLIB),
    program("glib-tree", Group::Libraries, sources!("glib-tree.c"), &GLIB),
    program("glibc-regex", Group::HeldOut, sources!("glibc-regex.c"), &C),
    program("glibc-sort", Group::Libraries, sources!("glibc-sort.c"), &C),
    program("glibc-tree", Group::HeldOut, sources!("glibc-tree.c"), &C),
    program("leveldb-get", Group::Libraries, sources!("leveldb-get.c"), &LEVELDB),
    program("lmdb-get", Group::HeldOut, sources!("lmdb-get.c"), &LMDB),
    program("lua-tables", Group::Libraries, sources!("lua-tables.c"), &LUA),
    program("memcached-get", Group::HeldOut, sources!("memcached-get.c"), &MEMCACHED),
    program("openssl-sha", Group::Libraries, sources!("openssl-sha.c"), &OPENSSL),
    program("perl-hash", Group::HeldOut, sources!("perl-hash.pl"), &PERL),
    program("pmemobj-alloc", Group::Libraries, sources!("pmemobj-alloc.c"), &PMDK),
    program("pmemobj-list", Group::HeldOut, sources!("pmemobj-list.c"), &PMDK),
    program("pmemobj-map", Group::Libraries, sources!("pmemobj-map.c"), &PMDK),
    program("python-dict", Group::HeldOut, sources!("python-dict.py"), &PYTHON),
    program("python-floats", Group::Libraries, sources!("python-floats.py"), &PYTHON),
    program("redis-get", Group::HeldOut, sources!("redis-get.c"), &REDIS),
    program("redis-rank", Group::Libraries, sources!("redis-rank.c"), &REDIS),
    program("rocksdb-get", Group::HeldOut, sources!("rocksdb-get.c"), &ROCKSDB),
    program("sqlite-select", Group::Libraries, sources!("sqlite-select.c"), &SQLITE),
    program("sqlite-sum", Group::HeldOut, sources!("sqlite-sum.c"), &SQLITE),
    program("stl-heap", Group::Libraries, sources!("stl-heap.cpp"), &CPP),
    program("stl-map", Group::HeldOut, sources!("stl-map.cpp"), &CPP),
    program("zlib-compress", Group::Libraries, sources!("zlib-compress.c"), &ZLIB),
    program("zstd-window", Group::HeldOut, sources!("zstd-window.c"), &ZSTD),
];

impl ForeignProgram {
    /// Returns true if it can be built that way.
    pub(super) fn can_be(&self, level: Level) -> bool {
        level == Level::Optimised || self.tool.interprets.is_none()
    }

    /// Returns true if the class of that form is known. The small form of a program that stores
    /// persistently still has fences.
    pub(super) fn has_class(&self, form: Form) -> bool {
        form == Form::Large || !std::ptr::eq(self.tool, &PMDK)
    }

    /// Requires the tools of the program, as far as they are visible without building.
    ///
    /// # Errors
    /// Returns the missing tool.
    pub(super) fn require_available(&self) -> Result<(), Skip> {
        let Tool { program: [program, packages], needs, .. } = self.tool;
        host::require_program(program).map_err(|skip| Skip::without(skip, packages))?;
        let Some((need, packages)) = needs else { return Ok(()) };
        match need {
            Need::Program(name) => {
                host::require_program(name).map_err(|skip| Skip::without(skip, packages))
            }
            Need::Header(header) => {
                let folders = ["/usr/include", "/usr/include/x86_64-linux-gnu"];
                let found = folders.iter().any(|folder| Path::new(folder).join(header).is_file());
                let missing = || Skip::without(format_args!("no {header}"), packages);
                found.then_some(()).ok_or_else(missing)
            }
        }
    }

    /// The command that runs a form, built if the cache does not have it.
    pub(super) fn command(&self, level: Level, form: Form) -> Result<Command, Failure> {
        let Tool { program: [program, packages], interprets, flags, .. } = self.tool;
        let mut command = if let Some(option) = interprets {
            let mut command = Command::new(program);
            command.args([option, self.sources[0].1]);
            command
        } else {
            let found = driver::find_compiler(program, packages)?;
            Command::new(driver::build(self.sources, &toolchain(found, level, flags)?)?)
        };
        command.arg(form.name()).env("PMEM_IS_PMEM_FORCE", "1");
        if form == Form::Small {
            command.envs([("PMEM_NO_FLUSH", "1"), ("PMEM_NO_MOVNT", "1")]);
        }
        Ok(command)
    }
}

fn toolchain(found: Toolchain, level: Level, flags: &str) -> Result<Toolchain, Skip> {
    let level = if level == Level::Optimised { "-O2" } else { "-O0" };
    let flags = match flags.strip_prefix("pkg-config:") {
        Some(library) => driver::pkg_config("--cflags --libs", library)
            .ok_or_else(|| Skip::without(format_args!("no {library}"), "pkg-config"))?,
        None => flags.to_owned(),
    };
    let before = ["-w", level].map(str::to_owned).into();
    let after = driver::words(&format!("{flags} -lm"));
    Ok(Toolchain { before, after, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every second program of other authors is held out, by name.
    #[test]
    fn the_halves_of_libraries_follow_from_their_names() {
        let of_others: Vec<_> = PROGRAMS
            .iter()
            .filter(|program| matches!(program.group, Group::Libraries | Group::HeldOut))
            .collect();
        assert!(of_others.len() >= 20);
        assert!(of_others.is_sorted_by_key(|program| program.sources[0].0));
        for (at, program) in of_others.iter().enumerate() {
            let expected = [Group::Libraries, Group::HeldOut][at % 2];
            assert_eq!(program.group, expected, "{}", program.name);
        }
    }
}
