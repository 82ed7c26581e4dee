//! The files in which the item that a path names may be defined.

use crate::tree::{Definition, ModuleId, Tree};

/// The end of a path of this crate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Destination {
    Module(ModuleId),
    /// An item, by the module that defines it.
    Item(ModuleId),
}

impl Destination {
    pub(crate) fn module(self) -> ModuleId {
        match self {
            Self::Module(id) | Self::Item(id) => id,
        }
    }
}

/// Names that are being looked up, since globs and imports can lead back to where they began.
type Visited = Vec<(ModuleId, String)>;

impl Tree {
    /// Follows `path`, as written in `from`, through modules and re-exports to its definition.
    ///
    /// The result is empty for a path of another crate, and has several entries where a name means
    /// several things, as a module and a function.
    pub(crate) fn resolve(&self, from: ModuleId, path: &[String]) -> Vec<Destination> {
        self.follow(from, path, &mut Vec::new())
    }

    /// Returns true if a `use` of `module` declares `name`.
    pub(crate) fn is_imported(&self, module: ModuleId, name: &str) -> bool {
        let mut found = self.modules[module].names.get(name).into_iter().flatten();
        found.any(|definition| matches!(definition, Definition::Use(_)))
    }

    fn follow(&self, from: ModuleId, path: &[String], visited: &mut Visited) -> Vec<Destination> {
        let mut here = from;
        let mut rest = path;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "crate" => here = 0,
                "super" => here = self.modules[here].parent.unwrap_or(0),
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        let anchored = rest.len() < path.len();
        if rest.is_empty() && !anchored {
            return Vec::new();
        }
        let mut found = vec![Destination::Module(here)];
        for (at, name) in rest.iter().enumerate() {
            let mut next = Vec::new();
            for destination in found {
                let Destination::Module(module) = destination else {
                    next.push(destination);
                    continue;
                };
                let named = self.look_up(module, name, visited);
                if !named.is_empty() {
                    next.extend(named);
                } else if anchored || at > 0 {
                    // A macro defines the name, or another crate.
                    next.push(Destination::Item(module));
                }
            }
            let is_module = |one: &Destination| matches!(one, Destination::Module(_));
            if at + 1 < rest.len() && next.iter().any(is_module) {
                next.retain(is_module);
            }
            next.dedup();
            found = next;
        }
        found
    }

    fn look_up(&self, module: ModuleId, name: &str, visited: &mut Visited) -> Vec<Destination> {
        if visited.iter().any(|(seen, other)| *seen == module && other == name) {
            // `use name::name`: the first is the module, not this import again.
            let named = self.modules[module].names.get(name).into_iter().flatten();
            return named.filter_map(Definition::end).collect();
        }
        visited.push((module, name.to_owned()));
        let found = match self.modules[module].names.get(name) {
            Some(definitions) => self.ends(module, definitions, visited),
            None => self.modules[module]
                .globs
                .iter()
                .flat_map(|path| self.follow(module, path, visited))
                .collect::<Vec<_>>()
                .into_iter()
                .flat_map(|end| match end {
                    Destination::Module(inner) => self.look_up(inner, name, visited),
                    Destination::Item(_) => Vec::new(),
                })
                .collect(),
        };
        visited.pop();
        found
    }

    fn ends(
        &self,
        module: ModuleId,
        definitions: &[Definition],
        visited: &mut Visited,
    ) -> Vec<Destination> {
        let mut found = Vec::new();
        for definition in definitions {
            if let Definition::Use(path) = definition {
                let leads = self.follow(module, path, visited);
                if leads.is_empty() {
                    // The name is another crate's, and this the last module on its path.
                    found.push(Destination::Item(module));
                }
                found.extend(leads);
            }
            found.extend(definition.end());
        }
        found
    }
}

impl Definition {
    /// Returns the item or module that is defined here, or `None` for an import.
    fn end(&self) -> Option<Destination> {
        match self {
            Self::Item(id) => Some(Destination::Item(*id)),
            Self::Module(id) => Some(Destination::Module(*id)),
            Self::Use(_) => None,
        }
    }
}
