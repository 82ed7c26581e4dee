//! Members that leave at the same time, one of which may come back.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::spawn;

struct Group {
    members: Members,
    /// Notes that the members write before they leave.
    notes: [UnsafeCell<u32>; 2],
}

// SAFETY: the model checks that a note is read after the end only.
unsafe impl Sync for Group {}
// SAFETY: as for Sync.
unsafe impl Send for Group {}

impl Group {
    /// Creates a group of as many members as there are threads in a model.
    fn of_three() -> Arc<Self> {
        let members = Members::of_one();
        members.join();
        members.join();
        Arc::new(Group { members, notes: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    fn note(&self, member: usize) {
        // SAFETY: no other thread has this note before the end.
        self.notes[member].with_mut(|note| unsafe { *note = 1 });
    }

    fn assert_noted(&self) {
        // SAFETY: all writers have left.
        self.notes.iter().for_each(|note| assert_eq!(note.with(|note| unsafe { *note }), 1));
    }
}

#[test]
fn one_member_is_the_last_and_sees_all_others() {
    loom::model(|| {
        let group = Group::of_three();
        let others = [0, 1].map(|member| {
            spawn(&group, move |group| {
                group.note(member);
                let is_last = group.members.leave();
                if is_last {
                    group.assert_noted();
                }
                is_last
            })
        });
        let is_last = group.members.leave_alone() || group.members.leave();
        if is_last {
            group.assert_noted();
        }
        let ends = others.into_iter().map(|other| other.join().unwrap());
        assert_eq!(ends.filter(|&is_last| is_last).count() + usize::from(is_last), 1);
        assert!(group.members.is_ended());
    });
}

#[test]
fn the_only_member_sees_all_others() {
    loom::model(|| {
        let group = Group::of_three();
        let others = [0, 1].map(|member| {
            spawn(&group, move |group| {
                group.note(member);
                assert!(!group.members.leave(), "one member stays");
            })
        });
        if group.members.leave_alone() {
            group.assert_noted();
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_member_that_comes_back_is_awaited_or_sees_the_end() {
    loom::model(|| {
        let group = Group::of_three();
        assert!(!group.members.leave());
        let others = [0, 1].map(|member| {
            spawn(&group, move |group| {
                group.note(member);
                group.members.leave()
            })
        });
        let is_back = group.members.come_back();
        if !is_back {
            group.assert_noted();
        }
        let last = others.map(|other| other.join().unwrap());
        assert_eq!(last.contains(&true), !is_back);
        assert_eq!(is_back, !group.members.is_ended());
        assert!(!is_back || group.members.leave());
    });
}
