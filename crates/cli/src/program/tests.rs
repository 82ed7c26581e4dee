use std::os::unix::fs::PermissionsExt;

use super::{described::DescribedProgram, *};

const LOADER: &[u8] = b"/lib64/ld-linux-x86-64.so.2";

fn dynamic() -> DescribedProgram<'static> {
    DescribedProgram {
        interpreter: Some(LOADER),
        libraries: vec![b"libm.so.6", b"libc.so.6"],
        used: vec![b"printf", b"pthread_create"],
        defined: vec![b"main", b"environ"],
        is_marked: true,
        ..Default::default()
    }
}

fn refusal(program: &DescribedProgram<'_>) -> Refusal {
    read(&program.to_bytes()[..]).expect_err("a refusal")
}

#[test]
fn the_facts_of_a_dynamic_program_are_read() {
    for has_old_hash in [false, true] {
        let program = DescribedProgram { has_old_hash, ..dynamic() };
        let elf = read(&program.to_bytes()[..]).expect("a program");
        assert_eq!(elf.interpreter(), Some(LOADER));
        assert!(elf.libraries().eq([&b"libm.so.6"[..], b"libc.so.6"]));
        for name in [&b"printf"[..], b"pthread_create", b"main", b"environ"] {
            assert!(elf.has_symbol(name), "{}", name.escape_ascii());
        }
        for name in [&b"print"[..], b"create", b"libm.so.6", b"\0printf"] {
            assert!(!elf.has_symbol(name), "{}", name.escape_ascii());
        }
        assert!(creates_threads(&elf));
    }
}

#[test]
fn a_program_that_uses_only_undefined_symbols_is_read() {
    let program = DescribedProgram { defined: vec![], used: vec![b"thrd_create"], ..dynamic() };
    assert!(creates_threads(&read(&program.to_bytes()[..]).expect("a program")));
    let program = DescribedProgram { used: vec![b"my_pthread_create"], ..dynamic() };
    assert!(!creates_threads(&read(&program.to_bytes()[..]).expect("a program")));
}

#[test]
fn each_kind_of_program_without_a_known_linker_is_refused_by_name() {
    let fixed = DescribedProgram::default();
    assert_eq!(refusal(&fixed), Refusal::Static);
    assert_eq!(refusal(&DescribedProgram { is_marked: true, ..fixed.clone() }), Refusal::Static);
    let go = DescribedProgram { has_go_note: true, ..fixed };
    assert_eq!(refusal(&go), Refusal::Go { is_static: true });
    let go = DescribedProgram { has_go_note: true, ..dynamic() };
    assert_eq!(refusal(&go), Refusal::Go { is_static: false });
    let musl = Some(&b"/lib/ld-musl-x86_64.so.1"[..]);
    assert_eq!(refusal(&DescribedProgram { interpreter: musl, ..dynamic() }), Refusal::Musl);
    let bionic = Some(&b"/system/bin/linker64"[..]);
    let other = Refusal::Interpreter("/system/bin/linker64".to_owned());
    assert_eq!(refusal(&DescribedProgram { interpreter: bionic, ..dynamic() }), other);
    let mut library = DescribedProgram { interpreter: None, ..dynamic() }.to_bytes();
    let marks = 0x0800_0000_u64.to_le_bytes();
    let at = library.windows(8).rposition(|word| word == marks).expect("the flags");
    library[at..at + 8].fill(0);
    assert_eq!(read(&library[..]).unwrap_err(), Refusal::Library);
}

#[test]
fn a_sanitizer_is_found_as_a_library_and_inside_the_program() {
    for (library, symbol, name) in SANITIZERS {
        let library = [library, b".8"].concat();
        let program = DescribedProgram { libraries: vec![&library], ..dynamic() };
        assert_eq!(refusal(&program), Refusal::Sanitizer(name));
        let program = DescribedProgram { defined: vec![b"main", symbol], ..dynamic() };
        assert_eq!(refusal(&program), Refusal::Sanitizer(name));
    }
}

#[test]
fn a_program_that_defines_the_creation_of_threads_is_refused() {
    for name in CREATORS {
        let program = DescribedProgram { defined: vec![b"main", name], ..dynamic() };
        assert_eq!(refusal(&program), Refusal::OwnThreads);
    }
}

#[test]
fn a_file_for_another_machine_is_refused_by_its_header() {
    let changed = |at: usize, value: u8| {
        let mut bytes = dynamic().to_bytes();
        bytes[at] = value;
        read(&bytes[..]).expect_err("a refusal")
    };
    assert_eq!(changed(4, 1), ElfError::Narrow.into());
    assert_eq!(changed(18, 183), ElfError::Machine(183).into());
    assert_eq!(changed(5, 2), ElfError::Machine(62 << 8).into());
    assert_eq!(changed(16, 1), ElfError::Type(1).into());
    assert_eq!(changed(0, b'x'), ElfError::Foreign.into());
}

#[test]
fn a_script_is_refused_with_its_interpreter() {
    for (text, interpreter) in [
        ("#!/bin/sh\n:", "/bin/sh"),
        ("#! /usr/bin/env python3", "/usr/bin/env python3"),
        ("#!/bin/\x1bx\n", "/bin/?x"),
    ] {
        assert_eq!(read(text.as_bytes()).unwrap_err(), Refusal::Script(interpreter.to_owned()));
    }
    for text in ["", "#", "#!", "#!\n/bin/sh", ":\n"] {
        assert_eq!(read(text.as_bytes()).unwrap_err(), ElfError::Foreign.into(), "{text:?}");
    }
}

#[test]
fn a_file_that_is_truncated_anywhere_is_refused() {
    let bytes = dynamic().to_bytes();
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn the_latest_version_of_a_library_is_found_in_any_order() {
    let versions: Vec<&[u8]> =
        vec![b"GLIBC_2.9", b"GLIBC_2.34", b"GLIBC_2.2.5", b"GLIBC_PRIVATE", b"OTHER_9.9"];
    let library = DescribedProgram { versions, ..dynamic() };
    let elf = Elf::read(&library.to_bytes()[..]).expect("a library");
    assert_eq!(glibc_version(&elf), Some([2, 34]));
    let elf = Elf::read(&dynamic().to_bytes()[..]).expect("a library");
    assert_eq!(glibc_version(&elf), None);
}

#[test]
fn the_age_of_the_library_beside_a_loader_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let loader = folder.path().join("ld-linux-x86-64.so.2");
    let ask = || glibc_beside(loader.as_os_str().as_bytes());
    let path = |name: &str| folder.path().join(name).display().to_string();
    assert_eq!(ask(), Err(Refusal::NoLibrary(path("ld-linux-x86-64.so.2"))));
    fs::write(&loader, "").expect("a file");
    assert_eq!(ask(), Err(Refusal::NoLibrary(path("libc.so.6"))));
    for (version, verdict) in [
        (&b"GLIBC_2.33"[..], Err(Refusal::OldLibrary("2.33".to_owned()))),
        (b"GLIBC_2.34", Ok("2.34".to_owned())),
        (b"GLIBC_3.0", Ok("3.0".to_owned())),
    ] {
        let library = DescribedProgram { versions: vec![version], ..dynamic() };
        fs::write(folder.path().join("libc.so.6"), library.to_bytes()).expect("a file");
        assert_eq!(ask(), verdict);
    }
}

#[test]
fn this_test_is_a_program_that_could_be_taken_over() {
    let (_, program) = inspect(&std::env::current_exe().expect("a path")).expect("a program");
    assert!(program.creates_threads);
    let told = program.to_string();
    assert!(
        told.starts_with("dynamic, glibc 2.") && told.ends_with("could be taken over"),
        "{told}"
    );
}

#[test]
fn modes_and_missing_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("program");
    fs::copy(std::env::current_exe().expect("a path"), &file).expect("a copy");
    let with_mode = |mode| {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its owner's");
        inspect(&file).map(|_| ())
    };
    assert_eq!(with_mode(0o700), Ok(()));
    assert_eq!(with_mode(0o2700), Ok(()));
    assert_eq!(with_mode(0o4700), Err(Refusal::SetId));
    assert_eq!(with_mode(0o2710), Err(Refusal::SetId));
    assert_eq!(with_mode(0o600), Err(Refusal::NotExecutable));
    assert_eq!(inspect(folder.path()), Err(Refusal::NotAFile));
    assert_eq!(inspect(&folder.path().join("none")), Err(Refusal::NotFound));
    assert_eq!(inspect(Path::new("daiko-no-such-program")), Err(Refusal::NotFound));
}
