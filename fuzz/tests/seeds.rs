//! Every target takes its seeds, without a fuzzer as well.

use std::{collections::BTreeSet, fs, path::Path};

use daiko_fuzz::TARGETS;

fn seeds() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds"))
}

#[test]
fn every_target_has_seeds_and_takes_them() {
    for (name, target) in TARGETS {
        let folder = fs::read_dir(seeds().join(name)).expect(name);
        let files: Vec<_> = folder.map(|file| file.expect(name).path()).collect();
        assert!(!files.is_empty(), "{name}");
        for file in files {
            println!("{}", file.display());
            target(&fs::read(file).expect(name));
        }
    }
}

#[test]
fn no_seeds_lack_a_target() {
    let folders = fs::read_dir(seeds()).expect("fuzz/seeds");
    let folders: BTreeSet<_> =
        folders.map(|folder| folder.expect("a folder").file_name()).collect();
    assert!(folders.iter().eq(TARGETS.map(|(name, _)| name)), "{folders:?}");
}
