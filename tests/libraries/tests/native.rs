//! C and C++ code that is linked to the program.

use std::collections::HashSet;
use std::ffi::c_long;

use daiko_libraries::{FIBERS, everywhere, hundred, hundred_in, native};

#[test]
fn thread_locals_of_c_are_the_fibers_own() {
    everywhere(|runtime, kind| {
        for _ in 0..2 {
            let addresses = hundred_in(runtime, kind, |member| {
                let (counter, zeros) = (native::counter(), native::zeros());
                // SAFETY: the counter and the 3,000 bytes of the calling thread.
                unsafe {
                    assert_eq!(counter.replace(member.index as c_long), 40);
                    let bytes = std::slice::from_raw_parts_mut(zeros, 3000);
                    assert!(bytes.iter().all(|&byte| byte == 0));
                    bytes.fill(member.index as i8 + 1);
                }
                member.meet();
                assert_eq!((native::counter(), native::zeros()), (counter, zeros));
                // SAFETY: as above.
                unsafe {
                    assert_eq!(counter.read(), member.index as c_long);
                    let bytes = std::slice::from_raw_parts(zeros, 3000);
                    assert!(bytes.iter().all(|&byte| byte == member.index as i8 + 1));
                }
                counter.expose_provenance()
            });
            assert_eq!(HashSet::<usize>::from_iter(addresses).len(), FIBERS);
        }
    });
}

#[test]
fn values_of_keys_are_the_fibers_own_and_are_destroyed_with_it() {
    everywhere(|runtime, kind| {
        for _ in 0..2 {
            let before = native::sum_destroyed();
            hundred_in(runtime, kind, |member| {
                // SAFETY: the value of the calling thread.
                unsafe {
                    assert_eq!(native::of_key().replace(member.index as c_long), 0);
                    member.meet();
                    assert_eq!(native::of_key().read(), member.index as c_long);
                }
            });
            assert_eq!(native::sum_destroyed() - before, 4950);
        }
    });
}

#[test]
fn errno_survives_a_suspension_inside_c() {
    hundred(|member| {
        for round in 0..10 {
            let value = (member.index * 10 + round) as i32;
            assert_eq!(native::errno_over(value), value);
        }
    });
}

#[cfg(no_cxx)]
#[test]
fn objects_of_cxx() {
    println!("skipped: there was no C++ compiler");
}

#[cfg(not(no_cxx))]
#[test]
fn objects_of_cxx_are_the_fibers_own_and_are_destroyed_with_it() {
    everywhere(|runtime, kind| {
        for _ in 0..2 {
            let before = native::objects::sum_destroyed();
            hundred_in(runtime, kind, |member| {
                // SAFETY: the object of the calling thread.
                unsafe {
                    assert_eq!(native::objects::value().replace(member.index as c_long), 5);
                    member.meet();
                    assert_eq!(native::objects::value().read(), member.index as c_long);
                }
            });
            assert_eq!(native::objects::sum_destroyed() - before, 4950);
        }
    });
}

/// The exceptions in flight and those that are handled are kept in thread-locals.
#[cfg(not(no_cxx))]
#[test]
fn exceptions_of_cxx_arrive_in_their_fiber() {
    hundred(|member| {
        member.meet();
        for round in 0..5 {
            let value = (member.index * 5 + round) as c_long;
            assert_eq!(native::objects::throw(value), value);
        }
    });
}
