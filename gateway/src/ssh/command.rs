//! Parses command lines. Only git's three services with a repository path are accepted; nothing
//! reaches a shell.

use ferrite_proto::git_transport::GitService;

use super::error::SshCommandError;

const MAX_COMMAND_BYTES: usize = 4096;
/// Characters that a shell interprets outside of quotes. An argument with one of them is rejected
/// because it is not meant literally.
const SHELL_SPECIAL: &str = "$`;&|<>(){}*?[]#~\n\r\0";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) service: GitService,
    pub(super) owner: String,
    /// With or without `.git`.
    pub(super) repo: String,
}

impl Command {
    /// Parses a command line such as `git-upload-pack 'ada/demo.git'` or `git upload-pack
    /// ada/demo`.
    pub(super) fn parse(line: &[u8]) -> Result<Self, SshCommandError> {
        let text = std::str::from_utf8(line).ok().filter(|text| text.len() <= MAX_COMMAND_BYTES);
        let text = text.ok_or(SshCommandError::UnknownCommand)?.trim();
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (name, argument) = match first {
            "git" => {
                let (name, argument) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
                (format!("git-{name}"), argument)
            }
            _ => (first.to_owned(), rest),
        };
        let service = GitService::parse(name.as_bytes()).ok_or(SshCommandError::UnknownCommand)?;
        let path = unquote(argument.trim()).ok_or(SshCommandError::InvalidPath)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        // As over HTTP, where git puts one slash between the path and `info/refs`, whether or not
        // the path ends in one.
        let path = path.strip_suffix('/').unwrap_or(path);
        match path.split_once('/') {
            Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() && !repo.contains('/') => {
                Ok(Self { service, owner: owner.to_owned(), repo: repo.to_owned() })
            }
            _ => Err(SshCommandError::InvalidPath),
        }
    }
}

/// Returns the single word that a shell reads from `text`, without quotes; `None` for no word,
/// several words, or anything that a shell would expand.
fn unquote(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' => loop {
                match chars.next()? {
                    '\'' => break,
                    inner => out.push(inner),
                }
            },
            '"' => loop {
                match chars.next()? {
                    '"' => break,
                    '$' | '`' => return None,
                    '\\' => match chars.next()? {
                        escaped @ ('"' | '\\' | '$' | '`') => out.push(escaped),
                        other => out.extend(['\\', other]),
                    },
                    inner => out.push(inner),
                }
            },
            '\\' => out.push(chars.next()?),
            char if char.is_whitespace() || SHELL_SPECIAL.contains(char) => return None,
            char => out.push(char),
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests;
