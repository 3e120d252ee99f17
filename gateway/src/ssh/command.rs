//! What a client asks to be run: a command line, as a shell would get it, of which only git's three services are understood.

use ferrite_proto::operation::{RECEIVE_PACK, UPLOAD_PACK};

use super::error::Refusal;

const MAX_BYTES: usize = 4096;
/// What a shell would act upon outside of quotes. Nothing is passed to one; who means it is told that it is not understood.
const SPECIAL: &str = "$`;&|<>(){}*?[]#~\n\r\0";

/// A service of git's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// A fetch.
    UploadPack,
    /// A push.
    ReceivePack,
    /// An archive.
    UploadArchive,
}

impl Service {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "upload-pack" => Some(Self::UploadPack),
            "receive-pack" => Some(Self::ReceivePack),
            "upload-archive" => Some(Self::UploadArchive),
            _ => None,
        }
    }

    /// The name that git-svc knows it by.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
            Self::UploadArchive => "git-upload-archive",
        }
    }

    /// What repo-svc knows it as. Who may fetch may have an archive.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Self::UploadPack | Self::UploadArchive => UPLOAD_PACK,
            Self::ReceivePack => RECEIVE_PACK,
        }
    }
}

/// A service and the repository it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The service.
    pub(super) service: Service,
    /// The first half of the repository's name, as it was written.
    pub(super) owner: String,
    /// The second half, with or without `.git`.
    pub(super) repo: String,
}

impl Command {
    /// Reads a command line: `git-upload-pack 'ada/demo.git'` and its like.
    ///
    /// # Errors
    /// [`Refusal::UnknownCommand`], [`Refusal::InvalidPath`].
    pub(super) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(line).ok().filter(|text| text.len() <= MAX_BYTES);
        let text = text.ok_or(Refusal::UnknownCommand)?.trim();
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (name, argument) = match first {
            "git" => rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), "")),
            _ => (first.strip_prefix("git-").ok_or(Refusal::UnknownCommand)?, rest),
        };
        let service = Service::parse(name).ok_or(Refusal::UnknownCommand)?;
        let path = word(argument.trim()).ok_or(Refusal::InvalidPath)?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        match path.split_once('/') {
            Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() && !repo.contains('/') => {
                Ok(Self { service, owner: owner.to_owned(), repo: repo.to_owned() })
            }
            _ => Err(Refusal::InvalidPath),
        }
    }
}

/// The one word that a text is to a shell; `None` when it is none, or several, or more than a word.
fn word(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => loop {
                match letters.next()? {
                    '\'' => break,
                    inner => out.push(inner),
                }
            },
            '"' => loop {
                match letters.next()? {
                    '"' => break,
                    '$' | '`' => return None,
                    '\\' => match letters.next()? {
                        escaped @ ('"' | '\\' | '$' | '`') => out.push(escaped),
                        other => out.extend(['\\', other]),
                    },
                    inner => out.push(inner),
                }
            },
            '\\' => out.push(letters.next()?),
            letter if letter.is_whitespace() || SPECIAL.contains(letter) => return None,
            letter => out.push(letter),
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(line: &str) -> Result<(Service, String, String), Refusal> {
        Command::parse(line.as_bytes()).map(|command| (command.service, command.owner, command.repo))
    }

    #[test]
    fn every_form_that_clients_send_is_understood() {
        for (line, service) in [
            ("git-upload-pack 'Ada/demo.git'", Service::UploadPack),
            ("git-upload-pack '/Ada/demo.git'", Service::UploadPack),
            ("git upload-pack 'Ada/demo.git'", Service::UploadPack),
            ("git-receive-pack \"Ada/demo.git\"", Service::ReceivePack),
            ("git-receive-pack Ada/demo.git", Service::ReceivePack),
            ("git-upload-archive  '/Ada/demo.git' ", Service::UploadArchive),
            ("git-upload-pack 'Ada/de'\\''mo.git'", Service::UploadPack),
        ] {
            let repo = if line.contains("de'") { "de'mo.git" } else { "demo.git" };
            assert_eq!(parse(line), Ok((service, "Ada".to_owned(), repo.to_owned())), "{line}");
        }
    }

    #[test]
    fn other_commands_are_unknown() {
        let long = format!("git-upload-pack '{}/x'", "a".repeat(5000));
        for line in [
            "",
            " ",
            "ls",
            "git",
            "git gc",
            "git-shell",
            "git-lfs-authenticate a/b download",
            "git-upload-pack;id a/b",
            "/usr/bin/git-upload-pack a/b",
            "sh -c 'git-upload-pack a/b'",
            "GIT-UPLOAD-PACK a/b",
            &long,
        ] {
            assert_eq!(parse(line), Err(Refusal::UnknownCommand), "{line}");
        }
        assert_eq!(Command::parse(b"git-upload-pack '\xff/x'"), Err(Refusal::UnknownCommand));
    }

    #[test]
    fn other_arguments_are_no_paths() {
        for argument in [
            "",
            "''",
            "demo",
            "'/demo.git'",
            "'//a/b'",
            "a/",
            "/a/b/",
            "'a/b/c'",
            "a/b c/d",
            "--strict a/b",
            "'a/b",
            "\"a/b",
            "a/b\\",
            "a/b;id",
            "a/$(id)",
            "\"a/$HOME\"",
            "~a/b",
            "a/b|sh",
            "a/*",
        ] {
            assert_eq!(parse(&format!("git-upload-pack {argument}")), Err(Refusal::InvalidPath), "{argument}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_a_command_or_refused(line in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Command::parse(&line);
        }

        #[test]
        fn what_git_quotes_comes_back(path in "[ -~]{1,20}") {
            let quoted = path.replace('\'', "'\\''").replace('!', "'\\!'");
            prop_assert_eq!(word(&format!("'{quoted}'")), Some(path));
        }
    }
}
