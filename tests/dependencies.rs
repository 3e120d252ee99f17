//! The exceptions in `deny.toml` have reasons that still hold. `make dependencies` (cargo-deny)
//! checks the rest of the file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use toml_edit::{DocumentMut, Item, Table, Value};

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("the file can be read")
}

fn text<'a>(package: &'a Table, key: &str) -> &'a str {
    package.get(key).and_then(Item::as_str).unwrap_or_default()
}

#[test]
fn an_advisory_that_is_ignored_has_a_reason_and_a_date() {
    let rules: DocumentMut = read("deny.toml").parse().expect("the file is in TOML");
    let ignored = rules["advisories"].get("ignore").and_then(Item::as_array);
    for advisory in ignored.into_iter().flatten().filter_map(Value::as_inline_table) {
        let id = advisory.get("id").and_then(Value::as_str).unwrap_or_default();
        let reason = advisory.get("reason").and_then(Value::as_str).unwrap_or_default();
        let (date, why) = reason.split_once(": ").expect("a date and a reason");
        let is_date = date.len() == 10 && date.split('-').all(|part| part.parse::<u32>().is_ok());
        assert!(id.starts_with("RUSTSEC-") && is_date && why.len() > 20, "{id}: {reason}");
    }
    assert!(ignored.into_iter().flatten().all(Value::is_inline_table), "an advisory without a reason");
}

#[test]
fn a_version_before_its_release_has_a_reason() {
    let rules = read("deny.toml");
    let reasons = rules.lines().filter_map(|line| line.strip_prefix("# pre-release: "));
    let reasons: BTreeSet<&str> = reasons.filter_map(|line| line.split_once(": ").map(|(name, _)| name)).collect();
    let lock: DocumentMut = read("Cargo.lock").parse().expect("the file is in TOML");
    let packages = lock["package"].as_array_of_tables().expect("there are packages");
    let is_before_release =
        |package: &&Table| text(package, "version").split('+').next().is_some_and(|release| release.contains('-'));
    let used: BTreeSet<&str> = packages.iter().filter(is_before_release).map(|package| text(package, "name")).collect();
    assert_eq!(used, reasons, "crates in a pre-release version, and those with a reason in deny.toml");
}
