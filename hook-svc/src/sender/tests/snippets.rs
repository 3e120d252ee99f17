//! Runs the signature verification snippets of the docs in their interpreters.

use std::io::Write;
use std::process::{Command, Stdio};

use ferrite_core::{Clock, Secret};

use crate::model::ContentType;
use crate::sender::message::{Envelope, Message};

const DOCUMENTATION: &str = include_str!("../../../../docs/webhooks.md");
/// The languages, with the command that takes a snippet as its last argument.
const LANGUAGES: [(&str, [&str; 2]); 3] = [("sh", ["sh", "-c"]), ("python", ["python3", "-c"]), ("js", ["node", "-e"])];

fn snippet(language: &str) -> &'static str {
    let begin = format!("```{language}\n");
    let (_, rest) = DOCUMENTATION.split_once(&begin).unwrap();
    rest.split_once("```").unwrap().0
}

fn is_accepted(language: &str, command: [&str; 2], message: &Message, secret: &str, body: &[u8]) -> bool {
    let mut program = Command::new(command[0]);
    program.arg(command[1]).arg(snippet(language)).env("SECRET", secret);
    for (name, value) in message.headers.iter() {
        program.env(name.to_uppercase().replace('-', "_"), value);
    }
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = program.spawn().unwrap();
    // A snippet may reject without reading its input, which breaks the pipe.
    let _ = child.stdin.take().unwrap().write_all(body);
    child.wait().unwrap().success()
}

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    // Some shells lack this option and exit with an error.
    found.is_ok()
}

#[test]
fn the_snippets_accept_what_is_sent_and_nothing_else() {
    let now_secs = Clock::system().now_secs();
    for (language, command) in LANGUAGES {
        if !is_installed(command[0]) {
            eprintln!("{} is not installed: its snippet is not tested", command[0]);
            continue;
        }
        let secrets = if language == "python" { vec!["new", "whsec_AAECAwQ"] } else { vec!["s3cr3t"] };
        let keys: Vec<_> = secrets.iter().map(|secret| Secret::new(*secret)).collect();
        for content_type in [ContentType::Json, ContentType::Form] {
            let envelope = Envelope {
                event: "push",
                event_type: "push",
                uuid: "u-1",
                attempt: 1,
                now_secs,
                content_type,
                secrets: &keys,
                authorization: None,
            };
            let message = envelope.message("{\n  \"a\": \"\\u003c \u{e4}\"\n}".to_owned()).unwrap();
            // A receiver that knows only one of the two secrets accepts the delivery.
            for secret in &secrets {
                assert!(is_accepted(language, command, &message, secret, &message.body), "{language} {secret}");
            }
            let mut changed = message.body.to_vec();
            changed[3] ^= 1;
            assert!(!is_accepted(language, command, &message, secrets[0], &changed), "{language}");
            assert!(!is_accepted(language, command, &message, "other", &message.body), "{language}");
            if language == "python" {
                let old = Envelope { now_secs: now_secs - 1000, ..envelope };
                let old = old.message("{}".to_owned()).unwrap();
                assert!(!is_accepted(language, command, &old, secrets[0], &old.body));
            }
        }
    }
}
