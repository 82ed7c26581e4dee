//! Tests the scheduler's policy, verified and run by this machine's kernel, with the vectors that
//! all implementations share.
#![cfg(feature = "bpf")]

mod vectors;

use libbpf_rs::{ErrorKind, MapType, ObjectBuilder, ProgramInput};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schedule.bpf.o"));

/// A kernel without sched_ext suffices: only the policy is loaded, none of the scheduler's
/// operations.
#[test]
fn the_policy_in_the_kernel_holds_the_vectors() {
    let mut opened = ObjectBuilder::default().open_memory(OBJECT).expect("the compiled scheduler");
    for mut program in opened.progs_mut() {
        let wanted = program.name() == "try_policy";
        program.set_autoload(wanted);
    }
    for mut map in opened.maps_mut() {
        if map.map_type() == MapType::StructOps {
            map.set_autocreate(false).unwrap();
        }
    }
    let object = match opened.load() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            println!(
                "skipped: the_policy_in_the_kernel_holds_the_vectors: bpf() is not permitted here"
            );
            return;
        }
        loaded => loaded.expect("the kernel takes the policy"),
    };
    let program = object.progs_mut().find(|program| program.name() == "try_policy").unwrap();
    vectors::check(|trial| {
        let input = ProgramInput { context_in: Some(trial), ..ProgramInput::default() };
        assert_eq!(program.test_run(input).expect("the policy runs").return_value, 0);
    });
}
