//! The dependency tree is what `deny.toml` allows: its licences, its bans and its sources, read from there and compared with
//! `cargo metadata`. `cargo deny check` says the same, and about advisories, where it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, ParseMode};
use toml_edit::{DocumentMut, Item};

/// The registry that crates may come from without being named.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Returns the text of `deny.toml`, and its content.
fn rules() -> (String, DocumentMut) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deny.toml");
    let text = fs::read_to_string(file).expect("the file can be read");
    let rules = text.parse().expect("the file is in TOML");
    (text, rules)
}

/// Returns the texts of a list, of which tables have theirs under `key`.
fn texts(list: Option<&Item>, key: &str) -> BTreeSet<String> {
    let values = list.and_then(Item::as_array).into_iter().flatten();
    let text = |value: &toml_edit::Value| match value.as_inline_table() {
        Some(table) => table.get(key).and_then(toml_edit::Value::as_str).map(str::to_owned),
        None => value.as_str().map(str::to_owned),
    };
    values.map(|value| text(value).expect("a text")).collect()
}

/// Runs cargo and returns what it prints.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.expect("cargo starts");
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// Returns the packages of this machine's platform. Those of others are not on every machine.
fn packages() -> Vec<Value> {
    let version = cargo(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("cargo names its platform");
    let listed = cargo(&["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", host]);
    let mut metadata: Value = serde_json::from_str(&listed).expect("cargo prints JSON");
    let Value::Array(packages) = metadata["packages"].take() else { panic!("there are packages") };
    assert!(packages.len() > 100, "{}", packages.len());
    packages
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// Returns the mistakes of `check` about any package.
fn mistakes(check: impl Fn(&Value) -> Option<String>) -> Vec<String> {
    let named = |package: &Value| {
        let mistake = check(package)?;
        Some(format!("{} {}: {mistake}", text(package, "name"), text(package, "version")))
    };
    packages().iter().filter_map(named).collect()
}

#[test]
fn every_licence_is_allowed() {
    let (_, rules) = rules();
    let allowed = texts(rules["licenses"].get("allow"), "");
    let exceptions = rules["licenses"].get("exceptions").and_then(Item::as_array);
    let is_exception = |name: &str, licence: &str| {
        let tables = exceptions.into_iter().flatten().filter_map(toml_edit::Value::as_inline_table);
        let mut of_crate = tables.filter(|table| table.get("crate").and_then(toml_edit::Value::as_str) == Some(name));
        of_crate.any(|table| {
            let licences = table.get("allow").and_then(toml_edit::Value::as_array).into_iter().flatten();
            licences.filter_map(toml_edit::Value::as_str).any(|allowed| allowed == licence)
        })
    };
    let wrong = mistakes(|package| {
        let licence = text(package, "license");
        let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
            return Some(format!("`{licence}` is no licence expression"));
        };
        let is_allowed = expression.evaluate(|required| {
            let required = required.to_string();
            allowed.contains(&required) || is_exception(text(package, "name"), &required)
        });
        (!is_allowed).then(|| licence.to_owned())
    });
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn banned_crates_are_not_there() {
    let (_, rules) = rules();
    let banned = texts(rules["bans"].get("deny"), "crate");
    assert!(!banned.is_empty());
    let wrong = mistakes(|package| banned.contains(text(package, "name")).then(|| "is banned".to_owned()));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn no_version_is_a_wildcard() {
    let (_, rules) = rules();
    assert_eq!(rules["bans"]["wildcards"].as_str(), Some("deny"));
    let wrong = mistakes(|package| {
        let is_own = package["source"].is_null();
        let mut dependencies = package["dependencies"].as_array().into_iter().flatten().filter(|_| is_own);
        let wildcard = dependencies.find(|it| it["req"] == "*" && it["path"].is_null())?;
        Some(format!("{} in any version", text(wildcard, "name")))
    });
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn an_advisory_that_is_ignored_has_a_reason_and_a_date() {
    let (_, rules) = rules();
    let advisories = texts(rules["advisories"].get("ignore"), "id");
    let reasons = texts(rules["advisories"].get("ignore"), "reason");
    assert_eq!((advisories.len(), advisories.iter().all(|id| id.starts_with("RUSTSEC-"))), (reasons.len(), true));
    for reason in reasons {
        let (date, why) = reason.split_once(": ").expect("a date and a reason");
        let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok());
        assert!(is_date && why.len() > 20, "{reason}");
    }
}

#[test]
fn every_crate_comes_from_an_allowed_place() {
    let (_, rules) = rules();
    let sources = &rules["sources"];
    for unknown in ["unknown-registry", "unknown-git"] {
        assert_eq!(sources[unknown].as_str(), Some("deny"), "{unknown}");
    }
    let registries = texts(sources.get("allow-registry"), "");
    let repositories = texts(sources.get("allow-git"), "");
    let is_allowed = |source: &str| {
        let registry = source.strip_prefix("registry+").or_else(|| source.strip_prefix("sparse+"));
        source == CRATES_IO
            || registry.is_some_and(|registry| registries.contains(registry))
            || repositories.iter().any(|allowed| source.starts_with(&format!("git+{allowed}")))
    };
    let wrong = mistakes(|package| package["source"].as_str().filter(|source| !is_allowed(source)).map(str::to_owned));
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn a_version_before_its_release_has_a_reason() {
    let (text_of_rules, _) = rules();
    let reasons: BTreeSet<&str> = text_of_rules
        .lines()
        .filter_map(|line| line.strip_prefix("# pre-release: "))
        .filter_map(|line| line.split_once(": ").map(|(name, _)| name))
        .collect();
    let mut used = BTreeSet::new();
    for package in packages() {
        let (name, version) = (text(&package, "name"), text(&package, "version"));
        if version.split('+').next().is_some_and(|release| release.contains('-')) {
            assert!(reasons.contains(name), "{name} {version}: the reason is to be in deny.toml");
            used.insert(name.to_owned());
        }
    }
    let unused: Vec<_> = reasons.into_iter().filter(|name| !used.contains(*name)).collect();
    assert_eq!(unused, Vec::<&str>::new(), "reasons for versions that are not used any more");
}
