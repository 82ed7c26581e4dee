//! Numbers in place of values that come again and again, as formats of files have them.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Numbers for values, in the order in which they come.
pub(crate) struct Numbers<T> {
    known: HashMap<T, u64>,
    first: u64,
}

impl<T: Eq + Hash> Numbers<T> {
    /// Begins without values; `first` will be the number of the first one.
    pub(crate) fn new(first: u64) -> Self {
        Numbers { known: HashMap::new(), first }
    }

    /// Returns the number of a value, and true if the value is new.
    pub(crate) fn of<V>(&mut self, value: &V) -> (u64, bool)
    where
        T: Borrow<V>,
        V: ToOwned<Owned = T> + Eq + Hash + ?Sized,
    {
        if let Some(&number) = self.known.get(value) {
            return (number, false);
        }
        let number = self.first + self.known.len() as u64;
        self.known.insert(value.to_owned(), number);
        (number, true)
    }
}
