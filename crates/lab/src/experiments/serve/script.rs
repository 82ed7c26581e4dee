//! What is asked, and what has to be answered: prepared beforehand, so that a request costs whoever
//! sends it a copy, and its reply a comparison.

use crate::kit::SplitMix64;
use crate::kit::redis::{command, string};

/// Requests in all scripts of a kind: as many keys of a store, and as many messages for an echo.
const REQUESTS: usize = 1024;
/// Bytes of a value and of a message.
pub(super) const BYTES: usize = 64;
/// One request in so many stores a value; the others read one.
const STORE_EACH: usize = 10;

/// What a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// It sends back what it receives.
    Echo,
    /// The protocol of Redis: GET, and one SET for each nine of them, of values of 64 bytes.
    Resp,
}

/// Requests that are sent together, and the replies to them.
pub(super) struct Script {
    pub(super) request: Box<[u8]>,
    pub(super) reply: Box<[u8]>,
}

/// Scripts, of which a connection goes through one after the other.
///
/// No two replies are alike but those to SET, so that one which belongs to another request is found out.
pub(super) struct Scripts {
    scripts: Box<[Script]>,
    /// Requests in each of them.
    pub(super) pipeline: usize,
    /// To be done once, before all others.
    pub(super) set_up: Script,
}

impl Scripts {
    /// Those of `language`, each of `pipeline` requests.
    pub(super) fn new(language: Language, pipeline: usize) -> Self {
        let pairs: Vec<_> = (0..REQUESTS).map(|index| language.request(index)).collect();
        let scripts = pairs.chunks(pipeline).map(Script::of).collect();
        Self { scripts, pipeline, set_up: language.set_up() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.scripts.len()
    }

    /// The script of that number.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &Script {
        &self.scripts[index]
    }
}

impl Script {
    /// Some requests with their replies, in one.
    fn of(pairs: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let (requests, replies): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
        Self { request: requests.concat().into(), reply: replies.concat().into() }
    }
}

impl Language {
    /// Request `index` and its reply. A store is asked for what it was told in [`set_up`](Self::set_up),
    /// and told the same again, so that it does not matter in which order connections ask.
    fn request(self, index: usize) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Echo => (value(index), value(index)),
            Self::Resp if index.is_multiple_of(STORE_EACH) => set(index),
            Self::Resp => (command(&[b"GET", key(index).as_bytes()]), string(&value(index))),
        }
    }

    fn set_up(self) -> Script {
        match self {
            Self::Echo => Script::of(&[]),
            Self::Resp => Script::of(&(0..REQUESTS).map(set).collect::<Vec<_>>()),
        }
    }
}

fn set(index: usize) -> (Vec<u8>, Vec<u8>) {
    (command(&[b"SET", key(index).as_bytes(), &value(index)]), b"+OK\r\n".to_vec())
}

fn key(index: usize) -> String {
    format!("key:{index:012}")
}

/// Any bytes, those among them that end lines.
fn value(index: usize) -> Vec<u8> {
    let mut random = SplitMix64(index as u64);
    (0..BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_requests_are_asked_however_many_at_once() {
        for language in [Language::Echo, Language::Resp] {
            let whole = |pipeline| -> Vec<u8> {
                let scripts = Scripts::new(language, pipeline);
                let requests = (0..scripts.len()).map(|index| &scripts.get(index).request[..]);
                requests.collect::<Vec<_>>().concat()
            };
            assert!(whole(1) == whole(16) && Scripts::new(language, 16).len() == REQUESTS / 16);
        }
    }

    #[test]
    fn no_two_replies_are_alike_but_to_a_store() {
        let scripts = Scripts::new(Language::Resp, 1);
        let replies = (0..scripts.len()).map(|index| &scripts.get(index).reply);
        let stores = REQUESTS.div_ceil(STORE_EACH);
        assert_eq!(replies.collect::<BTreeSet<_>>().len(), REQUESTS - stores + 1);
    }

    #[test]
    fn a_read_is_answered_with_what_was_stored() {
        let (request, reply) = Language::Resp.request(1);
        assert!(request.starts_with(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"));
        assert_eq!(reply, [b"$64\r\n", &value(1)[..], b"\r\n"].concat());
        let (stores, replies) = (0..REQUESTS).map(set).unzip::<_, _, Vec<_>, Vec<_>>();
        let set_up = Language::Resp.set_up();
        assert_eq!(
            (&set_up.request[..], &set_up.reply[..]),
            (&stores.concat()[..], &replies.concat()[..])
        );
    }

    #[test]
    fn an_echo_is_asked_nothing_beforehand() {
        assert!(Language::Echo.set_up().request.is_empty());
    }
}
