//! `docs/limits.md` and the settings of the program: every setting is in the page once, with its default.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// The processes whose settings are compared, as arguments of the binary.
const ROLES: [&str; 5] = ["gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc"];
/// Text of a default that the program does not have.
const NONE: &str = "none";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page")
}

/// Defaults by the variable of the setting, as the help of a role shows them.
fn settings_of(role: &str) -> BTreeMap<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args([role, "--help"])
        .env_clear()
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{role} --help");
    let help = String::from_utf8(output.stdout).expect("help is text");
    let mut settings = BTreeMap::new();
    let mut current = None;
    for line in help.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("[env: ").and_then(|rest| rest.split(['=', ']']).next()) {
            settings.insert(name.to_owned(), NONE.to_owned());
            current = Some(name.to_owned());
        } else if let Some(default) = line.strip_prefix("[default: ").and_then(|rest| rest.strip_suffix(']')) {
            if let Some(name) = current.take() {
                settings.insert(name, default.to_owned());
            }
        } else if line.starts_with("--") || line.starts_with('-') {
            current = None;
        }
    }
    settings
}

fn settings() -> BTreeMap<String, String> {
    ROLES.into_iter().flat_map(settings_of).collect()
}

/// The cells of the rows of the page whose second cell is a variable.
fn rows() -> Vec<(String, String)> {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let named = cells.filter(|cells| cells.len() >= 3 && cells[1].starts_with("`FERRITE_"));
    named.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())).collect()
}

/// Variables of the section of settings that bound nothing.
fn others() -> BTreeSet<String> {
    let page = page();
    let (_, section) = page.split_once("\n## Settings that are no limits\n").expect("the page has that section");
    section.split('`').filter(|text| text.starts_with("FERRITE_")).map(str::to_owned).collect()
}

#[test]
fn every_setting_is_in_the_page_once() {
    let (mut listed, others) = (BTreeSet::new(), others());
    for (name, _) in rows() {
        assert!(!others.contains(&name), "{name} is a limit and none");
        assert!(listed.insert(name.clone()), "{name} is there twice");
    }
    let all: BTreeSet<String> = settings().into_keys().collect();
    let page: BTreeSet<String> = listed.union(&others).cloned().collect();
    assert_eq!(all.difference(&page).collect::<Vec<_>>(), Vec::<&String>::new(), "not in docs/limits.md");
    assert_eq!(page.difference(&all).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the program");
}

#[test]
fn the_defaults_in_the_page_are_those_of_the_program() {
    let settings = settings();
    let wrong: Vec<_> = rows()
        .into_iter()
        .filter_map(|(name, cell)| {
            let default = settings.get(&name)?;
            // The number as the program takes it may be followed by the same in words.
            let stated = cell.split(" (").next().unwrap_or_default().trim_matches('`');
            (stated != default).then(|| format!("{name}: `{stated}` in the page, `{default}` in the program"))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}
