//! Checks the direction of dependencies between modules: a module uses only modules below it, and
//! siblings have no cycles.
//!
//! Every `use` and every path that begins with `crate`, `self`, `super` or a sibling's name is
//! resolved, through re-exports, to the module that defines the item. Tests, test support and macro
//! arguments are ignored. A module and its own children are one unit, because `mod.rs` wires its
//! files and they use what it shares.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// Top modules of each crate, from the highest down: a module may use those to its right. The root
/// file may use all.
const ORDER: &[(&str, &str)] = &[
    (
        "proto",
        "callers grant jwt session git_transport error id metadata operation rule permission gitea_scopes scope service_role asset \
         raw status_state call serve message",
    ),
    (
        "kit/core",
        "sealing telemetry startup readiness config lifecycle net id_or_name writer version tls clock text panic secret \
         page headers",
    ),
    ("kit/rpc", "write_limit auth rate_limit grpc version redis service_key"),
    (
        "kit/db",
        "startup run idempotency reach full_text cache migrate vacuum checkpoint handle sqlite_connections \
         connections measure script query statement config data_version error lock value",
    ),
    (
        "kit/listener",
        "process admin serve tracked_body response_memory timeout_stream connections activity quota credentials limits \
         transport descriptors trusted_proxies linger grpc proxy_protocol min_rate",
    ),
    ("kit/events", "commit flush delivery relay append handover round purge event rows waiters lag"),
    ("api-types", "pull review issue comment repository milestone user convert links schema"),
    ("markdown", "render references commit walk bounds scan"),
    ("outbound", "client exchange connect tls resolve request error url policy allow address host"),
    ("repo-svc", "admin rpc state background placement auth creation_limit config store access model error telemetry"),
    ("issue-svc", "config rpc state limits commits pulls upstream writer encode store error model telemetry"),
    (
        "hook-svc",
        "config rpc state feed sender dispatch redaction payload upstream store error secrets model telemetry",
    ),
    ("git-store", "repo disk git types"),
    (
        "git-svc",
        "config rpc http telemetry state imports languages maintenance merges transfer ref_updates admission db rpc_error",
    ),
    ("gateway", "state listeners config pages docs api ssh git auth avatar blocking upstream http telemetry"),
    ("benches", "rounds cpu memory installation databases processes history remote receiver git load"),
    (".", "cli settings demo admin secrets health launcher password role environment usage output"),
];

/// Modules used only by tests, and the folder of binaries, each of which is a separate crate.
const LEFT_OUT: [&str; 3] = ["tests", "testing", "bin"];
/// Limit for chains of re-exports, after which a path counts as a cycle.
const MAX_REEXPORTS: usize = 16;

/// Path from the crate root; empty for `lib.rs` and `main.rs`.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    /// Names from `use`, with their paths as written.
    imports: BTreeMap<String, Vec<String>>,
    /// All paths in the module as written.
    paths: BTreeSet<Vec<String>>,
}

/// Collects the paths of one file, except those in test modules.
#[derive(Default)]
struct Collector(Module);

impl Collector {
    fn add_use(&mut self, prefix: &[String], tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => self.add_use(&[prefix, &[path.ident.to_string()]].concat(), &path.tree),
            syn::UseTree::Name(name) => self.add_import(prefix, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.add_import(prefix, &rename.ident, &rename.rename),
            syn::UseTree::Glob(_) => drop(self.0.paths.insert(prefix.to_vec())),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(prefix, tree)),
        }
    }

    fn add_import(&mut self, prefix: &[String], name: &syn::Ident, alias: &syn::Ident) {
        let mut path = prefix.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        let alias = if alias == "self" { path.last().cloned() } else { Some(alias.to_string()) };
        self.0.imports.extend(alias.map(|alias| (alias, path.clone())));
        self.0.paths.insert(path);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_test = |attribute: &syn::Attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains("test"),
        meta => meta.path().is_ident("test"),
    };
    attributes.iter().any(is_test)
}

impl Visit<'_> for Collector {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add_use(&[], &item.tree);
        }
    }

    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        if !is_test(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.0.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }
}

impl Crate {
    fn read(source: &Path) -> Self {
        let mut modules = BTreeMap::new();
        for file in files(source) {
            let relative = file.strip_prefix(source).expect("the file is below the folder").with_extension("");
            let mut path: ModulePath =
                relative.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            if path.last().is_some_and(|name| name == "mod" || path.len() == 1 && (name == "lib" || name == "main")) {
                path.pop();
            }
            if path.iter().any(|name| LEFT_OUT.contains(&name.as_str())) {
                continue;
            }
            let text = fs::read_to_string(&file).expect("the file can be read");
            let syntax = syn::parse_file(&text).expect("the file compiles");
            let mut collector = Collector::default();
            collector.visit_file(&syntax);
            modules.insert(path, collector.0);
        }
        Self { modules }
    }

    /// The module that defines what `path` means in module `from`; `None` for other crates and
    /// local names.
    fn resolve(&self, from: &[String], path: &[String], reexports: usize) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let (mut module, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (from.to_vec(), rest),
            "super" => (from.split_last()?.1.to_vec(), rest),
            _ if self.child(from, first).is_some() => (from.to_vec(), path),
            _ => {
                let import =
                    self.modules.get(from)?.imports.get(first).filter(|import| import.first() != Some(first))?;
                return self.resolve(from, &[import, rest].concat(), reexports.checked_sub(1)?);
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                module.pop()?;
            } else if let Some(child) = self.child(&module, name) {
                module = child;
            } else if let Some(import) = self.modules.get(&module)?.imports.get(name) {
                let target = self.resolve(&module, &[import, after].concat(), reexports.checked_sub(1)?);
                return Some(target.unwrap_or(module));
            } else {
                break;
            }
            rest = after;
        }
        self.modules.contains_key(&module).then_some(module)
    }

    fn child(&self, module: &[String], name: &str) -> Option<ModulePath> {
        let child = [module, &[name.to_owned()]].concat();
        self.modules.contains_key(&child).then_some(child)
    }

    /// Pairs of modules of which the first uses the second, except a module and its descendant.
    fn uses(&self) -> BTreeSet<(ModulePath, ModulePath)> {
        let mut uses = BTreeSet::new();
        for (from, module) in &self.modules {
            for path in &module.paths {
                if let Some(to) = self.resolve(from, path, MAX_REEXPORTS)
                    && !from.starts_with(&to)
                    && !to.starts_with(from)
                {
                    uses.insert((from.clone(), to));
                }
            }
        }
        uses
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The siblings that each child of a module uses, with the files that do.
type Siblings = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Groups uses by the common ancestor of both modules, as uses between its children.
fn by_parent(uses: BTreeSet<(ModulePath, ModulePath)>) -> BTreeMap<ModulePath, Siblings> {
    let mut parents: BTreeMap<ModulePath, Siblings> = BTreeMap::new();
    for (from, to) in uses {
        let common = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
        let siblings = parents.entry(from[..common].to_vec()).or_default();
        let blame = format!("{} -> {}", from.join("::"), to.join("::"));
        siblings.entry(from[common].clone()).or_default().entry(to[common].clone()).or_default().push(blame);
    }
    parents
}

fn reachable(siblings: &Siblings, start: &str) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start.to_owned()]);
    while let Some(name) = open.pop() {
        for used in siblings.get(&name).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    found
}

fn circles(parents: &BTreeMap<ModulePath, Siblings>) -> Vec<String> {
    let mut faults = Vec::new();
    for siblings in parents.values() {
        for (from, used) in siblings {
            for (to, blame) in used {
                if reachable(siblings, to).contains(from) {
                    faults.push(format!("part of a cycle: {}", blame.join(", ")));
                }
            }
        }
    }
    faults
}

/// Describes every use that goes up in `order`, and every module that is missing from `order` or no
/// longer exists.
fn disorder(krate: &Crate, parents: &BTreeMap<ModulePath, Siblings>, order: &[&str]) -> Vec<String> {
    let top: BTreeSet<&str> = krate.modules.keys().filter_map(|path| path.first()).map(String::as_str).collect();
    let listed: BTreeSet<&str> = order.iter().copied().collect();
    let mut faults: Vec<String> =
        top.symmetric_difference(&listed).map(|name| format!("not in both: {name}")).collect();
    let place = |name: &str| order.iter().position(|listed| *listed == name);
    for (from, used) in parents.get(&Vec::new()).into_iter().flatten() {
        for (to, blame) in used {
            if place(to) < place(from) {
                faults.push(format!("upwards: {}", blame.join(", ")));
            }
        }
    }
    faults
}

fn faults(krate: &Crate, order: &str) -> Vec<String> {
    let parents = by_parent(krate.uses());
    let order: Vec<_> = order.split_whitespace().collect();
    [disorder(krate, &parents, &order), circles(&parents)].concat()
}

#[test]
fn modules_use_only_modules_below_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, order) in ORDER {
        let faults = faults(&Crate::read(&root.join(name).join("src")), order);
        assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    }
}

/// Modules `a` above `b` above `c`, with `text` in `c`.
fn example(text: &str) -> Crate {
    let files = [
        (vec![], "mod a; mod b; mod c; pub use b::{inner::Item, Front};"),
        (vec!["a"], "use crate::{b::Front, c}; fn f() { c::g(); }"),
        (vec!["b"], "mod inner; mod other; pub use self::inner::Item; pub struct Front(crate::c::Low);"),
        (vec!["b", "inner"], "use super::{Front, other::Thing}; pub struct Item; pub struct Second;"),
        (vec!["b", "other"], "pub struct Thing;"),
        (vec!["c"], text),
    ];
    let module = |(path, text): (Vec<&str>, &str)| {
        let mut collector = Collector::default();
        collector.visit_file(&syn::parse_file(text).expect("it is Rust"));
        (path.into_iter().map(str::to_owned).collect(), collector.0)
    };
    Crate { modules: files.into_iter().map(module).collect() }
}

#[test]
fn an_upward_use_is_found_however_it_is_written() {
    assert_eq!(faults(&example("pub struct Low;"), "a b c"), [""; 0]);
    for upward in [
        "use crate::b::Front;",
        "use crate::{b::{self, Front as Other}, c as own};",
        "use super::b::Item;",
        "use crate::Front;",
        "use crate::b::inner::*;",
        "fn f() -> crate::b::Item { todo() }",
        "use crate::b; fn f() { b::Front::new() }",
    ] {
        assert!(!faults(&example(upward), "a b c").is_empty(), "{upward}");
    }
    for test in ["#[cfg(test)] mod tests { use crate::b::Front; }", "#[cfg(test)] use crate::b::Front;"] {
        assert_eq!(faults(&example(test), "a b c"), [""; 0], "{test}");
    }
    assert!(faults(&example("pub struct Low;"), "a b").contains(&"not in both: c".to_owned()));
    let circles = faults(&example("use crate::a::f;"), "a b c");
    assert_eq!(circles.iter().filter(|fault| fault.starts_with("part of a cycle")).count(), 4, "{circles:?}");
}
