//! The first line of each item's documentation.

use syn::visit::{self, Visit};
use syn::{Attribute, GenericArgument, Item, PathArguments, ReturnType, Type};

use crate::attributes::{parts, string};

/// Lists the summaries that begin with a word that names no subject, each with its line.
pub(crate) fn headless(file: &syn::File) -> Vec<(usize, String)> {
    let mut found = SummaryFaults(Vec::new());
    found.check(&file.attrs, false);
    found.visit_file(file);
    found.0
}

/// Returns true for `bool`, and for an `Option`, `Result` or `Poll` of it.
pub(crate) fn returns_bool(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, kind) if is_bool(kind, &["Option", "Result", "Poll"]))
}

/// Returns true for `bool`, and for a generic type named in `around` with such an argument.
fn is_bool(kind: &Type, around: &[&str]) -> bool {
    let Type::Path(path) = kind else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    if last.ident == "bool" || last.ident == "AtomicBool" {
        return true;
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    around.iter().any(|name| last.ident == name)
        && matches!(arguments.args.first(), Some(GenericArgument::Type(inner)) if is_bool(inner, around))
}

/// Returns true for a field, constant or static that holds a `bool`.
fn holds_bool(kind: &Type) -> bool {
    is_bool(kind, &["Cell", "Option"])
}

/// Returns the words that `summary` begins with, if they may not begin one.
fn beginning(summary: &str, is_bool: bool) -> Option<&str> {
    let summary = summary.trim_start();
    let word = summary.split(|sign: char| !sign.is_alphabetic()).next()?;
    let refused = match word {
        "Of" | "By" | "Had" | "With" | "In" | "To" => true,
        "Who" | "Whom" | "Whose" | "Whoever" | "What" | "Whatever" | "Which" | "Whichever"
        | "When" | "Whenever" | "Where" | "Wherever" | "Why" => true,
        "Whether" => !is_bool,
        "As" => summary.starts_with("As [`"),
        _ => false,
    };
    refused.then_some(word)
}

struct SummaryFaults(Vec<(usize, String)>);

impl SummaryFaults {
    fn check(&mut self, attributes: &[Attribute], is_bool: bool) {
        if let Some((span, text)) = string(attributes, "doc")
            && let Some(word) = beginning(&text, is_bool)
        {
            self.0.push((span.start().line, word.to_owned()));
        }
    }
}

impl<'ast> Visit<'ast> for SummaryFaults {
    fn visit_item(&mut self, item: &'ast Item) {
        self.check(
            parts(item).0,
            match item {
                Item::Fn(item) => returns_bool(&item.sig.output),
                Item::Const(item) => holds_bool(&item.ty),
                Item::Static(item) => holds_bool(&item.ty),
                _ => false,
            },
        );
        visit::visit_item(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.check(&field.attrs, holds_bool(&field.ty));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.check(&variant.attrs, false);
        visit::visit_variant(self, variant);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.attrs, returns_bool(&item.sig.output));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.check(&item.attrs, holds_bool(&item.ty));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check(&item.attrs, returns_bool(&item.sig.output));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.check(&item.attrs, holds_bool(&item.ty));
    }

    fn visit_trait_item_type(&mut self, item: &'ast syn::TraitItemType) {
        self.check(&item.attrs, false);
    }
}

#[cfg(test)]
mod tests {
    fn words(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).unwrap();
        super::headless(&file).into_iter().map(|(line, word)| format!("{line} {word}")).collect()
    }

    #[test]
    fn summaries_without_a_subject_are_found_in_every_item() {
        assert_eq!(words("//! What it is.\n"), ["1 What"]);
        assert_eq!(words("struct S {\n/// Of a field.\na: u8 }"), ["2 Of"]);
        assert_eq!(
            words("enum E {\n/// To be.\nA,\n B {\n/// In it.\nb: u8 } }"),
            ["2 To", "5 In"]
        );
        assert_eq!(
            words("trait T {\n/// By hand.\nfn f();\n/// With a.\nconst A: u8; }"),
            ["2 By", "4 With"]
        );
        assert_eq!(
            words("impl S {\n/// As [`g`].\nfn f() {}\n/// Had it.\nconst A: u8 = 1; }"),
            ["2 As", "4 Had"]
        );
        assert_eq!(words("mod m {\n/// When it ends.\nfn f() {} }"), ["2 When"]);
    }

    #[test]
    fn whether_is_for_a_bool() {
        assert_eq!(words("/// Whether it is.\nfn f() -> u8 { 1 }"), ["1 Whether"]);
        assert!(words("/// Whether it is.\nfn f() -> io::Result<bool> {}").is_empty());
        assert!(words("struct S {\n/// Whether it is.\na: Cell<bool> }").is_empty());
        assert!(words("/// Whether it is.\nconst A: bool = true;").is_empty());
    }

    #[test]
    fn other_beginnings_and_later_lines_pass() {
        assert!(words("/// Returns it.\n///\n/// What it is.\nfn f() {}").is_empty());
        assert!(words("/// As long as it runs.\nfn f() {}\n/// Inner.\nfn g() {}").is_empty());
        assert!(words("// Of no item.\nfn f() {}").is_empty());
    }
}
