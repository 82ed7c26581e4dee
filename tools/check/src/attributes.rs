//! Attributes and names of items, and the items that a normal build contains.

use proc_macro2::{Ident, Span};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, Lit, Meta, Token};

/// Returns the attributes and the name of an item; modules and imports are without a name here.
pub(crate) fn parts(item: &Item) -> (&[Attribute], Option<&Ident>) {
    match item {
        Item::Const(item) => (&item.attrs, Some(&item.ident)),
        Item::Enum(item) => (&item.attrs, Some(&item.ident)),
        Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
        Item::ForeignMod(item) => (&item.attrs, None),
        Item::Impl(item) => (&item.attrs, None),
        Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
        Item::Mod(item) => (&item.attrs, None),
        Item::Static(item) => (&item.attrs, Some(&item.ident)),
        Item::Struct(item) => (&item.attrs, Some(&item.ident)),
        Item::Trait(item) => (&item.attrs, Some(&item.ident)),
        Item::Type(item) => (&item.attrs, Some(&item.ident)),
        Item::Union(item) => (&item.attrs, Some(&item.ident)),
        Item::Use(item) => (&item.attrs, None),
        _ => (&[], None),
    }
}

/// Returns the string of the first attribute `name = "string"`.
pub(crate) fn string(attributes: &[Attribute], name: &str) -> Option<(Span, String)> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident(name) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some((text.span(), text.value())),
            _ => None,
        },
        _ => None,
    })
}

/// Returns true if no `cfg` attribute limits the item to tests, models or documentation.
pub(crate) fn is_built(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| {
        if attribute.path().is_ident("test") {
            return false;
        }
        if !attribute.path().is_ident("cfg") {
            return true;
        }
        attribute.parse_args::<Meta>().map_or(true, |condition| holds(&condition) != Some(false))
    })
}

/// Evaluates a condition for a build without tests and models: `None` if the build decides.
fn holds(condition: &Meta) -> Option<bool> {
    match condition {
        Meta::Path(path) => ["test", "loom", "shuttle", "doc", "miri"]
            .iter()
            .any(|name| path.is_ident(name))
            .then_some(false),
        Meta::NameValue(pair) => pair.path.is_ident("weaken").then_some(false),
        Meta::List(list) => {
            let parts =
                list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
            let mut parts = parts.iter().map(holds);
            if list.path.is_ident("not") {
                parts.next()?.map(|value| !value)
            } else if list.path.is_ident("all") {
                fold(parts, false)
            } else if list.path.is_ident("any") {
                fold(parts, true)
            } else {
                None
            }
        }
    }
}

/// Returns `decisive` if a part has that value, its opposite if all parts have the opposite.
fn fold(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut result = Some(!decisive);
    for part in parts {
        if part == Some(decisive) {
            return part;
        }
        if part.is_none() {
            result = None;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::is_built;

    fn built(item: &str) -> bool {
        match syn::parse_str::<syn::Item>(item).unwrap() {
            syn::Item::Fn(item) => is_built(&item.attrs),
            _ => panic!("not a function"),
        }
    }

    #[test]
    fn tests_and_models_are_not_built() {
        assert!(!built("#[test] fn f() {}"));
        assert!(!built("#[cfg(test)] fn f() {}"));
        assert!(!built("#[cfg(all(test, not(loom)))] fn f() {}"));
        assert!(!built("#[cfg(all(feature = \"a\", loom))] fn f() {}"));
        assert!(!built("#[cfg(any(loom, shuttle))] fn f() {}"));
        assert!(!built("#[cfg(weaken = \"a\")] fn f() {}"));
    }

    #[test]
    fn other_conditions_are() {
        assert!(built("#[inline] fn f() {}"));
        assert!(built("#[cfg(not(test))] fn f() {}"));
        assert!(built("#[cfg(not(any(loom, shuttle)))] fn f() {}"));
        assert!(built("#[cfg(any(feature = \"a\", test))] fn f() {}"));
        assert!(built("#[cfg(target_arch = \"x86_64\")] fn f() {}"));
    }
}
