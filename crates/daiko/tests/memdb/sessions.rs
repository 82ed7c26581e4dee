//! Sessions without a socket: bytes of any client.

use std::io::{self, Read, Write};

use proptest::collection::vec;
use proptest::prelude::*;

use super::converse::converse;
use super::database::MemDb;
use super::mix::Mix;
use super::place::{SMALL, in_memory};
use super::request::{DbRequest, MOST_REQUEST_BYTES, Refusal, Reply};
use super::session::{UnsentReplies, frame};

/// A client that sends its bytes in pieces of these lengths, in turn.
struct Peer<'b> {
    bytes: &'b [u8],
    pieces: &'b [usize],
    at: usize,
    replies: Vec<u8>,
}

impl Read for Peer<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.pieces[self.at % self.pieces.len()]);
        self.at += 1;
        self.bytes.read(&mut into[..most])
    }
}

impl Write for Peer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.replies.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the replies to `bytes`, and the number of bytes that were not read.
fn replies(database: &MemDb, bytes: &[u8], pieces: &[usize]) -> (Vec<Reply>, usize) {
    let mut peer = Peer { bytes, pieces, at: 0, replies: Vec::new() };
    converse(&mut peer, database).unwrap();
    let (mut rest, mut replies) = (&peer.replies[..], Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk() {
        let (reply, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        replies.push(Reply::decode(reply).expect("a reply"));
        rest = behind;
    }
    assert!(rest.is_empty());
    (replies, peer.bytes.len())
}

fn framed(requests: &[DbRequest]) -> Vec<u8> {
    let mut bytes = Vec::new();
    requests.iter().for_each(|request| frame(&mut bytes, |bytes| request.encode(bytes)));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn replies_do_not_depend_on_the_pieces(seed in any::<u64>(), pieces in vec(1..300usize, 1..8)) {
        let mut mix = Mix::new(seed, 1, SMALL);
        let requests: Vec<_> = (0..30).map(|_| mix.next().1).collect();
        let bytes = framed(&requests);
        let whole = replies(&in_memory().database, &bytes, &[usize::MAX]);
        prop_assert_eq!(whole.0.len(), 30);
        prop_assert_eq!(replies(&in_memory().database, &bytes, &pieces), whole);
    }

    #[test]
    fn garbage_is_refused_and_ends_the_session_or_not(bytes in vec(any::<u8>(), 0..600), pieces in vec(1..300usize, 1..8)) {
        let opened = in_memory();
        let (replies, _) = replies(&opened.database, &bytes, &pieces);
        prop_assert!(replies.iter().all(|reply| !matches!(reply, Reply::Failed(_))));
        prop_assert_eq!(opened.database.execute(&DbRequest::Check).0, Reply::Consistent);
    }
}

#[test]
fn a_length_that_no_request_has_ends_the_session() {
    let refused = Reply::Refused(Refusal::Malformed);
    let check = framed(&[DbRequest::Check]);
    for length in [MOST_REQUEST_BYTES as u32 + 1, u32::MAX, u32::from_le_bytes(*b"GET ")] {
        let bytes = [&check[..], &length.to_le_bytes(), &[7; 1000]].concat();
        let (found, unread) = replies(&in_memory().database, &bytes, &[usize::MAX]);
        assert_eq!(found, [Reply::Consistent, refused.clone()]);
        assert!(unread > 0);
    }
    // A frame that is no request is refused, and the next one is answered.
    let mut bytes = Vec::new();
    frame(&mut bytes, |bytes| bytes.extend([99; 5]));
    frame(&mut bytes, |_| ());
    bytes.extend(&check);
    let (found, _) = replies(&in_memory().database, &bytes, &[usize::MAX]);
    assert_eq!(found, [refused.clone(), refused, Reply::Consistent]);
}

#[test]
fn replies_that_the_log_has_not_reached_become_errors() {
    let (mut replies, early) = (UnsentReplies::default(), Default::default());
    let late = {
        let folder = super::place::LogFolder::new();
        let opened = folder.open();
        let delivery = DbRequest::Delivery { warehouse: 1, carrier: 1 };
        opened.database.execute(&delivery).1
    };
    replies.add(&Reply::Consistent, early);
    replies.add(&Reply::Low { items: 3 }, late);
    replies.add(&Reply::Stopped, early);
    assert_eq!(replies.after(), late);
    replies.fail_after(early, "no room");
    let mut expected = Vec::new();
    for reply in [Reply::Consistent, Reply::Failed("no room".into()), Reply::Stopped] {
        frame(&mut expected, |bytes| reply.encode(bytes));
    }
    assert_eq!(replies.bytes, expected);
}
