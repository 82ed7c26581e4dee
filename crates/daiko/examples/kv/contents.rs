//! The contents of the log's records: the changes of the keys that a request made.
//!
//! ```text
//! record  change...
//! change  1 expiry key value      a value is set; the expiry in milliseconds of Unix time
//!         2 key                   a key is removed
//!         3                       all keys are removed
//!         4                       the log was rewritten: the keys are those of the records before
//! ```
//!
//! Keys and values are bytes behind their length. A length has 32 bits, an expiry 64, the least
//! significant byte first.
//!
//! Changes state the result, not the operation: it does no harm to repeat them in order.

/// The program, as its messages name it.
pub(crate) const PROGRAM: &str = "kv";
/// The first bytes of its logs.
pub(crate) const NAME: &[u8; 8] = b"kv-log 1";
/// The contents of the record that notes a rewrite.
pub(crate) const REWRITTEN_NOTE: &[u8] = &[REWRITTEN];

const SET: u8 = 1;
const REMOVE: u8 = 2;
const CLEAR: u8 = 3;
const REWRITTEN: u8 = 4;

/// A change of the keys, or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyChange<'b> {
    Set { key: &'b [u8], value: &'b [u8], expires: i64 },
    Remove { key: &'b [u8] },
    Clear,
    Rewritten,
}

impl<'b> KeyChange<'b> {
    /// Appends the change to a record.
    pub(crate) fn encode(&self, record: &mut Vec<u8>) {
        match self {
            KeyChange::Set { key, value, expires } => {
                record.push(SET);
                record.extend_from_slice(&expires.to_le_bytes());
                encode_text(record, key);
                encode_text(record, value);
            }
            KeyChange::Remove { key } => {
                record.push(REMOVE);
                encode_text(record, key);
            }
            KeyChange::Clear => record.push(CLEAR),
            KeyChange::Rewritten => record.push(REWRITTEN),
        }
    }

    /// Takes the first change off `rest`. `None` if there is none.
    fn decode(rest: &mut &'b [u8]) -> Option<KeyChange<'b>> {
        Some(match *rest.split_off_first()? {
            SET => {
                let expires = i64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?);
                KeyChange::Set { key: text(rest)?, value: text(rest)?, expires }
            }
            REMOVE => KeyChange::Remove { key: text(rest)? },
            CLEAR => KeyChange::Clear,
            REWRITTEN => KeyChange::Rewritten,
            _ => return None,
        })
    }
}

/// Returns true if the bytes are changes to the last one.
pub(crate) fn are_whole(mut contents: &[u8]) -> bool {
    while !contents.is_empty() {
        if KeyChange::decode(&mut contents).is_none() {
            return false;
        }
    }
    true
}

/// Returns the changes of a record.
pub(crate) fn changes<'b>(mut contents: &'b [u8]) -> impl Iterator<Item = KeyChange<'b>> {
    std::iter::from_fn(move || KeyChange::decode(&mut contents))
}

/// Returns the contents of a record with these changes.
pub(crate) fn encoded(changes: &[KeyChange<'_>]) -> Vec<u8> {
    let mut contents = Vec::new();
    changes.iter().for_each(|change| change.encode(&mut contents));
    contents
}

fn encode_text(record: &mut Vec<u8>, text: &[u8]) {
    // No word of a request is longer than 512 MiB.
    record.extend_from_slice(&(text.len() as u32).to_le_bytes());
    record.extend_from_slice(text);
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let bytes = number(rest)?;
    rest.split_off(..bytes as usize)
}

/// Takes a number of 32 bits off `rest`.
fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?))
}
