//! Executables: any file gives facts or a refusal in one line, and the facts of a described program
//! are read back.

use daiko_cli::program::{self, described::DescribedProgram, elf::Elf};

/// The input is a file, and also a list of names for a file that is made from it: separated by zero
/// bytes, the first two of them the settings and the interpreter.
pub(super) fn fuzz(data: &[u8]) {
    match program::read(data) {
        Ok(elf) => {
            assert!(elf.interpreter().is_some_and(|path| !path.contains(&0)));
            let mut names = elf.libraries().chain(elf.versions());
            assert!(names.all(|name| !name.contains(&0)));
            let _ = (program::creates_threads(&elf), program::glibc_version(&elf));
        }
        Err(refusal) => assert_line(&refusal.to_string()),
    }
    describe(data);
}

fn assert_line(line: &str) {
    assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?}");
}

fn describe(data: &[u8]) {
    let mut names = data.split(|&byte| byte == 0);
    let settings = names.next().and_then(|name| name.first()).copied().unwrap_or(0);
    let is_set = |bit: u8| settings >> bit & 1 != 0;
    let interpreter = names.next().filter(|path| path.len() < 4096);
    let lists = names.fold([const { Vec::new() }; 4], |mut lists, name| {
        let index = name.first().map_or(0, |byte| usize::from(byte % 4));
        lists[index].push(name);
        lists
    });
    let [libraries, used, defined, versions] = lists;
    let program = DescribedProgram {
        interpreter,
        libraries,
        used,
        defined,
        versions,
        has_go_note: is_set(0),
        is_marked: is_set(1),
        has_old_hash: is_set(2),
    };
    let elf = Elf::read(&program.to_bytes()[..]).expect("a described program");
    assert_eq!((elf.interpreter(), elf.has_go_note()), (interpreter, is_set(0)));
    let is_linked = interpreter.is_some() || is_set(1) || !program.libraries.is_empty();
    if is_linked {
        assert!(elf.libraries().eq(program.libraries.iter().copied()));
        assert!(elf.versions().eq(program.versions.iter().copied()));
        let mut symbols = program.used.iter().chain(&program.defined).take(32);
        assert!(symbols.all(|name| elf.has_symbol(name)));
        assert!(program.defined.iter().take(32).all(|name| elf.defines(name)));
    }
}
