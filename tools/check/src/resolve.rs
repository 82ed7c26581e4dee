//! The files in which the item that a path names may be defined.

use crate::tree::{Definition, Module, ModuleId, Tree};

/// What a path of this crate leads to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Target {
    Module(ModuleId),
    /// An item, by the module that defines it.
    Item(ModuleId),
}

impl Target {
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
    pub(crate) fn resolve(&self, from: ModuleId, path: &[String]) -> Vec<Target> {
        self.follow(from, path, &mut Vec::new())
    }

    /// Returns true if a `use` of `module` declares `name`.
    pub(crate) fn is_imported(&self, module: ModuleId, name: &str) -> bool {
        let Module { names, inner_names, .. } = &self.modules[module];
        let found = [names.get(name), inner_names.get(name)].into_iter().flatten().flatten();
        found.into_iter().any(|definition| matches!(definition, Definition::Use(_)))
    }

    fn follow(&self, from: ModuleId, path: &[String], visited: &mut Visited) -> Vec<Target> {
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
        let mut found = vec![Target::Module(here)];
        for (at, name) in rest.iter().enumerate() {
            let mut next = Vec::new();
            for target in found {
                match target {
                    Target::Item(_) => next.push(target),
                    Target::Module(module) => {
                        let mut named = self.look_up(module, name, visited);
                        if named.is_empty() && at == 0 && !anchored {
                            named = self.inner(module, name, visited);
                            if named.is_empty() {
                                return Vec::new();
                            }
                        }
                        match named.is_empty() {
                            // A name that a macro defines, or another crate's.
                            true => next.push(Target::Item(module)),
                            false => next.extend(named),
                        }
                    }
                }
            }
            let is_module = |target: &Target| matches!(target, Target::Module(_));
            if at + 1 < rest.len() && next.iter().any(is_module) {
                next.retain(is_module);
            }
            next.dedup();
            found = next;
        }
        if rest.is_empty() && !anchored { Vec::new() } else { found }
    }

    fn look_up(&self, module: ModuleId, name: &str, visited: &mut Visited) -> Vec<Target> {
        if visited.iter().any(|(seen, other)| *seen == module && other == name) {
            // `use name::name`: the first is the module, not this import again.
            let named = self.modules[module].names.get(name).into_iter().flatten();
            return named.filter_map(Definition::target).collect();
        }
        visited.push((module, name.to_owned()));
        let found = match self.modules[module].names.get(name) {
            Some(definitions) => self.targets(module, definitions, visited),
            None => self.modules[module]
                .globs
                .iter()
                .flat_map(|path| self.follow(module, path, visited))
                .collect::<Vec<_>>()
                .into_iter()
                .flat_map(|target| match target {
                    Target::Module(inner) => self.look_up(inner, name, visited),
                    Target::Item(_) => Vec::new(),
                })
                .collect(),
        };
        visited.pop();
        found
    }

    fn inner(&self, module: ModuleId, name: &str, visited: &mut Visited) -> Vec<Target> {
        match self.modules[module].inner_names.get(name) {
            Some(definitions) => self.targets(module, definitions, visited),
            None => Vec::new(),
        }
    }

    fn targets(
        &self,
        module: ModuleId,
        definitions: &[Definition],
        visited: &mut Visited,
    ) -> Vec<Target> {
        let mut found = Vec::new();
        for definition in definitions {
            if let Definition::Use(path) = definition {
                let leads = self.follow(module, path, visited);
                match leads.is_empty() {
                    // Of another crate: this module is the last that the path passes here.
                    true => found.push(Target::Item(module)),
                    false => found.extend(leads),
                }
            }
            found.extend(definition.target());
        }
        found
    }
}

impl Definition {
    /// Returns what is defined here, or `None` for an import.
    fn target(&self) -> Option<Target> {
        match self {
            Self::Item(id) => Some(Target::Item(*id)),
            Self::Module(id) => Some(Target::Module(*id)),
            Self::Use(_) => None,
        }
    }
}
