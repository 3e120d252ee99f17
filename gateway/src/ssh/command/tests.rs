use proptest::prelude::*;

use super::*;

fn parse(line: &str) -> Result<(GitService, String, String), SshCommandError> {
    Command::parse(line.as_bytes()).map(|command| (command.service, command.owner, command.repo))
}

#[test]
fn every_form_that_clients_send_is_understood() {
    for (line, service) in [
        ("git-upload-pack 'Ada/demo.git'", GitService::UploadPack),
        ("git-upload-pack '/Ada/demo.git'", GitService::UploadPack),
        ("git upload-pack 'Ada/demo.git'", GitService::UploadPack),
        ("git-receive-pack \"Ada/demo.git\"", GitService::ReceivePack),
        ("git-receive-pack Ada/demo.git", GitService::ReceivePack),
        ("git-upload-archive  '/Ada/demo.git' ", GitService::UploadArchive),
        ("git-upload-pack 'Ada/demo.git/'", GitService::UploadPack),
        ("git-receive-pack '/Ada/demo.git/'", GitService::ReceivePack),
        ("git-upload-pack 'Ada/de'\\''mo.git'", GitService::UploadPack),
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
        assert_eq!(parse(line), Err(SshCommandError::UnknownCommand), "{line}");
    }
    assert_eq!(Command::parse(b"git-upload-pack '\xff/x'"), Err(SshCommandError::UnknownCommand));
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
        "/a/",
        "a/b//",
        "a//b/",
        "'a/b/c/'",
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
        assert_eq!(parse(&format!("git-upload-pack {argument}")), Err(SshCommandError::InvalidPath), "{argument}");
    }
}

proptest! {
    #[test]
    fn any_line_is_a_command_or_refused(line in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Command::parse(&line);
    }

    #[test]
    fn arguments_that_git_quotes_are_read_back(path in "[ -~]{1,20}") {
        let quoted = path.replace('\'', "'\\''").replace('!', "'\\!'");
        prop_assert_eq!(unquote(&format!("'{quoted}'")), Some(path));
    }
}
