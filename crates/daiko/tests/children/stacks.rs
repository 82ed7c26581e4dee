//! The size of stacks: programs that the default is for, its variable in the environment, and
//! guards that frames of C do not jump.

use std::env;
use std::ffi::{CString, OsStr, c_char, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use crate::support::child::{command, is_child, stderr, stdout};
use crate::support::{skip, small_stack, workers};
use daiko::{BuildError, Builder, Runtime};
use serde_json::Value;

const VARIABLE: &str = "DAIKO_STACK_SIZE";

/// The most levels that `serde_json` accepts in a text.
const JSON_LEVELS: usize = 127;

/// Runs `body` in a fiber of the default runtime with the default stack, in a process of its own,
/// which an overflow would end.
#[track_caller]
fn in_a_fiber(name: &str, body: fn()) {
    if is_child() {
        daiko::run(move || daiko::spawn(body).join().unwrap());
        std::process::exit(0);
    }
    let output = command(name).env_remove(VARIABLE).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn lists_as_deep_as_a_parser_allows_are_parsed_and_written() {
    in_a_fiber("stacks::lists_as_deep_as_a_parser_allows_are_parsed_and_written", || {
        let text = "[".repeat(JSON_LEVELS) + &"]".repeat(JSON_LEVELS);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!(value, value.clone());
        let deeper = format!("[{text}]");
        assert!(serde_json::from_str::<Value>(&deeper).is_err(), "the limit of the parser");
    });
}

#[test]
fn objects_as_deep_as_a_parser_allows_are_parsed_and_written() {
    in_a_fiber("stacks::objects_as_deep_as_a_parser_allows_are_parsed_and_written", || {
        let text = r#"{"a":"#.repeat(JSON_LEVELS) + "1" + &"}".repeat(JSON_LEVELS);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert!(format!("{value:#?}").contains("Number(1)"));
    });
}

#[test]
fn a_long_regular_expression_is_compiled() {
    in_a_fiber("stacks::a_long_regular_expression_is_compiled", || {
        let pattern = r"(?x) ^ (?: \s* (\w+) \s* = \s* ( (?: [^;\\] | \\. )* ) ; )+ $";
        let regex = regex::Regex::new(pattern).unwrap();
        assert!(regex.is_match("a = b; c = d;") && !regex.is_match("a = b"));
    });
}

#[test]
fn a_regular_expression_as_deep_as_its_compiler_allows_is_compiled() {
    in_a_fiber("stacks::a_regular_expression_as_deep_as_its_compiler_allows_is_compiled", || {
        let nested = |levels| "(?:".repeat(levels) + "a" + &")?".repeat(levels);
        assert!(regex::Regex::new(&nested(124)).unwrap().is_match("a"));
        assert!(regex::Regex::new(&nested(126)).is_err(), "the limit of the compiler");
    });
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 32]);
    if frame[7] == u64::MAX { 0 } else { recurse(depth + 1) + std::hint::black_box(frame)[5] }
}

fn with_variable(name: &str, value: impl AsRef<OsStr>) -> Output {
    command(name).env(VARIABLE, value).output().unwrap()
}

/// Reads a size from the report of an overflow.
#[track_caller]
fn reported_kib(output: &Output) -> usize {
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", stderr(output));
    let text = stderr(output);
    let (_, size) = text.split_once(" (stack of ").unwrap();
    size.split_once(" KiB; ").unwrap().0.parse().unwrap()
}

#[test]
fn the_variable_sets_the_size_of_the_default_runtime() {
    let name = "stacks::the_variable_sets_the_size_of_the_default_runtime";
    if is_child() {
        daiko::run(|| _ = std::hint::black_box(recurse(0)));
    }
    for (value, kib) in [("131072", 128), ("512K", 512), ("300KiB", 512), ("4M", 4096)] {
        assert_eq!(reported_kib(&with_variable(name, value)), kib, "{value}");
    }
}

#[test]
fn the_variable_sets_the_size_of_a_runtime_that_names_none() {
    let name = "stacks::the_variable_sets_the_size_of_a_runtime_that_names_none";
    if is_child() {
        workers(1).run(|| _ = std::hint::black_box(recurse(0)));
    }
    assert_eq!(reported_kib(&with_variable(name, "2MiB")), 2048);
}

#[test]
fn builders_override_the_variable() {
    let name = "stacks::builders_override_the_variable";
    if is_child() {
        // A size that the builder sets leaves even an unusable value aside.
        let runtime =
            Runtime::builder().workers(1).stack_size(small_stack(128 << 10)).build().unwrap();
        let builder = match env::var("DAIKO_TEST_FIBER") {
            Ok(_) => Builder::new().stack_size(small_stack(64 << 10)),
            Err(_) => Builder::new(),
        };
        let _ = runtime.spawn_with(builder, || recurse(0)).unwrap().join();
    }
    assert_eq!(reported_kib(&with_variable(name, "large")), small_stack(128));
    let of_fiber = command(name).envs([(VARIABLE, "1M"), ("DAIKO_TEST_FIBER", "1")]).output();
    assert_eq!(reported_kib(&of_fiber.unwrap()), small_stack(64));
}

#[test]
fn a_variable_that_is_no_size_is_an_error_in_one_line() {
    let name = "stacks::a_variable_that_is_no_size_is_an_error_in_one_line";
    if is_child() {
        let error = Runtime::builder().workers(1).build().unwrap_err();
        let BuildError::StackSizeVariable { value } = &error else { panic!("{error:?}") };
        assert_eq!(Some(value), env::var_os(VARIABLE).as_ref());
        println!("error: {error}");
        daiko::run(|| ());
    }
    let values = ["", "0", "4096", "1G", "-1", "64 K", "2048M", "99999999999999999999", "a\nb"];
    for value in values.map(OsStr::new).into_iter().chain([OsStr::from_bytes(b"\xff")]) {
        let output = with_variable(name, value);
        let (out, err) = (stdout(&output), stderr(&output));
        let (_, line) = out.lines().find_map(|line| line.split_once("error: ")).expect(&err);
        assert!(line.starts_with(VARIABLE) && line.contains("or unset it"), "{line}");
        // The default runtime cannot start either, and says so by the same words.
        assert!(err.contains(&format!("the default runtime cannot start: {line}")), "{err}");
        assert!(!output.status.success());
    }
}

/// So is a value of the variable that chooses the memory for thread-locals.
#[test]
fn a_variable_that_names_no_kind_of_blocks_is_an_error_in_one_line() {
    const NAME: &str = "stacks::a_variable_that_names_no_kind_of_blocks_is_an_error_in_one_line";
    if is_child() {
        let error = Runtime::builder().workers(1).build().unwrap_err();
        assert!(matches!(error, BuildError::ThreadLocals(_)), "{error:?}");
        println!("error: {error}");
        // SAFETY: the caller is the only fiber.
        let borrowed = unsafe { Runtime::builder().workers(1).borrowed() }.build().unwrap();
        let error = borrowed.spawn_with(Builder::new().pinned(), || ()).unwrap_err();
        println!("error: {error}");
        daiko::run(|| ());
    }
    let values = ["", "light", "HOME", "a\nb"].map(OsStr::new);
    for value in values.into_iter().chain([OsStr::from_bytes(b"\xff")]) {
        let output = command(NAME).env("DAIKO_THREAD_BLOCKS", value).output().unwrap();
        let (out, err) = (stdout(&output), stderr(&output));
        let told = format!("DAIKO_THREAD_BLOCKS is {value:?}: set it to home, or unset it");
        let lines: Vec<_> = out.lines().filter(|line| line.contains("error: ")).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(&told)), "{out} {err}");
        assert!(err.contains("the default runtime cannot start") && err.contains(&told), "{err}");
        assert!(!output.status.success());
    }
}

/// A frame of C, without probes, that is larger than the guards that suffice for Rust.
const LARGE_FRAMES: &str = r"
void touch(char *);
void descend(int levels) {
    char frame[70000];
    touch(frame);
    if (levels > 0) descend(levels - 1);
    touch(frame);
}
void touch(char *at) { *(volatile char *)at = 1; }
";

/// Compiles C to a library, and returns the address of `function` there. `None` without a compiler.
fn compiled(source: &str, function: &str) -> Option<*mut c_void> {
    let folder = env::temp_dir().join(format!("daiko-stacks-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (file, library) = (folder.join("frames.c"), folder.join("frames.so"));
    fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-fno-stack-clash-protection", "-shared", "-fPIC", "-o"]);
    let compiled = compiler.arg(&library).arg(&file).status();
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    let function = CString::new(function).unwrap();
    let address = compiled.ok().map(|status| {
        assert!(status.success());
        // SAFETY: both strings are live; the library has no constructors, and is never closed.
        unsafe {
            let library = libc::dlopen(path.as_ptr().cast::<c_char>(), libc::RTLD_NOW);
            assert!(!library.is_null());
            libc::dlsym(library, function.as_ptr())
        }
    });
    fs::remove_dir_all(&folder).unwrap();
    address
}

#[test]
fn a_large_frame_of_c_is_reported_as_an_overflow_of_its_fiber() {
    let name = "stacks::a_large_frame_of_c_is_reported_as_an_overflow_of_its_fiber";
    if is_child() {
        let Some(descend) = compiled(LARGE_FRAMES, "descend") else { std::process::exit(77) };
        // SAFETY: the function in `LARGE_FRAMES` has this type.
        let descend: extern "C" fn(i32) = unsafe { std::mem::transmute(descend) };
        let runtime = Runtime::builder().workers(1).guard_size(128 << 10).build().unwrap();
        // Neighbours, which a frame that reached over the guard would overwrite.
        let neighbours: Vec<_> = (0..8).map(|_| runtime.spawn(daiko::park)).collect();
        runtime.run(daiko::yield_now);
        let builder = Builder::new().name("calls C").stack_size(256 << 10);
        let _ = runtime.spawn_with(builder, move || descend(1000)).unwrap().join();
        drop(neighbours);
        std::process::exit(0);
    }
    let output = command(name).output().unwrap();
    if output.status.code() == Some(77) {
        return skip("no C compiler");
    }
    assert!(stderr(&output).contains("stack overflow in fiber 'calls C'"), "{}", stderr(&output));
    assert_eq!(reported_kib(&output), 256);
}
