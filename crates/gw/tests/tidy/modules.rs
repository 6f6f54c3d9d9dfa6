//! The modules of a crate, read from its files: what each defines, imports and names by a path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tokens::{Token, balanced, tokens, without_tests};

const TYPES: [&str; 5] = ["struct", "enum", "trait", "union", "type"];
const ITEMS: [&str; 9] = ["struct", "enum", "trait", "union", "type", "fn", "const", "static", "macro_rules"];

/// One name that a `use` brings into a module.
struct Import {
    path: Vec<String>,
    /// The name in this module, or `None` for a glob.
    name: Option<String>,
    is_reexport: bool,
}

#[derive(Default)]
struct Module {
    /// The index of the file in which the module stands.
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names of the items of the module itself.
    items: BTreeSet<String>,
    types: Vec<String>,
    imports: Vec<Import>,
    /// Every path of two or more segments outside of `use`.
    paths: BTreeSet<Vec<String>>,
    /// Every identifier outside of `use`.
    names: BTreeSet<String>,
}

/// The modules of a crate that are compiled without its tests.
#[derive(Default)]
pub(super) struct Crate {
    pub(super) files: Vec<PathBuf>,
    modules: Vec<Module>,
    /// The module of lib.rs or main.rs for each module.
    roots: Vec<usize>,
}

/// A name that was looked up.
enum Found {
    Module(usize),
    Item { file: usize },
}

impl Crate {
    /// Reads a crate from its root files: `src/lib.rs`, `src/main.rs`.
    pub(super) fn read(roots: &[PathBuf], source: &dyn Fn(&Path) -> String) -> Self {
        let mut found = Self::default();
        for root in roots {
            found.file(root, None, source);
        }
        found
    }

    fn file(&mut self, path: &Path, parent: Option<usize>, source: &dyn Fn(&Path) -> String) -> usize {
        let tokens = without_tests(&tokens(&source(path)));
        self.files.push(path.to_owned());
        let module = self.add(self.files.len() - 1, parent);
        self.body(module, &tokens, path, source);
        module
    }

    fn add(&mut self, file: usize, parent: Option<usize>) -> usize {
        let index = self.modules.len();
        self.roots.push(parent.map_or(index, |parent| self.roots[parent]));
        self.modules.push(Module { file, parent, ..Module::default() });
        index
    }

    /// Reads the items of a module. Paths and names count wherever they stand, items only outside of all brackets.
    fn body(&mut self, module: usize, tokens: &[Token], path: &Path, source: &dyn Fn(&Path) -> String) {
        let (mut at, mut depth) = (0, 0);
        while at < tokens.len() {
            let next = tokens.get(at + 1).and_then(Token::name);
            match &tokens[at] {
                Token::Mark('(' | '[' | '{') => depth += 1,
                Token::Mark(')' | ']' | '}') => depth -= 1,
                Token::Name(word) if word == "use" => {
                    let is_reexport =
                        at > 0 && (tokens[at - 1].is_name("pub") || tokens[at - 1].is_mark(')'));
                    let length = tokens[at..].iter().take_while(|token| !token.is_mark(';')).count();
                    self.imports(module, &tokens[at + 1..at + length], is_reexport);
                    at += length;
                    continue;
                }
                Token::Name(word) if word == "mod" && depth == 0 && next.is_some() => {
                    at += self.child(module, &tokens[at..], path, source);
                    continue;
                }
                Token::Name(word) => {
                    if depth == 0 && ITEMS.contains(&word.as_str()) {
                        let name = tokens[at + 1..].iter().find_map(Token::name).filter(|name| *name != "fn");
                        let module = &mut self.modules[module];
                        module.items.extend(name.map(str::to_owned));
                        if TYPES.contains(&word.as_str()) {
                            module.types.extend(name.map(str::to_owned));
                        }
                    }
                    at += self.path(module, tokens, at);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Notes the path that begins at a name; gives its length.
    fn path(&mut self, module: usize, tokens: &[Token], at: usize) -> usize {
        let mut path = Vec::new();
        let mut end = at;
        while let Some(name) = tokens.get(end).and_then(Token::name) {
            path.push(name.to_owned());
            end += 1;
            if tokens.get(end) == Some(&Token::Path) && tokens.get(end + 1).and_then(Token::name).is_some() {
                end += 1;
            } else {
                break;
            }
        }
        let is_continued = at > 0 && tokens[at - 1] == Token::Path;
        let module = &mut self.modules[module];
        if !is_continued && path.len() > 1 {
            module.names.extend(path.first().cloned());
            module.paths.insert(path);
        } else if !is_continued {
            module.names.extend(path);
        }
        end - at
    }

    /// Reads `mod name;` or `mod name { … }`; gives its length.
    fn child(
        &mut self,
        parent: usize,
        tokens: &[Token],
        path: &Path,
        source: &dyn Fn(&Path) -> String,
    ) -> usize {
        let name = tokens[1].name().unwrap_or_default().to_owned();
        if tokens.get(2).is_some_and(|token| token.is_mark('{')) {
            let length = balanced(&tokens[2..]);
            let child = self.add(self.modules[parent].file, Some(parent));
            self.modules[parent].children.insert(name, child);
            self.body(child, &tokens[3..2 + length - 1], path, source);
            return 2 + length;
        }
        let is_root = self.modules[parent].parent.is_none();
        let folder = if is_root { path.with_file_name("") } else { path.with_extension("") };
        let child = self.file(&folder.join(format!("{name}.rs")), Some(parent), source);
        self.modules[parent].children.insert(name, child);
        3
    }

    /// Reads the tree of a `use`, without the word and the semicolon.
    fn imports(&mut self, module: usize, tree: &[Token], is_reexport: bool) {
        let mut paths = Vec::new();
        use_tree(tree, &[], &mut paths);
        let imports =
            paths.into_iter().map(|(path, name)| Import { path, name, is_reexport }).collect::<Vec<_>>();
        self.modules[module].imports.extend(imports);
    }

    /// The types that a crate defines, each with the file that defines it.
    pub(super) fn types(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.modules.iter().flat_map(|module| {
            // One type may be written twice in a file, for two platforms.
            let names: BTreeSet<_> = module.types.iter().map(String::as_str).collect();
            names.into_iter().map(|name| (name, self.files[module.file].as_path()))
        })
    }

    /// For each file the files whose items it names.
    pub(super) fn imports_of_files(&self) -> Vec<BTreeSet<usize>> {
        let mut edges = vec![BTreeSet::new(); self.files.len()];
        for (index, module) in self.modules.iter().enumerate() {
            let mut add = |path: &[String]| match self.resolve(index, path, 0) {
                Some(Found::Item { file }) if file != module.file => {
                    edges[module.file].insert(file);
                }
                Some(Found::Item { .. } | Found::Module(_)) | None => {}
            };
            module.paths.iter().for_each(|path| add(path));
            for import in &module.imports {
                // A name that is only handed on is not used here.
                let is_used = import.name.as_ref().is_some_and(|name| module.names.contains(name));
                if is_used || !import.is_reexport {
                    add(&import.path);
                }
            }
        }
        for (index, module) in self.modules.iter().enumerate() {
            for import in module.imports.iter().filter(|import| import.name.is_none() && !import.is_reexport)
            {
                if let Some(Found::Module(target)) = self.resolve(index, &import.path, 0) {
                    let file = self.modules[target].file;
                    edges[module.file].extend((file != module.file).then_some(file));
                }
            }
        }
        edges
    }

    /// The item or the module of a path as it stands in a module. Names of other crates give `None`.
    fn resolve(&self, module: usize, path: &[String], depth: usize) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        if depth > 16 {
            return None;
        }
        let start = match first.as_str() {
            "crate" => self.roots[module],
            "self" => module,
            "super" => self.modules[module].parent?,
            _ => {
                return match self.lookup(module, first, depth + 1)? {
                    Found::Module(found) if !rest.is_empty() => self.walk(found, rest, depth),
                    found => Some(found),
                };
            }
        };
        self.walk(start, rest, depth)
    }

    fn walk(&self, start: usize, path: &[String], depth: usize) -> Option<Found> {
        let mut at = start;
        for name in path {
            if name == "super" {
                at = self.modules[at].parent?;
                continue;
            }
            match self.lookup(at, name, depth + 1) {
                Some(Found::Module(found)) => at = found,
                found => return found,
            }
        }
        Some(Found::Module(at))
    }

    /// A name inside of a module: a child, an item, or what a `use` brings there.
    fn lookup(&self, at: usize, name: &str, depth: usize) -> Option<Found> {
        let module = &self.modules[at];
        if let Some(child) = module.children.get(name) {
            return Some(Found::Module(*child));
        }
        if module.items.contains(name) {
            return Some(Found::Item { file: module.file });
        }
        // `use plan::plan;` names itself on the way: the depth ends such a circle.
        let named = module.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        let globs = module.imports.iter().filter(|import| import.name.is_none());
        let by_name = named.filter_map(|import| self.resolve(at, &import.path, depth + 1)).next();
        by_name.or_else(|| {
            globs.filter(|_| depth < 8).find_map(|import| {
                match self.resolve(at, &import.path, depth + 1)? {
                    Found::Module(target) if target != at => self.lookup(target, name, depth + 1),
                    Found::Module(_) | Found::Item { .. } => None,
                }
            })
        })
    }
}

/// Expands `a::{b, c as d, e::*}` into paths, each with the name that it brings.
fn use_tree(tree: &[Token], prefix: &[String], out: &mut Vec<(Vec<String>, Option<String>)>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while at < tree.len() {
        match &tree[at] {
            Token::Name(word) if word == "as" => {
                let name = tree.get(at + 1).and_then(Token::name).map(str::to_owned);
                out.push((path, name));
                return;
            }
            Token::Name(word) => path.push(word.clone()),
            Token::Mark('*') => {
                out.push((path, None));
                return;
            }
            Token::Mark('{') => {
                let inner = &tree[at + 1..at + balanced(&tree[at..]) - 1];
                let mut begin = 0;
                while begin < inner.len() {
                    let mut end = begin;
                    while end < inner.len() && !inner[end].is_mark(',') {
                        end += if inner[end].is_mark('{') { balanced(&inner[end..]) } else { 1 };
                    }
                    use_tree(&inner[begin..end], &path, out);
                    begin = end + 1;
                }
                return;
            }
            Token::Mark(_) | Token::Path | Token::Text(_) => {}
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = path.last().cloned() {
        out.push((path, Some(name)));
    }
}
