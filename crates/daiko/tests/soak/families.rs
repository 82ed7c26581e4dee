//! Scopes with fibers that suspend, panic and are cancelled, as is the parent that waits for them.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use daiko::sync::channel::{self, Sender};
use daiko::{Scope, time};

use super::support::{OnDrop, endless};
use super::{Dice, Round, came_to_its_end};

/// The number of children of one scope, at most.
const MOST: usize = 6;

/// The work of a child, and of its parent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Sleeps,
    Spawns,
    Sends,
    IsCancelled,
    PanicsAndIsJoined,
    Panics,
}

impl Fate {
    fn any(dice: &mut Dice) -> Self {
        use Fate::*;
        match dice.below(26) {
            0 => Panics,
            roll => [Sleeps, Spawns, Sends, IsCancelled, PanicsAndIsJoined][roll % 5],
        }
    }
}

pub(super) fn scopes(dice: &mut Dice, round: &Arc<Round>) {
    ending(dice, round);
    let (kind, count) = (dice.below(endless::KINDS), dice.below(MOST));
    let parent = round.spawn(dice, move |dice, round| lasting(dice, round, kind, count));
    (0..dice.below(3)).for_each(|_| daiko::yield_now());
    parent.cancel();
    assert!(!came_to_its_end(parent));
}

/// Checks that all children have ended where the scope ends.
fn ending(dice: &mut Dice, round: &Arc<Round>) {
    let fates: Vec<_> = (0..1 + dice.below(MOST)).map(|_| Fate::any(dice)).collect();
    let count = |fate| fates.iter().filter(|&&one| one == fate).count();
    let (ended, (sender, receiver)) = (AtomicUsize::new(0), channel::bounded(1));
    let run = || {
        daiko::scope(|s| {
            fates.iter().for_each(|&fate| spawn(s, dice, round, fate, &sender, &ended));
            (0..count(Fate::Sends)).for_each(|_| receiver.recv().unwrap());
        });
    };
    let panicked = panic::catch_unwind(AssertUnwindSafe(run)).is_err();
    assert_eq!((ended.into_inner(), panicked), (fates.len(), count(Fate::Panics) > 0), "{fates:?}");
}

fn spawn<'scope>(
    s: &'scope Scope<'scope, '_>,
    dice: &mut Dice,
    round: &Round,
    fate: Fate,
    sender: &'scope Sender<()>,
    ended: &'scope AtomicUsize,
) {
    let (token, time) = (round.drops.token(), Duration::from_nanos(dice.roll() % 10_000));
    let counts = OnDrop(move || _ = ended.fetch_add(1, Ordering::Relaxed));
    let body = move || {
        let _held = (token, counts);
        match fate {
            Fate::Sleeps => time::sleep(time),
            Fate::Spawns => drop(s.spawn(move || time::sleep(time))),
            Fate::Sends => sender.send(()).unwrap(),
            Fate::IsCancelled => endless::wait(0),
            Fate::PanicsAndIsJoined | Fate::Panics => panic::resume_unwind(Box::new(fate)),
        }
    };
    let child = round.builder(dice).spawn_scoped(s, body).unwrap();
    match fate {
        Fate::IsCancelled => child.cancel(),
        Fate::PanicsAndIsJoined => {
            let payload = child.join().unwrap_err().into_panic().unwrap();
            assert_eq!(payload.downcast_ref(), Some(&fate));
        }
        _ => {}
    }
}

/// Runs a scope that nothing ends but a cancel of its parent.
fn lasting(dice: &mut Dice, round: &Round, kind: usize, count: usize) {
    daiko::scope(|s| {
        for _ in 0..count {
            let token = round.drops.token();
            let body = move || {
                let _token = token;
                endless::wait(kind);
            };
            drop(round.builder(dice).spawn_scoped(s, body).unwrap());
        }
        if count == 0 || dice.one_in(2) {
            endless::wait(kind);
        }
    });
}

/// Keeps the message of a scope quiet. A scope panics if a child has panicked and was not joined.
pub(super) fn keep_quiet() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|text| text.contains("was not joined")) {
            hook(info);
        }
    }));
}
