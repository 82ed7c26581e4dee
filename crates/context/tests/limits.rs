//! Slabs under exhausted limits. Every case changes the limits of a child process.

#[path = "../../../tests/child.rs"]
mod child;

use child::emulated::LinuxPart;
use child::in_child_well;
use daiko_context::stack::{Slab, StackClass, StackError};
use daiko_sys::arena::Arena;
use daiko_sys::limits;
use daiko_sys::memory::{GuardKind, MemoryError, is_readable, page_size};

fn slab(count: usize, kind: GuardKind) -> Result<Slab, StackError> {
    let class = StackClass::new(4 * page_size(), page_size()).unwrap();
    Slab::new(&Arena::private(), class, count, kind)
}

#[test]
fn too_many_protected_guards_name_the_setting_and_leave_nothing() {
    let name = "too_many_protected_guards_name_the_setting_and_leave_nothing";
    in_child_well(name, || {
        let limit = usize::try_from(limits::max_map_count().unwrap()).unwrap();
        for _ in 0..2 {
            let error = slab(limit, GuardKind::Protect).unwrap_err();
            assert_eq!(error, StackError::Memory(MemoryError::Mappings));
            assert!(error.to_string().contains("vm.max_map_count"), "{error}");
            slab(limit / 4, GuardKind::Protect).unwrap();
        }
    });
}

#[test]
fn light_guards_do_not_count_as_mappings() {
    if GuardKind::probe() == GuardKind::Protect {
        println!("skipped: this kernel has no MADV_GUARD_INSTALL");
        return;
    }
    in_child_well("light_guards_do_not_count_as_mappings", || {
        let limit = usize::try_from(limits::max_map_count().unwrap()).unwrap();
        slab(limit.min(200_000), GuardKind::Light).unwrap();
    });
}

#[test]
fn a_full_address_space_names_its_limit() {
    if LinuxPart::AddressLimit.is_lacking() {
        return;
    }
    in_child_well("a_full_address_space_names_its_limit", || {
        let limit = libc::rlimit { rlim_cur: 8 << 30, rlim_max: 8 << 30 };
        // SAFETY: the limit is a live local.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        let error = slab(1 << 20, GuardKind::probe()).unwrap_err();
        let bytes = (1 << 20) * 5 * page_size();
        assert_eq!(error, StackError::Memory(MemoryError::AddressSpace { bytes }));
        assert!(error.to_string().contains("RLIMIT_AS"), "{error}");
        slab(1 << 10, GuardKind::probe()).unwrap();
    });
}

#[test]
fn too_many_mappings_are_told_from_too_little_memory() {
    in_child_well("too_many_mappings_are_told_from_too_little_memory", || {
        let mut error = None;
        // Shared mappings are not merged, so each of them counts.
        let kept: Vec<Arena> =
            std::iter::from_fn(|| Arena::shared(1).map_err(|e| error = Some(e)).ok())
                .take(3_000_000)
                .collect();
        if kept.len() == 3_000_000 {
            println!("skipped: vm.max_map_count is above 3,000,000");
            return;
        }
        assert_eq!(error, Some(MemoryError::Mappings));
    });
}

/// A program that locks its memory gets the same guards.
#[test]
fn stacks_are_guarded_in_a_locked_process() {
    in_child_well("stacks_are_guarded_in_a_locked_process", || {
        // SAFETY: locking does not change the contents of memory.
        if unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } != 0 {
            println!("skipped: RLIMIT_MEMLOCK is too low to lock a process");
            return;
        }
        for kind in [GuardKind::probe(), GuardKind::Protect] {
            let slab = slab(64, kind).unwrap();
            for i in 0..slab.len() {
                let bottom = slab.bottom(i);
                let guard = bottom.wrapping_sub(page_size());
                assert!(!is_readable(guard), "{kind:?}: no guard {i}");
                assert!((0..3).all(|page| is_readable(bottom.wrapping_add(page * page_size()))));
            }
        }
    });
}
