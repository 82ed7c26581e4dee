//! What libbpf would print: the library here prints nothing, and tells one line of it in an error.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::PrintLevel;

/// As much as makes a line; the verifier's log has thousands.
const LONGEST: usize = 300;

/// The first complaint, and what the verifier said last.
static TOLD: Mutex<(String, String)> = Mutex::new((String::new(), String::new()));

/// From now on complaints are kept.
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

/// The complaints since the last ones were taken; empty if there were none.
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

/// The verifier ends its log by statistics; before them it says what it does not like.
fn last_of_verifier(text: &str) -> Option<String> {
    let (log, _) = text.split_once("\nprocessed ")?;
    Some(log.lines().last()?.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_what_matters_is_told() {
        let log = "libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\ninvalid access\nprocessed 3 insns\n-- END\n";
        assert_eq!(first_line("libbpf: prog 'x': failed\n"), "prog 'x': failed");
        assert_eq!(last_of_verifier(log).as_deref(), Some("invalid access"));
        assert_eq!(last_of_verifier("libbpf: failed to load object\n"), None);
    }
}
