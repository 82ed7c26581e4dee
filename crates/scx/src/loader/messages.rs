//! The messages of libbpf: kept instead of printed, and used for the text of an error.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;

/// Largest length of a message in characters; the verifier's log has thousands of lines.
const LONGEST: usize = 300;

/// The first message, and the last line of the verifier.
static TOLD: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));

/// Keeps messages from now on.
pub(super) fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        if told.0.is_empty() {
            told.0 = first_line(&text);
        }
        if let Some(line) = last_of_verifier(&text) {
            told.1 = line;
        }
    })));
}

/// Takes the messages since the last call; empty if there were none.
pub(super) fn take() -> String {
    let told = std::mem::take(&mut *TOLD.lock().unwrap_or_else(PoisonError::into_inner));
    match told {
        (first, verifier) if verifier.is_empty() => first,
        (first, verifier) => format!("{first} ({verifier})"),
    }
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.trim_start_matches("libbpf: ").chars().take(LONGEST).collect()
}

/// The verifier ends its log with statistics, behind its reason.
fn last_of_verifier(text: &str) -> Option<String> {
    let (log, _) = text.split_once("\nprocessed ")?;
    Some(log.lines().last()?.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relevant_part_of_a_log_is_reported() {
        let log = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\ninvalid access\nprocessed 3 insns\n-- END\n";
        assert_eq!(first_line("libbpf: prog 'x': failed\n"), "prog 'x': failed");
        assert_eq!(last_of_verifier(log).as_deref(), Some("invalid access"));
        assert_eq!(last_of_verifier("libbpf: failed to load object\n"), None);
    }
}
