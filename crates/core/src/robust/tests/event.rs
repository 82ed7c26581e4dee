//! The event, from any word.

use super::*;

proptest! {
    #[test]
    fn from_any_word_on_a_set_is_seen_and_taken_back_once(word: u64) {
        let event = RobustEvent::new();
        event.spoil(word);
        let was_set = event.is_set();
        prop_assert_eq!(event.reset(), was_set);
        let seen = event.look();
        prop_assert!(!event.has_come(seen));
        event.set();
        event.set();
        prop_assert!(event.is_set() && event.has_come(seen));
        prop_assert!(event.reset() && !event.reset());
        prop_assert!(!event.is_set() && event.has_come(seen));
    }
}
