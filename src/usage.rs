//! Errors of the command line as one line that names the setting by flag and variable.

use std::process::ExitCode;

use clap::Command;
use clap::error::ErrorKind;

use crate::output::{USAGE_STATUS, print_error};

/// Prints an error of parsing the command line with `command`, or its help, and returns the exit
/// status.
pub(crate) fn report(error: &clap::Error, command: Command) -> ExitCode {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !error.use_stderr() {
        // Help or version. A closed output is not an error.
        let _ = error.print();
        return if is_help { ExitCode::from(USAGE_STATUS) } else { ExitCode::SUCCESS };
    }
    let words = std::env::args().skip(1);
    print_error(&line(&error.to_string(), command, words));
    ExitCode::from(USAGE_STATUS)
}

/// Returns an error of parsing settings with `command` as one line.
pub(crate) fn message(error: &clap::Error, command: Command) -> String {
    line(&error.to_string(), command, std::iter::empty())
}

/// Returns the first paragraph of `text` as one line. Adds the variable to each flag of the
/// subcommand in `words`.
fn line(text: &str, mut command: Command, words: impl Iterator<Item = String>) -> String {
    command.build();
    let mut name = command.get_name().to_owned();
    let mut chosen = &command;
    for word in words {
        let Some(subcommand) = chosen.find_subcommand(&word) else { break };
        chosen = subcommand;
        name = format!("{name} {word}");
    }
    // The usage follows after the first paragraph.
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ");
    let rest = lines.collect::<Vec<_>>().join(", ");
    let mut line = format!("{first} {rest}").trim_end().to_owned();
    for argument in chosen.get_arguments() {
        let Some(flag) = argument.get_long() else { continue };
        let Some(variable) = argument.get_env() else { continue };
        let shown = argument.to_string();
        let named = format!("--{flag} ({})", variable.display());
        line = line.replace(&format!("'{shown}'"), &named);
        if shown.contains('<') {
            line = line.replace(&shown, &named);
        }
    }
    format!("{name}: {line}")
}

#[cfg(test)]
mod tests {
    use clap::{Arg, value_parser};

    use super::*;

    fn command() -> Command {
        let listen = Arg::new("listen").long("listen").env("TEST_LISTEN").required(true);
        let url = Arg::new("url").long("url").env("TEST_URL").required(true);
        let grace = Arg::new("grace").long("grace").env("TEST_GRACE").value_parser(value_parser!(u16));
        let format = Arg::new("format").long("format").env("TEST_FORMAT").value_parser(["text", "json"]);
        Command::new("ferrite").subcommand(Command::new("role").args([listen, url, grace, format]))
    }

    #[track_caller]
    fn line_of(words: &[&str]) -> String {
        let error = command().try_get_matches_from(words).unwrap_err();
        line(&error.to_string(), command(), words.iter().skip(1).map(|word| (*word).to_owned()))
    }

    #[test]
    fn a_missing_setting_is_named_by_flag_and_variable() {
        assert_eq!(
            line_of(&["ferrite", "role"]),
            "ferrite role: the following required arguments were not provided: --listen (TEST_LISTEN), --url (TEST_URL)"
        );
    }

    #[test]
    fn a_wrong_setting_is_named_with_its_value_and_the_reason() {
        let given = ["ferrite", "role", "--listen=x", "--url=y"];
        let with = |more: &'static str| line_of(&[&given[..], &[more]].concat());
        assert_eq!(
            with("--grace=x"),
            "ferrite role: invalid value 'x' for --grace (TEST_GRACE): invalid digit found in string"
        );
        let format = with("--format=xml");
        assert!(format.contains("for --format (TEST_FORMAT)") && format.contains("[possible values: text, json]"));
        assert!(!format.contains('\n'), "{format}");
        assert!(with("--nonsense").contains("--nonsense"));
    }

    #[test]
    fn an_unknown_command_is_one_line() {
        let line = line_of(&["ferrite", "rol"]);
        assert!(line.starts_with("ferrite: ") && line.contains("rol") && !line.contains('\n'), "{line}");
    }
}
