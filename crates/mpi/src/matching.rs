//! The matching of messages with receives, by MPI's rule: a message goes to the receive that was
//! posted first of those that want it, and a receive gets the message that has arrived first.
//!
//! Both sides are chains by source and tag, each in order of age, so that a match takes the same
//! time for any number of receives. A receive lies in the chain of its source and tag, either of
//! which may be [`ANY`]; a message lies in four chains, those of all the receives that want it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Any source, or any tag.
pub(crate) const ANY: i32 = -1;

/// A source and a tag; either may be [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MatchKey(u64);

impl MatchKey {
    pub(crate) fn new(source: i32, tag: i32) -> Self {
        MatchKey((source as u32 as u64) << 32 | tag as u32 as u64)
    }

    pub(crate) fn source(self) -> i32 {
        (self.0 >> 32) as i32
    }

    pub(crate) fn tag(self) -> i32 {
        self.0 as i32
    }

    /// Returns the keys of the receives that want a message of this one, from the narrowest.
    fn wanted_by(self) -> [MatchKey; 4] {
        let (source, tag) = (self.source(), self.tag());
        [self, Self::new(source, ANY), Self::new(ANY, tag), Self::new(ANY, ANY)]
    }

    /// Returns the index of a receive's key in [`wanted_by`](Self::wanted_by).
    fn openness(self) -> usize {
        usize::from(self.source() == ANY) << 1 | usize::from(self.tag() == ANY)
    }
}

/// Keys are small numbers of the program's own: one multiplication spreads them.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is one number");
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(number ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = wide as u64 ^ (wide >> 64) as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// No item.
const NONE: u32 = u32::MAX;

/// An item in `N` chains, those of its keys.
struct Link<T, const N: usize> {
    item: Option<T>,
    age: u64,
    keys: [MatchKey; N],
    before: [u32; N],
    after: [u32; N],
}

/// Items in chains by key, in order of age.
struct Chains<T, const N: usize> {
    links: Vec<Link<T, N>>,
    free: Vec<u32>,
    /// The first and the last item of each chain that has some.
    ends: HashMap<MatchKey, (u32, u32), BuildHasherDefault<KeyHasher>>,
}

impl<T, const N: usize> Chains<T, N> {
    fn new() -> Self {
        Chains { links: Vec::new(), free: Vec::new(), ends: HashMap::default() }
    }

    fn len(&self) -> usize {
        self.links.len() - self.free.len()
    }

    /// Adds the newest item to the chains of its keys.
    fn push(&mut self, keys: [MatchKey; N], age: u64, item: T) -> u32 {
        let at = self.free.pop().unwrap_or(self.links.len() as u32);
        let mut link = Link { item: Some(item), age, keys, before: [NONE; N], after: [NONE; N] };
        for (chain, &key) in keys.iter().enumerate() {
            match self.ends.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert((at, at))),
                Entry::Occupied(mut entry) => {
                    let last = std::mem::replace(&mut entry.get_mut().1, at);
                    link.before[chain] = last;
                    self.links[last as usize].after[chain] = at;
                }
            }
        }
        match self.links.get_mut(at as usize) {
            Some(free) => *free = link,
            None => self.links.push(link),
        }
        at
    }

    /// Returns the oldest item of a chain, and its age.
    fn first(&self, key: MatchKey) -> Option<(u64, u32)> {
        let &(first, _) = self.ends.get(&key)?;
        Some((self.links[first as usize].age, first))
    }

    /// Takes an item out of its chains.
    fn take(&mut self, at: u32) -> T {
        let link = &mut self.links[at as usize];
        let item = link.item.take().expect("it is in its chains");
        let (keys, before, after) = (link.keys, link.before, link.after);
        for chain in 0..N {
            let (before, after) = (before[chain], after[chain]);
            if before == NONE && after == NONE {
                self.ends.remove(&keys[chain]);
                continue;
            }
            match before {
                NONE => self.ends.get_mut(&keys[chain]).expect("it has items").0 = after,
                before => self.links[before as usize].after[chain] = after,
            }
            match after {
                NONE => self.ends.get_mut(&keys[chain]).expect("it has items").1 = before,
                after => self.links[after as usize].before[chain] = before,
            }
        }
        self.free.push(at);
        item
    }

    /// Returns all items, in order of age.
    fn in_order(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.links.len() as u32).collect();
        all.retain(|&at| self.links[at as usize].item.is_some());
        all.sort_unstable_by_key(|&at| self.links[at as usize].age);
        all
    }
}

/// A receive that waits, until a message has come for it or it was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostedId {
    at: u32,
    age: u64,
}

/// The receives of a communicator that wait, and the messages that no receive wants yet.
pub(crate) struct Matcher<R, M> {
    receives: Chains<R, 1>,
    /// How many of them have left open the same, by [`MatchKey::openness`].
    open: [usize; 4],
    messages: Chains<M, 4>,
    age: u64,
}

impl<R, M> Matcher<R, M> {
    pub(crate) fn new() -> Self {
        Matcher { receives: Chains::new(), open: [0; 4], messages: Chains::new(), age: 0 }
    }

    /// Returns the number of receives that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.receives.len()
    }

    /// Takes the oldest message that has come for a receive of this key.
    pub(crate) fn find(&mut self, key: MatchKey) -> Option<M> {
        let (_, at) = self.messages.first(key)?;
        Some(self.messages.take(at))
    }

    /// Posts a receive for which no message [has come](Self::find).
    pub(crate) fn post(&mut self, key: MatchKey, receive: R) -> PostedId {
        self.age += 1;
        self.open[key.openness()] += 1;
        PostedId { at: self.receives.push([key], self.age, receive), age: self.age }
    }

    /// Gives a message to the oldest receive that wants it, or keeps it.
    pub(crate) fn arrive(&mut self, key: MatchKey, message: M) -> Option<(R, M)> {
        let wanted = key.wanted_by();
        let some = wanted.iter().zip(&self.open).filter(|&(_, &count)| count > 0);
        match some.filter_map(|(&key, _)| self.receives.first(key)).min() {
            Some((_, at)) => Some((self.take_receive(at), message)),
            None => {
                self.age += 1;
                self.messages.push(wanted, self.age, message);
                None
            }
        }
    }

    /// Takes a receive back; `None` if a message has come for it.
    pub(crate) fn withdraw(&mut self, id: PostedId) -> Option<R> {
        let link = self.receives.links.get(id.at as usize)?;
        let is_there = link.item.is_some() && link.age == id.age;
        is_there.then(|| self.take_receive(id.at))
    }

    fn take_receive(&mut self, at: u32) -> R {
        self.open[self.receives.links[at as usize].keys[0].openness()] -= 1;
        self.receives.take(at)
    }

    /// Returns the receives that wait, in the order in which they were posted.
    pub(crate) fn posted(&self) -> Vec<(PostedId, MatchKey)> {
        let id = |at: u32| {
            let link = &self.receives.links[at as usize];
            (PostedId { at, age: link.age }, link.keys[0])
        };
        self.receives.in_order().into_iter().map(id).collect()
    }

    /// Takes all messages that were kept, in the order in which they have arrived.
    pub(crate) fn take_messages(&mut self) -> Vec<M> {
        self.messages.in_order().into_iter().map(|at| self.messages.take(at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MPI's rule, by searches from the oldest.
    #[derive(Default)]
    struct Oracle {
        posted: Vec<(MatchKey, u32)>,
        arrived: Vec<(MatchKey, u32)>,
    }

    fn wants(receive: MatchKey, message: MatchKey) -> bool {
        let agrees = |wanted, is| wanted == ANY || wanted == is;
        agrees(receive.source(), message.source()) && agrees(receive.tag(), message.tag())
    }

    impl Oracle {
        fn post(&mut self, key: MatchKey, receive: u32) -> Option<u32> {
            let at = self.arrived.iter().position(|&(message, _)| wants(key, message));
            if at.is_none() {
                self.posted.push((key, receive));
            }
            at.map(|at| self.arrived.remove(at).1)
        }

        fn arrive(&mut self, key: MatchKey, message: u32) -> Option<u32> {
            let at = self.posted.iter().position(|&(receive, _)| wants(receive, key));
            if at.is_none() {
                self.arrived.push((key, message));
            }
            at.map(|at| self.posted.remove(at).1)
        }

        fn withdraw(&mut self, receive: u32) -> bool {
            let at = self.posted.iter().position(|&(_, posted)| posted == receive);
            at.map(|at| self.posted.remove(at)).is_some()
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            // xorshift64*, Vigna 2016.
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
        }

        /// A source or a tag: any, of `open` in 8 draws.
        fn part(&mut self, kinds: u64, open: u64) -> i32 {
            if self.below(8) < open { ANY } else { self.below(kinds) as i32 }
        }
    }

    fn runs_like_the_oracle(seed: u64, kinds: u64, open: u64) {
        let (mut random, mut oracle) = (Random(seed), Oracle::default());
        let mut matcher: Matcher<u32, u32> = Matcher::new();
        let mut ids: Vec<(u32, PostedId)> = Vec::new();
        // Stretches of mostly receives, and of mostly messages.
        for step in 0..2000 {
            let lean = 2 + (step / 100) % 2 * 3;
            match random.below(8) {
                0 if !ids.is_empty() => {
                    // Also those that have got a message meanwhile.
                    let (receive, id) = ids[random.below(ids.len() as u64) as usize];
                    let is_there = oracle.withdraw(receive);
                    assert_eq!(matcher.withdraw(id), is_there.then_some(receive));
                }
                draw if draw <= u64::from(lean) => {
                    let key = MatchKey::new(random.part(kinds, open), random.part(kinds, open));
                    let found = matcher.find(key);
                    assert_eq!(found, oracle.post(key, step), "seed {seed}, step {step}");
                    if found.is_none() {
                        ids.push((step, matcher.post(key, step)));
                    }
                }
                _ => {
                    let key = MatchKey::new(random.part(kinds, 0), random.part(kinds, 0));
                    let given = matcher.arrive(key, step);
                    let expected = oracle.arrive(key, step).map(|receive| (receive, step));
                    assert_eq!(given, expected, "seed {seed}, step {step}");
                }
            }
            assert_eq!(matcher.waiting(), oracle.posted.len());
        }
        let posted: Vec<MatchKey> = matcher.posted().into_iter().map(|(_, key)| key).collect();
        assert_eq!(posted, oracle.posted.iter().map(|&(key, _)| key).collect::<Vec<_>>());
        let arrived: Vec<u32> = oracle.arrived.iter().map(|&(_, message)| message).collect();
        assert_eq!(matcher.take_messages(), arrived);
        assert_eq!(matcher.find(MatchKey::new(ANY, ANY)), None);
    }

    #[test]
    fn random_receives_and_messages_match_as_in_the_oracle() {
        for seed in 1..=20 {
            for (kinds, open) in [(2, 0), (2, 3), (4, 1), (4, 5), (50, 2)] {
                runs_like_the_oracle(seed, kinds, open);
            }
        }
    }

    #[test]
    fn the_older_of_an_open_and_a_narrow_receive_gets_the_message() {
        let (narrow, message) = (MatchKey::new(3, 7), MatchKey::new(3, 7));
        for open in [MatchKey::new(3, ANY), MatchKey::new(ANY, 7), MatchKey::new(ANY, ANY)] {
            for keys in [[narrow, open], [open, narrow]] {
                let mut matcher = Matcher::new();
                let _ids = keys.map(|key| matcher.post(key, key));
                let given = [0, 1].map(|number| matcher.arrive(message, number));
                assert_eq!(given, [Some((keys[0], 0)), Some((keys[1], 1))]);
            }
        }
    }

    #[test]
    fn an_id_of_a_receive_that_is_gone_takes_no_other_one_out() {
        let (key, mut matcher) = (MatchKey::new(0, 0), Matcher::new());
        let first = matcher.post(key, 'a');
        assert_eq!(matcher.arrive(key, 1), Some(('a', 1)));
        let second = matcher.post(key, 'b');
        assert_eq!(matcher.withdraw(first), None);
        assert_eq!(matcher.withdraw(second), Some('b'));
        assert_eq!(matcher.withdraw(second), None);
    }
}
