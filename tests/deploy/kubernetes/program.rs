//! The manifests against the program: the settings of its roles, and the secrets that
//! `make-secrets.sh` generates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::object::{ROLES, manifests};

pub(crate) const FERRITE: &str = env!("CARGO_BIN_EXE_ferrite");
/// A fake kubectl: finds no secret, and records the ones that are created.
const KUBECTL: &str = r#"#!/bin/sh
[ "$3" = create ] || exit 1
printf '%s\n' "$*" >> "$KUBECTL_LOG"
"#;

/// Variables by role.
pub(crate) fn settings() -> &'static BTreeMap<&'static str, BTreeSet<String>> {
    static SETTINGS: OnceLock<BTreeMap<&str, BTreeSet<String>>> = OnceLock::new();
    SETTINGS.get_or_init(|| ROLES.into_iter().map(|role| (role, settings_of(role))).collect())
}

fn settings_of(role: &str) -> BTreeSet<String> {
    let output = Command::new(FERRITE).args([role, "--help-all"]).env_clear().output().unwrap();
    assert!(output.status.success(), "{role} --help-all");
    // The help wraps long lines anywhere.
    let help = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let names = help.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next());
    names.map(str::to_owned).collect()
}

/// Secrets by name, each with its keys and values.
pub(crate) type Secrets = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

pub(crate) fn secrets() -> &'static Secrets {
    static SECRETS: OnceLock<Secrets> = OnceLock::new();
    SECRETS.get_or_init(|| secrets_with(&[]))
}

pub(crate) fn secrets_with(options: &[&str]) -> Secrets {
    let folder = tempfile::tempdir().unwrap();
    make_secrets(folder.path(), options).lines().map(secret).collect()
}

/// Runs `make-secrets.sh` for a folder and returns the kubectl commands, one per line.
pub(crate) fn make_secrets(folder: &Path, options: &[&str]) -> String {
    let (kubectl, log) = (folder.join("kubectl"), folder.join("log"));
    std::fs::write(&kubectl, KUBECTL).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&kubectl, mode).unwrap();
    let output = Command::new(manifests().join("make-secrets.sh"))
        .arg("ferrite")
        .arg(folder.join("secrets"))
        .args(options)
        .env("FERRITE", FERRITE)
        .env("KUBECTL", &kubectl)
        .env("KUBECTL_LOG", &log)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(log).unwrap()
}

/// Parses `--namespace N create secret generic NAME --from-file=KEY=FILE…` and reads the files.
fn secret(line: &str) -> (String, BTreeMap<String, Vec<u8>>) {
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[..5], ["--namespace", "ferrite", "create", "secret", "generic"], "{line}");
    let keys = words[6..].iter().map(|word| {
        let (key, file) = word.strip_prefix("--from-file=").and_then(|pair| pair.split_once('=')).unwrap();
        let content = std::fs::read(file).unwrap();
        assert!(!content.is_empty(), "{file} is empty");
        (key.to_owned(), content)
    });
    (words[5].to_owned(), keys.collect())
}
