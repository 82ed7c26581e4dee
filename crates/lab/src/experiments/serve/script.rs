//! Requests and expected replies, prepared beforehand, so that a request costs its sender a copy,
//! and a reply costs a comparison.

use crate::kit::SplitMix64;
use crate::kit::redis::{command, string};

/// Requests in all scripts of a kind: the number of keys of a store, and of messages for an echo.
const REQUESTS: usize = 1024;
/// Bytes of a value and of a message.
pub(super) const BYTES: usize = 64;

/// A protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// The server sends back all received bytes.
    Echo,
    /// The protocol of Redis: GET and SET of values of 64 bytes.
    Resp {
        /// Per cent of the requests that are SET.
        writes: usize,
    },
}

/// Requests that are sent together, and their replies.
pub(super) struct Script {
    pub(super) request: Box<[u8]>,
    pub(super) reply: Box<[u8]>,
}

/// Scripts that a connection sends one after the other.
///
/// All replies differ except those to SET, so that the reply to another request is detected.
pub(super) struct Scripts {
    scripts: Box<[Script]>,
    /// Requests in each script.
    pub(super) pipeline: usize,
    /// Requests to be sent once, before all scripts.
    pub(super) set_up: Script,
}

impl Scripts {
    /// The scripts of `language`, each with `pipeline` requests.
    pub(super) fn new(language: Language, pipeline: usize) -> Self {
        let pairs: Vec<_> = (0..REQUESTS).map(|index| language.request(index)).collect();
        let scripts = pairs.chunks(pipeline).map(Script::of).collect();
        Self { scripts, pipeline, set_up: language.set_up() }
    }

    /// Number of scripts.
    pub(super) fn len(&self) -> usize {
        self.scripts.len()
    }

    /// Returns script `index`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &Script {
        &self.scripts[index]
    }
}

impl Script {
    /// Joins several requests, and their replies, into one script.
    fn of(pairs: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let (requests, replies): (Vec<_>, Vec<_>) = pairs.iter().cloned().unzip();
        Self { request: requests.concat().into(), reply: replies.concat().into() }
    }
}

impl Language {
    /// Request `index` and its reply. A store returns the values stored by
    /// [`set_up`](Self::set_up), and later requests store the same values again, so the order of
    /// the connections' requests does not matter.
    fn request(self, index: usize) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Echo => (value(index), value(index)),
            Self::Resp { writes } if index * writes % 100 < writes => set(index),
            Self::Resp { .. } => (command(&[b"GET", key(index).as_bytes()]), string(&value(index))),
        }
    }

    fn set_up(self) -> Script {
        match self {
            Self::Echo => Script::of(&[]),
            Self::Resp { .. } => Script::of(&(0..REQUESTS).map(set).collect::<Vec<_>>()),
        }
    }
}

fn set(index: usize) -> (Vec<u8>, Vec<u8>) {
    (command(&[b"SET", key(index).as_bytes(), &value(index)]), b"+OK\r\n".to_vec())
}

fn key(index: usize) -> String {
    format!("key:{index:012}")
}

/// Returns arbitrary bytes, including those that end lines.
fn value(index: usize) -> Vec<u8> {
    let mut random = SplitMix64(index as u64);
    (0..BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const RESP: Language = Language::Resp { writes: 10 };

    #[test]
    fn all_requests_are_asked_however_many_at_once() {
        for language in [Language::Echo, RESP] {
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
        let scripts = Scripts::new(RESP, 1);
        let replies = (0..scripts.len()).map(|index| &scripts.get(index).reply);
        let stores = REQUESTS.div_ceil(10);
        assert_eq!(replies.collect::<BTreeSet<_>>().len(), REQUESTS - stores + 1);
    }

    #[test]
    fn a_read_is_answered_with_the_stored_value() {
        let (request, reply) = RESP.request(1);
        assert!(request.starts_with(b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n"));
        assert_eq!(reply, [b"$64\r\n", &value(1)[..], b"\r\n"].concat());
        let (stores, replies) = (0..REQUESTS).map(set).unzip::<_, _, Vec<_>, Vec<_>>();
        let set_up = RESP.set_up();
        assert_eq!(
            (&set_up.request[..], &set_up.reply[..]),
            (&stores.concat()[..], &replies.concat()[..])
        );
    }

    #[test]
    fn as_many_requests_store_a_value_as_was_said() {
        for writes in [10, 50, 100] {
            let is_set = |index: &usize| Language::Resp { writes }.request(*index) == set(*index);
            assert_eq!((0..1000).filter(is_set).count(), 10 * writes);
        }
    }

    #[test]
    fn an_echo_is_asked_nothing_beforehand() {
        assert!(Language::Echo.set_up().request.is_empty());
    }
}
