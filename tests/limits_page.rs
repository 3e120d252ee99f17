//! `docs/limits.md`, `docs/settings.md` and the settings of the program: every setting is in each page once, with its default.

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

/// A setting as the help of the program tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Setting {
    variable: String,
    default: String,
    /// The least and the greatest number, for one whose parser knows them.
    range: String,
    meaning: String,
}

/// Returns the settings of a subcommand in the order of its help. What has no variable is left out.
fn described(subcommand: &str) -> Vec<Setting> {
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args([subcommand, "--help"])
        .env_clear()
        .output()
        .expect("the binary runs");
    let help = String::from_utf8(output.stdout).expect("help is text");
    let (_, options) = help.split_once("\nOptions:\n").expect("the help has options");
    let is_flag = |line: &str| line.trim_start().starts_with("--") || line.trim_start().starts_with("-h");
    let mut settings = Vec::new();
    let mut lines = options.lines().peekable();
    while lines.next().is_some() {
        let mut setting = Setting::default();
        let mut is_list = false;
        while let Some(line) = lines.next_if(|line| !is_flag(line)) {
            let line = line.trim();
            is_list |= line == "Possible values:";
            if let Some(name) = line.strip_prefix("[env: ").and_then(|rest| rest.split(['=', ']']).next()) {
                name.clone_into(&mut setting.variable);
            } else if let Some(default) = line.strip_prefix("[default: ").and_then(|rest| rest.strip_suffix(']')) {
                default.clone_into(&mut setting.default);
            } else if let Some(range) = line.strip_prefix("[range: ").and_then(|rest| rest.strip_suffix(']')) {
                range.clone_into(&mut setting.range);
            } else if !line.is_empty() && !is_list && !line.starts_with('[') {
                setting.meaning.push_str(if setting.meaning.is_empty() { "" } else { " " });
                setting.meaning.push_str(line);
            }
        }
        settings.push(setting);
    }
    settings.retain(|setting| !setting.variable.is_empty());
    settings
}

fn table(settings: &[Setting]) -> String {
    let rows = settings.iter().map(|setting| {
        let default = if setting.default.is_empty() { String::new() } else { format!("`{}`", setting.default) };
        let Setting { variable, range, meaning, .. } = setting;
        format!("| `{variable}` | {default} | {range} | {} |\n", meaning.replace('|', "\\|"))
    });
    format!("| variable | default | range | |\n|---|---|---|---|\n{}", rows.collect::<String>())
}

/// The page, from the program.
fn settings_page() -> String {
    let roles = ROLES.map(|role| (role, described(role)));
    let in_all = |setting: &&Setting| roles.iter().all(|(_, settings)| settings.contains(setting));
    let common: Vec<_> = roles[0].1.iter().filter(in_all).cloned().collect();
    let mut page = String::from(
        "# Settings\n\nEvery setting of every process, as the program tells them (`ferrite ROLE --help`): a test holds this page to the \
         program and writes\nit anew with `FERRITE_TEST_WRITE=1 cargo test --test limits_page`. Each is a flag of its role as well. What the \
         limits among them answer is in\n[limits.md](limits.md). A number outside of its range ends the process at its start, with status \
         2.\n\n`ferrite up` has settings of its own, and hands every variable of this page on to its processes, but for what it decides \
         itself: addresses,\nkeys and databases.\n\n",
    );
    page.push_str(&format!("## ferrite up\n\n{}\n## All roles\n\n{}", table(&described("up")), table(&common)));
    for (role, settings) in &roles {
        let own: Vec<_> = settings.iter().filter(|setting| !common.contains(setting)).cloned().collect();
        page.push_str(&format!("\n## {role}\n\n{}", table(&own)));
    }
    page
}

#[test]
fn the_help_tells_the_range_of_a_number() {
    let range = |role: &str, variable: &str| {
        let found = described(role).into_iter().find(|setting| setting.variable == variable);
        found.map(|setting| setting.range)
    };
    for (role, variable, expected) in [
        ("hook-svc", "FERRITE_HOOK_FEED_EVENTS", "1 to 1,000,000"),
        ("repo-svc", "FERRITE_EVENT_RETENTION_SECONDS", "60 to 315,360,000"),
        ("gateway", "FERRITE_GATEWAY_MIN_RESPONSE_BYTES_PER_SECOND", "at least 1"),
        ("git-svc", "FERRITE_GIT_IDLE_SECONDS", "1 to 315,360,000"),
        ("git-svc", "FERRITE_LOG_FORMAT", ""),
    ] {
        assert_eq!(range(role, variable).as_deref(), Some(expected), "{variable}");
    }
}

#[test]
fn every_number_has_a_range() {
    let settings = ROLES.into_iter().chain(["up", "health"]).flat_map(described);
    let numbers = settings.filter(|setting| setting.default.parse::<f64>().is_ok());
    let free: BTreeSet<_> = numbers.filter(|number| number.range.is_empty()).map(|number| number.variable).collect();
    assert_eq!(free, BTreeSet::<String>::new());
}

#[test]
fn the_page_of_settings_is_what_the_program_tells() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md");
    let page = settings_page();
    if std::env::var_os("FERRITE_TEST_WRITE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(ours, theirs)| ours != theirs);
    assert!(page == written, "docs/settings.md is not what the program tells, first here: {differs:?}");
}
