//! Paths in the arguments and bodies of macros, which have no syntax tree.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Token, UseTree};

use crate::tree::leaves;

/// A sequence `a::b::c`.
pub(crate) struct Sequence {
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
    /// Followed by `!`.
    pub(crate) is_macro: bool,
}

/// Lists the sequences of two or more names, and the macros that are called.
///
/// `$crate` reads as `crate`. A group `a::{b, c}` counts as its paths.
pub(crate) fn sequences(tokens: &TokenStream) -> Vec<Sequence> {
    let mut found = Vec::new();
    scan(tokens, &mut found);
    found
}

fn scan(tokens: &TokenStream, found: &mut Vec<Sequence>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        match &trees[at] {
            TokenTree::Group(group) => {
                scan(&group.stream(), found);
                at += 1;
            }
            TokenTree::Ident(_) => at = sequence(&trees, at, found),
            _ => at += 1,
        }
    }
}

/// Reads the sequence that begins at `at`, and returns where it ends.
fn sequence(trees: &[TokenTree], at: usize, found: &mut Vec<Sequence>) -> usize {
    let punct = |at: usize, sign: char| matches!(trees.get(at), Some(TokenTree::Punct(p)) if p.as_char() == sign);
    let line = trees[at].span().start().line;
    let mut path = vec![trees[at].to_string()];
    let mut next = at + 1;
    while punct(next, ':') && punct(next + 1, ':') {
        match trees.get(next + 2) {
            Some(TokenTree::Ident(name)) => {
                path.push(name.to_string());
                next += 3;
            }
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let parser = Punctuated::<UseTree, Token![,]>::parse_terminated;
                if let Ok(trees) = parser.parse2(group.stream()) {
                    for leaf in trees.iter().flat_map(leaves) {
                        let below = leaf.path.iter().filter(|name| *name != "self");
                        let path = path.iter().chain(below).cloned().collect();
                        found.push(Sequence { path, line: leaf.line, is_macro: false });
                    }
                }
                return next + 3;
            }
            _ => break,
        }
    }
    let continued = at >= 2 && punct(at - 1, ':') && punct(at - 2, ':');
    let variable = at >= 1 && punct(at - 1, '$') && path[0] != "crate";
    let is_macro = punct(next, '!') && !punct(next + 1, '=');
    if !continued && !variable && (path.len() > 1 || is_macro) {
        found.push(Sequence { path, line, is_macro });
    }
    next
}

#[cfg(test)]
mod tests {
    use super::sequences;

    fn paths(text: &str) -> Vec<String> {
        let found = sequences(&text.parse().unwrap());
        found.iter().map(|one| one.path.join("::") + if one.is_macro { "!" } else { "" }).collect()
    }

    #[test]
    fn paths_in_any_group_are_found() {
        assert_eq!(
            paths("{ let x = crate::a::b(super::c::D { e: 1 }); }"),
            ["crate::a::b", "super::c::D"]
        );
        assert_eq!(paths("$x => { $crate::a::b!($x) }"), ["crate::a::b!"]);
        assert_eq!(
            paths("use crate::a::{self, b::{C, D as E}, f::*};"),
            ["crate::a", "crate::a::b::C", "crate::a::b::D", "crate::a::f"]
        );
        assert_eq!(paths("in_call!()"), ["in_call!"]);
    }

    #[test]
    fn malformed_paths_are_not_found() {
        assert!(paths("a.b::<C>() + d").is_empty());
        assert!(paths("::std::mem").is_empty());
        assert!(paths("$a::b").is_empty());
        assert!(paths("a != b").is_empty());
    }
}
