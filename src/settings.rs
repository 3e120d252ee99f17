//! The help of `ferrite up` and of the roles: `--help` prints the basic settings, `--help-all` all of them.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap::{Arg, ArgAction, Command};
use ferrite_core::config::with_range;

use crate::{launcher, role};

pub(crate) const HELP_ALL: &str = "--help-all";
const ADVANCED_HEADING: &str = "Advanced settings";
const UP: &str = "up";

/// Variables of the basic settings, which most installations set. Required settings are basic, too.
const BASIC: &[&str] = &[
    "FERRITE_ADMIN_EMAIL",
    "FERRITE_ADMIN_LISTEN",
    "FERRITE_ADMIN_PASSWORD_FILE",
    "FERRITE_ADMIN_USERNAME",
    "FERRITE_DATA",
    "FERRITE_DATABASE_URL",
    "FERRITE_DATABASE_URL_FILE",
    "FERRITE_GATEWAY_SSH_HOST_KEY_FOLDER",
    "FERRITE_GATEWAY_SSH_LISTEN",
    "FERRITE_GATEWAY_TLS_CERTIFICATE_FILE",
    "FERRITE_GATEWAY_TLS_KEY_FILE",
    "FERRITE_GATEWAY_TRUSTED_PROXIES",
    "FERRITE_GIT_ADDRESS",
    "FERRITE_GIT_MAX_PUSH_BYTES",
    "FERRITE_GIT_PROGRAM",
    "FERRITE_HOOK_ADDRESS",
    "FERRITE_HTTP",
    "FERRITE_ISSUE_ADDRESS",
    "FERRITE_LOG",
    "FERRITE_LOG_FORMAT",
    "FERRITE_OUTBOUND_ALLOW",
    "FERRITE_PUBLIC_SSH",
    "FERRITE_PUBLIC_URL",
    "FERRITE_REDIS_URL",
    "FERRITE_REDIS_URL_FILE",
    "FERRITE_REPO_ADDRESS",
    "FERRITE_REPO_CREATIONS_PER_HOUR",
    "FERRITE_REPO_OWNER_BYTES",
    "FERRITE_SSH",
];

/// Returns whether the subcommand of this name has basic and advanced settings.
pub(crate) fn is_process(subcommand: &str) -> bool {
    subcommand == UP || role::NAMES.contains(&subcommand)
}

/// Adds the flags `--help` and `--help-all` to the command of a process. Hides advanced settings unless `shows_all`.
pub(crate) fn with_help(command: Command, shows_all: bool) -> Command {
    let name = command.get_name().to_owned();
    let flag = |id: &'static str, help: &'static str| Arg::new(id).long(id).action(ArgAction::HelpShort).help(help);
    let flags = [flag("help", "Print the basic settings").short('h'), flag("help-all", "Print all settings")];
    let mut footer = Vec::new();
    if name == UP {
        footer.push(passed_on(&command, shows_all));
    }
    if !shows_all {
        footer.push(format!("Advanced settings: ferrite {name} {HELP_ALL}"));
    }
    let command = command
        .mut_args(|argument| arranged(argument, shows_all))
        .disable_help_flag(true)
        .next_line_help(true)
        .override_usage(format!("ferrite {name} [OPTIONS]"))
        .args(flags);
    if footer.is_empty() { command } else { command.after_help(footer.join("\n\n")) }
}

fn arranged(argument: Arg, shows_all: bool) -> Arg {
    let argument = match argument.get_help().map(ToString::to_string) {
        Some(help) if argument.is_required_set() => argument.help(format!("{help} [required]")),
        _ => argument,
    };
    if is_basic(&argument) {
        return argument;
    }
    argument.help_heading(ADVANCED_HEADING).hide_short_help(!shows_all).hide_long_help(!shows_all)
}

fn is_basic(argument: &Arg) -> bool {
    argument.is_required_set() || variable_of(argument).is_none_or(|variable| BASIC.contains(&variable))
}

fn variable_of(argument: &Arg) -> Option<&str> {
    argument.get_env().and_then(OsStr::to_str)
}

/// Returns the section about the variables that `ferrite up` passes on to its processes.
fn passed_on(up: &Command, shows_all: bool) -> String {
    let mut seen: BTreeSet<String> = up.get_arguments().filter_map(variable_of).map(str::to_owned).collect();
    let mut text = String::from("Settings of the processes, as variables:");
    for role in role::NAMES {
        let command = role::command_line(role).unwrap_or_default().mut_args(with_range);
        for argument in command.get_arguments() {
            let Some(variable) = variable_of(argument) else { continue };
            let is_shown = (shows_all || is_basic(argument)) && !argument.is_hide_set();
            if is_shown && launcher::is_passed_on(role, variable) && seen.insert(variable.to_owned()) {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                text.push_str(&format!("\n      {variable}\n          {help}{}", default_of(argument)));
            }
        }
    }
    text
}

fn default_of(argument: &Arg) -> String {
    let values: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let default = values.join(",");
    let is_shown = !default.is_empty() && argument.get_action().takes_values();
    if is_shown { format!(" [default: {default}]") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum number of settings shown by default in a process's help.
    const MAX_SHOWN: usize = 25;
    const MAX_HELP_CHARS: usize = 92;
    const MAX_COLUMNS: usize = 100;

    fn commands() -> Vec<Command> {
        let up = <launcher::UpArgs as clap::Args>::augment_args(Command::new(UP));
        let roles = role::NAMES.iter().map(|role| role::command_line(role).unwrap());
        roles.chain([up]).map(|command| command.mut_args(with_range)).collect()
    }

    fn help(command: &Command, shows_all: bool) -> String {
        with_help(command.clone(), shows_all).term_width(MAX_COLUMNS).render_help().to_string()
    }

    #[test]
    fn basic_settings_are_few_and_known() {
        assert!(BASIC.is_sorted() && BASIC.len() <= 30, "{}", BASIC.len());
        let commands = commands();
        for variable in BASIC {
            let mut arguments = commands.iter().flat_map(Command::get_arguments);
            assert!(arguments.any(|argument| variable_of(argument) == Some(*variable)), "{variable}");
        }
        for command in &commands {
            let shown = help(command, false).matches("[env: ").count();
            assert!((5..=MAX_SHOWN).contains(&shown), "{}: {shown}", command.get_name());
        }
    }

    #[test]
    fn the_text_of_every_setting_is_one_line() {
        for command in commands() {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let name = argument.get_id();
                let help = argument.get_help().unwrap_or_else(|| panic!("{name} has no help")).to_string();
                let text = help.split(" [range: ").next().unwrap_or_default();
                assert!(argument.get_long_help().is_none() && !text.contains('\n'), "{name}: {text}");
                assert!((10..=MAX_HELP_CHARS).contains(&text.chars().count()), "{name}: {text}");
                assert!(!text.ends_with('.'), "{name}: {text}");
            }
        }
    }

    #[test]
    fn the_help_is_short_and_the_whole_help_is_whole() {
        for command in commands() {
            let (name, short, whole) = (command.get_name(), help(&command, false), help(&command, true));
            assert!(short.ends_with(&format!("\n\nAdvanced settings: ferrite {name} --help-all\n")), "{short}");
            assert!(whole.contains("\n\nAdvanced settings:\n"), "{whole}");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(variable) = variable_of(argument) else { continue };
                let shown = |help: &str| help.split(['=', ']', '\n']).any(|text| text.ends_with(variable));
                assert!(shown(&whole), "{variable} is not in {whole}");
                assert_eq!(shown(&short), is_basic(argument), "{variable} in {short}");
            }
            for line in short.lines().chain(whole.lines()) {
                assert!(line.chars().count() <= MAX_COLUMNS, "{name}: {line}");
            }
        }
    }

    #[test]
    fn the_help_of_up_shows_the_variables_of_its_processes() {
        let commands = commands();
        let up = commands.iter().find(|command| command.get_name() == UP).unwrap();
        let (short, whole) = (help(up, false), help(up, true));
        assert!(short.contains("\n      FERRITE_GATEWAY_TLS_CERTIFICATE_FILE\n          TLS certificate"), "{short}");
        assert!(!short.contains("FERRITE_GIT_CLONES") && whole.contains("\n      FERRITE_GIT_CLONES\n"), "{whole}");
        assert_eq!(whole.matches("FERRITE_GIT_PROGRAM").count(), 1, "a flag of its own");
        assert_eq!(whole.matches("FERRITE_WRITES_PER_HOUR\n").count(), 1, "once for all roles");
        for decided in ["FERRITE_GIT_STORE_PATH", "FERRITE_DATABASE_URL", "FERRITE_LISTEN"] {
            assert!(!whole.contains(decided), "{decided}");
        }
    }
}
