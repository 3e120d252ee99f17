//! Warnings about variables in the environment that look like settings but are none.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap::Command;

const PREFIX: &str = "FERRITE_";
/// Prefixes of variables that tests and benchmarks read.
const TEST_PREFIXES: [&str; 2] = ["FERRITE_TEST_", "FERRITE_BENCH_"];
/// Jaro-Winkler similarity from which a setting is suggested: `GRACE` and `GRACE_SECONDS` have 0.88.
const MIN_SIMILARITY: f64 = 0.85;

/// Returns a warning about each variable of this process that begins like a setting and is none of
/// `command` and its subcommands.
pub(crate) fn warnings(command: &Command) -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    warnings_about(names, &settings(command))
}

pub(crate) fn log(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

fn settings(command: &Command) -> BTreeSet<&str> {
    let own = command.get_arguments().filter_map(|argument| argument.get_env().and_then(OsStr::to_str));
    own.chain(command.get_subcommands().flat_map(settings)).collect()
}

fn warnings_about(names: impl Iterator<Item = String>, settings: &BTreeSet<&str>) -> Vec<String> {
    let is_unknown = |name: &String| {
        let is_for_tests = TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        name.starts_with(PREFIX) && !is_for_tests && !settings.contains(name.as_str())
    };
    let unknown: BTreeSet<String> = names.filter(is_unknown).collect();
    let warning = |name: &String| match similar(name, settings) {
        Some(setting) => format!("{name} is not a setting and has no effect; did you mean {setting}?"),
        None => format!("{name} is not a setting and has no effect"),
    };
    unknown.iter().map(warning).collect()
}

/// Returns the setting whose name is most like `name`, if one is close.
fn similar<'a>(name: &str, settings: &BTreeSet<&'a str>) -> Option<&'a str> {
    // Without the prefix, which would make all names similar.
    let rest = name.trim_start_matches(PREFIX);
    let rated =
        settings.iter().map(|setting| (strsim::jaro_winkler(rest, setting.trim_start_matches(PREFIX)), *setting));
    let closest = rated.max_by(|one, other| one.0.total_cmp(&other.0));
    closest.filter(|(similarity, _)| *similarity >= MIN_SIMILARITY).map(|(_, setting)| setting)
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn said(names: &[&str]) -> Vec<String> {
        let argument = |name: &'static str| Arg::new(name).long(name).env(name);
        let up = Command::new("up").args(["FERRITE_HTTP", "FERRITE_GRACE_SECONDS"].map(argument));
        let admin = Command::new("admin").subcommand(Command::new("create").arg(argument("FERRITE_USER_PASSWORD")));
        let program = Command::new("program").subcommands([up, admin]);
        warnings_about(names.iter().map(|name| (*name).to_owned()), &settings(&program))
    }

    #[test]
    fn a_misspelt_setting_is_named_with_the_closest_one() {
        assert_eq!(
            said(&["FERRITE_HTTP", "FERRITE_HTTP_PORT", "FERRITE_GRACE", "FERRITE_USER_PASWORD", "FERRITE_XYZ"]),
            [
                "FERRITE_GRACE is not a setting and has no effect; did you mean FERRITE_GRACE_SECONDS?",
                "FERRITE_HTTP_PORT is not a setting and has no effect; did you mean FERRITE_HTTP?",
                "FERRITE_USER_PASWORD is not a setting and has no effect; did you mean FERRITE_USER_PASSWORD?",
                "FERRITE_XYZ is not a setting and has no effect",
            ]
        );
    }

    #[test]
    fn settings_variables_of_tests_and_those_of_other_programs_are_no_reason_to_warn() {
        let others = ["PATH", "FERRITE", "ferrite_http", "FERRITE_TEST_SEED", "FERRITE_BENCH_BINARY"];
        assert_eq!(said(&[&others[..], &["FERRITE_HTTP", "FERRITE_USER_PASSWORD"]].concat()), [""; 0]);
    }
}
