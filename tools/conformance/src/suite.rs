//! Suites: folders of built test programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::verdict::Family;

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Test {
    /// The folder and the file, as `pthread_create/1-1`.
    pub(crate) name: String,
    pub(crate) family: Family,
    /// The absolute path.
    pub(crate) program: PathBuf,
}

/// Returns the tests of a folder, sorted by name. Other files in it are left out.
pub(crate) fn read(family: Family, folder: &Path) -> Result<Vec<Test>, String> {
    let refused = |path: &Path, error: std::io::Error| {
        format!(
            "cannot read {}: {error}; name the folder that holds the built programs {}",
            path.display(),
            family.pattern()
        )
    };
    let root = folder.canonicalize().map_err(|error| refused(folder, error))?;
    let mut tests = Vec::new();
    for group in entries(&root).map_err(|error| refused(&root, error))? {
        if !group.is_dir() {
            continue;
        }
        for program in entries(&group).map_err(|error| refused(&group, error))? {
            let name = program.strip_prefix(&root).ok().and_then(Path::to_str);
            if let Some(name) = name
                && Family::of(name) == Some(family)
                && is_program(&program)
            {
                tests.push(Test { name: name.to_owned(), family, program });
            }
        }
    }
    if tests.is_empty() {
        return Err(format!(
            "{} holds no program {}; build the suite there, as tools/conformance/README.md says",
            folder.display(),
            family.pattern()
        ));
    }
    tests.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tests)
}

fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Keeps the tests with names that begin with one of `beginnings`, or all if there is none.
pub(crate) fn select(tests: &mut Vec<Test>, beginnings: &[String]) -> Result<(), String> {
    for beginning in beginnings {
        if !tests.iter().any(|test| test.name.starts_with(beginning)) {
            return Err(format!(
                "no test has a name that begins with {beginning}; the first one is {}",
                tests[0].name
            ));
        }
    }
    tests.retain(|test| is_selected(&test.name, beginnings));
    Ok(())
}

/// Returns true if [`select`] keeps a test of this name.
pub(crate) fn is_selected(name: &str, beginnings: &[String]) -> bool {
    beginnings.is_empty() || beginnings.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str) -> Test {
        Test { name: name.into(), family: Family::Glibc, program: PathBuf::new() }
    }

    fn folder_with(files: &[(&str, u32)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        folder
    }

    #[test]
    fn a_suite_consists_of_the_programs_with_names_of_its_family() {
        let folder = folder_with(&[
            ("sem_post/2-1", 0o755),
            ("sem_post/1-1", 0o755),
            ("sem_post/1-1.c", 0o755),
            ("sem_post/3-1", 0o644),
            ("nptl/tst-a", 0o755),
            ("1-1", 0o755),
        ]);
        let names = |family| {
            let tests = read(family, folder.path()).unwrap();
            tests.into_iter().map(|test| test.name).collect::<Vec<_>>()
        };
        assert_eq!(names(Family::OpenPosix), ["sem_post/1-1", "sem_post/2-1"]);
        assert_eq!(names(Family::Glibc), ["nptl/tst-a"]);
    }

    #[test]
    fn a_folder_without_programs_is_refused_with_a_remedy() {
        let folder = folder_with(&[("nptl/tst-a", 0o755)]);
        let error = read(Family::OpenPosix, folder.path()).unwrap_err();
        assert!(error.contains("holds no program INTERFACE/N-M"), "{error}");
        assert!(error.contains("README.md"), "{error}");
        let error = read(Family::Glibc, &folder.path().join("missing")).unwrap_err();
        assert!(error.contains("missing: No such file"), "{error}");
        assert!(error.contains("name the folder"), "{error}");
    }

    #[test]
    fn tests_are_selected_by_the_beginning_of_their_names() {
        let all = || vec![test("nptl/tst-a"), test("nptl/tst-ab"), test("pthread/tst-a")];
        let mut tests = all();
        select(&mut tests, &["nptl/tst-ab".into(), "pthread/".into()]).unwrap();
        assert_eq!(tests, [test("nptl/tst-ab"), test("pthread/tst-a")]);
        let mut tests = all();
        select(&mut tests, &[]).unwrap();
        assert_eq!(tests, all());
        let error = select(&mut all(), &["tst-a".into()]).unwrap_err();
        assert!(error.contains("begins with tst-a"), "{error}");
    }
}
