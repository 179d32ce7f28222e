//! Which module of a crate holds what a path names.
//!
//! A path may begin with `crate`, `self`, `super`, a child module or an imported name. It may go
//! through re-exports. What macros make is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tokens::{Token, tokens};

/// A module's path from the crate's root, joined by `/`. The root's is empty.
pub(crate) type Module = String;

/// The names of a path, in order.
type Names = Vec<String>;

/// Words before the name of an item.
const ITEMS: [&str; 9] = ["struct", "enum", "union", "fn", "const", "static", "type", "trait", "macro_rules"];

/// Longest chain of re-exports.
const CHAIN: u32 = 8;

/// A file of a crate.
#[derive(Debug, Default)]
struct Source {
    text: String,
    /// Items that are defined here.
    items: BTreeSet<String>,
    /// What imported or exported names stand for, from the root.
    imports: BTreeMap<String, Names>,
    /// Modules of which all names are imported, from the root.
    globs: Vec<Names>,
    /// All paths that are named, from the root.
    paths: Vec<Names>,
}

/// The files of a crate, without tests.
#[derive(Debug)]
pub(crate) struct Crate(BTreeMap<Module, Source>);

impl Crate {
    /// Reads the files below a source folder.
    pub(crate) fn read(folder: &Path) -> Self {
        let texts = texts(folder);
        let is_module = |name: &str| texts.contains_key(name);
        let source =
            |(module, text): (&Module, &String)| (module.clone(), Source::read(&is_module, module, text));
        let sources = texts.iter().map(source);
        Self(sources.collect())
    }

    /// Returns the modules with their texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&Module, &str)> {
        self.0.iter().map(|(module, source)| (module, source.text.as_str()))
    }

    /// Returns each module with those that hold what it names.
    pub(crate) fn arrows(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let uses = |(module, source): (&Module, &Source)| {
            let used = source.paths.iter().filter_map(|path| self.holder(path, CHAIN));
            (module.clone(), used.filter(|used| used != module).collect())
        };
        self.0.iter().map(uses).collect()
    }

    /// Returns the module that holds what a path in a module's text names. Without any, the module
    /// itself.
    pub(crate) fn holder_of(&self, module: &str, path: &[String]) -> Module {
        let is_module = |name: &str| self.0.contains_key(name);
        let imported = self.0.get(module).and_then(|source| source.imported(path));
        let known = imported.or_else(|| from_root(&is_module, module, path));
        known.and_then(|path| self.holder(&path, CHAIN)).unwrap_or(module.to_owned())
    }

    /// Returns the module that holds what a path from the root names.
    fn holder(&self, path: &[String], chain: u32) -> Option<Module> {
        let inside = |length: &usize| self.0.contains_key(&path[..*length].join("/"));
        let length = (0..=path.len()).rev().find(inside)?;
        let module = path[..length].join("/");
        let source = &self.0[&module];
        let Some(name) = path.get(length) else { return Some(module) };
        if source.items.contains(name) || chain == 0 {
            return Some(module);
        }
        if let Some(import) = source.imports.get(name) {
            let rest = &path[length + 1..];
            return self.holder(&[import, rest].concat(), chain - 1);
        }
        let all = source.globs.iter().filter_map(|glob| {
            let holder = self.holder(&[glob.as_slice(), std::slice::from_ref(name)].concat(), chain - 1)?;
            self.0[&holder].items.contains(name).then_some(holder)
        });
        all.into_iter().next().or(Some(module))
    }
}

impl Source {
    fn read(is_module: &dyn Fn(&str) -> bool, module: &str, text: &str) -> Self {
        let mut source = Self { text: text.to_owned(), ..Self::default() };
        let tokens = tokens(text);
        let mut at = 0;
        let mut bodies = Vec::new();
        while at < tokens.len() {
            match (&tokens[at], tokens.get(at + 1)) {
                (Token::Name("use"), Some(_)) => {
                    at += 1;
                    let mut leaves = Vec::new();
                    use_tree(&tokens, &mut at, &[], &mut leaves);
                    leaves.into_iter().for_each(|leaf| source.import(is_module, module, leaf));
                    continue;
                }
                (Token::Name(word), Some(Token::Name(name))) if ITEMS.contains(word) => {
                    source.items.insert((*name).to_owned());
                }
                (Token::Name(_), Some(Token::Colons)) if at == 0 || tokens[at - 1] != Token::Colons => {
                    bodies.push(path(&tokens, at));
                }
                _ => {}
            }
            at += 1;
        }
        // Behind all imports, as they may stand anywhere.
        for path in bodies {
            let known = source.imported(&path).or_else(|| from_root(is_module, module, &path));
            source.paths.extend(known);
        }
        source
    }

    /// Returns a path that begins with an imported name, from the root.
    fn imported(&self, path: &[String]) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        Some([self.imports.get(first)?, rest].concat())
    }

    /// Takes note of a leaf of a `use`.
    fn import(&mut self, is_module: &dyn Fn(&str) -> bool, module: &str, (path, alias): Leaf) {
        let Some(path) = from_root(is_module, module, &path) else { return };
        let (name, outer) = path.split_last().map_or(("", &[][..]), |(name, outer)| (name.as_str(), outer));
        match name {
            "*" => self.globs.push(outer.to_vec()),
            "self" => {
                let name = alias.or(outer.last().cloned()).unwrap_or_default();
                self.imports.insert(name, outer.to_vec());
            }
            name => {
                self.imports.insert(alias.unwrap_or(name.to_owned()), path.clone());
            }
        }
        let names = if ["*", "self"].contains(&name) { outer } else { &path };
        self.paths.push(names.to_vec());
    }
}

/// A path in a `use`, and the name that it gets.
type Leaf = (Names, Option<String>);

/// Reads a tree of paths. Leaves `at` behind it.
fn use_tree(tokens: &[Token<'_>], at: &mut usize, prefix: &[String], leaves: &mut Vec<Leaf>) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token {
            Token::Name("as") => {
                let alias = tokens.get(*at).and_then(Token::name);
                *at += 1;
                leaves.push((path, alias));
                return;
            }
            Token::Name(name) => path.push((*name).to_owned()),
            Token::Sign('*') => path.push("*".to_owned()),
            Token::Colons => {}
            Token::Sign('{') => {
                while tokens.get(*at).is_some_and(|token| *token != Token::Sign('}')) {
                    if tokens[*at] == Token::Sign(',') {
                        *at += 1;
                    } else {
                        use_tree(tokens, at, &path, leaves);
                    }
                }
                *at += 1;
                return;
            }
            // The end of a list or of the whole.
            Token::Sign(_) => {
                *at -= 1;
                break;
            }
        }
    }
    if path.len() > prefix.len() {
        leaves.push((path, None));
    }
}

/// Returns the path that begins at a token.
fn path(tokens: &[Token<'_>], mut at: usize) -> Names {
    let mut path = Vec::new();
    while let Some(name) = tokens.get(at).and_then(Token::name) {
        path.push(name);
        if tokens.get(at + 1) != Some(&Token::Colons) {
            break;
        }
        at += 2;
    }
    path
}

/// Returns a path in a module, from the root. `None` if it leads out of the crate.
fn from_root(is_module: &dyn Fn(&str) -> bool, module: &str, path: &[String]) -> Option<Names> {
    let mut base: Names = module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while let Some((_, behind)) = rest.split_first().filter(|(first, _)| *first == "super") {
                base.pop()?;
                rest = behind;
            }
        }
        child => {
            base.push(child.to_owned());
            is_module(&base.join("/")).then_some(())?;
            rest = &path[1..];
        }
    }
    Some([base, rest.to_vec()].concat())
}

/// Returns the modules below a source folder that have a file, with their code.
fn texts(folder: &Path) -> BTreeMap<Module, String> {
    let (mut folders, mut found) = (vec![folder.to_owned()], BTreeMap::new());
    while let Some(inner) = folders.pop() {
        for path in fs::read_dir(inner).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(folder).unwrap().with_extension("").display().to_string();
                let is_root = |part: &&str| name == **part || name.ends_with(&format!("/{part}"));
                let root = ["mod", "lib", "main"].into_iter().find(is_root).unwrap_or_default();
                let module = name.strip_suffix(root).unwrap_or(&name).trim_end_matches('/');
                if !is_test(module) {
                    found.insert(module.to_owned(), code(&fs::read_to_string(&path).unwrap()).to_owned());
                }
            }
        }
    }
    found
}

fn is_test(module: &str) -> bool {
    module.split('/').any(|part| part.contains("tests") || part.contains("loom"))
}

/// Returns a text without the tests at its end.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}
