//! `docs/limits.md` and `docs/settings.md` list every setting of the program once, with its
//! default.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Subcommands whose settings are compared.
const ROLES: [&str; 5] = ["gateway", "repo-svc", "issue-svc", "hook-svc", "git-svc"];
/// A default that the program does not have.
const NONE: &str = "none";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/limits.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page")
}

fn settings() -> BTreeMap<String, String> {
    let named = ROLES.into_iter().flat_map(described).map(|setting| (setting.variable, setting.default));
    named.map(|(name, default)| (name, if default.is_empty() { NONE.to_owned() } else { default })).collect()
}

/// Rows of the page with a variable in the second cell.
fn rows() -> Vec<(String, String)> {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let named = cells.filter(|cells| cells.len() >= 3 && cells[1].starts_with("`FERRITE_"));
    named.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned())).collect()
}

/// Settings in the section of those that set no limit.
fn others() -> BTreeSet<String> {
    let page = page();
    let (_, section) = page.split_once("\n## Settings that are no limits\n").expect("the page has that section");
    section.split('`').filter(|text| text.starts_with("FERRITE_")).map(str::to_owned).collect()
}

#[test]
fn every_setting_is_in_the_page_once() {
    let (mut listed, others) = (BTreeSet::new(), others());
    for (name, _) in rows() {
        assert!(!others.contains(&name), "{name} is in both sections");
        assert!(listed.insert(name.clone()), "{name} is a duplicate");
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
            // A number may be followed by its value in words.
            let stated = cell.split(" (").next().unwrap_or_default().trim_matches('`');
            (stated != default).then(|| format!("{name}: `{stated}` in the page, `{default}` in the program"))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Setting {
    variable: String,
    default: String,
    range: String,
    meaning: String,
    /// Whether `--help` shows it, and not only `--help-all`.
    is_basic: bool,
}

fn described(subcommand: &str) -> Vec<Setting> {
    let flag = if subcommand == "health" { "--help" } else { "--help-all" };
    let output = Command::new(env!("CARGO_BIN_EXE_ferrite"))
        .args([subcommand, flag])
        .env_clear()
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{subcommand} {flag}");
    let help = String::from_utf8(output.stdout).expect("help is text");
    // The flags of each section, each with its text on one line.
    let (mut section, mut flags) = ("", Vec::<(&str, String)>::new());
    for line in help.lines() {
        let words = line.trim();
        if words.is_empty() {
            continue;
        }
        if line == words {
            section = words;
        } else if words.starts_with('-') {
            flags.push((section, words.split_once("  ").map(|(_, text)| text.trim().to_owned()).unwrap_or_default()));
        } else if let Some((_, text)) = flags.last_mut().filter(|(of, _)| *of == section) {
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(words);
        }
    }
    let settings = flags.into_iter().filter_map(|(section, text)| {
        let tag = |name: &str| {
            let (_, rest) = text.split_once(&format!("[{name}: "))?;
            Some(rest.split(']').next().unwrap_or_default().to_owned())
        };
        let variable = tag("env")?.split('=').next().unwrap_or_default().to_owned();
        Some(Setting {
            variable,
            default: tag("default").unwrap_or_default(),
            range: tag("range").unwrap_or_default(),
            meaning: text.split(" [").next().unwrap_or_default().to_owned(),
            is_basic: section == "Options:",
        })
    });
    settings.collect()
}

/// Tables of the basic and the advanced settings, with a heading between them.
fn tables(settings: &[Setting]) -> String {
    let (basic, advanced): (Vec<_>, Vec<_>) = settings.iter().partition(|setting| setting.is_basic);
    match (basic.is_empty(), advanced.is_empty()) {
        (false, false) => format!("{}\nAdvanced:\n\n{}", table(&basic), table(&advanced)),
        (true, _) => format!("Advanced:\n\n{}", table(&advanced)),
        (_, true) => table(&basic),
    }
}

fn table(settings: &[&Setting]) -> String {
    let rows = settings.iter().map(|setting| {
        let default = if setting.default.is_empty() { String::new() } else { format!("`{}`", setting.default) };
        let Setting { variable, range, meaning, .. } = setting;
        format!("| `{variable}` | {} | {default} | {range} |\n", meaning.replace('|', "\\|"))
    });
    format!("| variable | meaning | default | range |\n|---|---|---|---|\n{}", rows.collect::<String>())
}

/// Settings that several roles have with the same text and default.
fn shared(roles: &[(&str, Vec<Setting>)]) -> Vec<Setting> {
    let in_all = |setting: &&Setting| roles.iter().all(|(_, settings)| settings.contains(setting));
    roles[0].1.iter().filter(in_all).cloned().collect()
}

fn settings_page() -> String {
    let mut roles: Vec<_> = ROLES.into_iter().map(|role| (role, described(role))).collect();
    let common = shared(&roles);
    for (_, settings) in &mut roles {
        settings.retain(|setting| !common.contains(setting));
    }
    let services = shared(&roles[1..]);
    for (_, settings) in &mut roles[1..] {
        settings.retain(|setting| !services.contains(setting));
    }
    let mut page = String::from(
        "# Settings\n\nEvery setting is an environment variable and a flag of its process. `ferrite ROLE --help` prints the basic \
         ones,\n`ferrite ROLE --help-all` all of them. A number outside its range stops the process at start, with exit status \
         2.\n[limits.md](limits.md) says what happens beyond a limit.\n\n`ferrite up` has settings of its own and passes variables \
         of the roles on to its processes; `ferrite up --help-all` lists them. It\nsets their addresses, keys and databases \
         itself.\n\nThe program writes this page: `FERRITE_TEST_WRITE=1 cargo test --test limits_page`.\n\n",
    );
    page.push_str(&format!("## ferrite up\n\n{}\n## All roles\n\n{}", tables(&described("up")), tables(&common)));
    page.push_str(&format!("\n## All roles with a database\n\n{}", tables(&services)));
    for (role, settings) in &roles {
        page.push_str(&format!("\n## {role}\n\n{}", tables(settings)));
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
    assert!(
        page == written,
        "docs/settings.md is out of date, first here: {differs:?}; write it with FERRITE_TEST_WRITE=1"
    );
}
