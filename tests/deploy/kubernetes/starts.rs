//! Starts each role with the settings and files of its pod, but without its servers: the role
//! accepts them and waits.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::object::{roles, settings};
use super::{OVERLAYS, built, mounts, program};

/// Time limit for a process to read its settings.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// File name of the private listener's socket. It appears once settings and files are checked.
const SOCKET: &str = "private";

/// Child processes, killed on drop.
struct Processes(Vec<(String, Child)>);

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The content that cert-manager would put into a role's secret.
fn certificate(role: &str) -> BTreeMap<String, Vec<u8>> {
    let made = rcgen::generate_simple_self_signed([role.to_owned()]).unwrap();
    let certificate = pem("CERTIFICATE", made.cert.der());
    let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
    [("ca.crt", certificate.clone()), ("tls.crt", certificate), ("tls.key", key)]
        .map(|(name, content)| (name.to_owned(), content.into_bytes()))
        .into()
}

fn pem(label: &str, der: &[u8]) -> String {
    let lines: Vec<String> =
        STANDARD.encode(der).as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Writes the mounted files of a role below `root`.
fn mount(objects: &[Value], secrets: &program::Secrets, workload: &Value, role: &str, root: &Path) {
    let certificate = certificate(role);
    for (path, origin) in mounts::mounted(objects, workload).unwrap() {
        let target = root.join(path.trim_start_matches('/'));
        let Some((secret, key)) = origin else {
            std::fs::create_dir_all(target).unwrap();
            continue;
        };
        let content = secrets.get(&secret).unwrap_or(&certificate);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, &content[&key]).unwrap();
    }
}

/// Starts a role on sockets below `root` instead of ports.
fn start(objects: &[Value], workload: &Value, role: &str, root: &Path) -> Child {
    let folder = root.display().to_string();
    let below = |path: &str| format!("{folder}{path}");
    let mut command = Command::new(program::FERRITE);
    command.arg(role).env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for (name, value) in settings(objects, workload) {
        let value = value.replace("/run/ferrite/", &below("/run/ferrite/")).replace("/data/", &below("/data/"));
        command.env(name, value);
    }
    command.env("FERRITE_ADMIN_LISTEN", format!("unix:{folder}/{SOCKET}"));
    command.env("FERRITE_LISTEN", format!("unix:{folder}/public"));
    match role {
        "gateway" => command.env("FERRITE_GATEWAY_SSH_LISTEN", format!("unix:{folder}/ssh")),
        "git-svc" => command.env("FERRITE_GIT_STORE", "git-0"),
        _ => &mut command,
    };
    command.spawn().unwrap()
}

#[test]
fn every_role_takes_the_settings_and_the_secrets_of_its_pod() {
    for overlay in OVERLAYS {
        let (objects, folder) = (built(overlay), tempfile::tempdir().unwrap());
        // `docs/operations.md`: production rejects Redis without TLS.
        let secrets = program::secrets_with(if overlay == "production" { &["--redis-tls"] } else { &[] });
        let mut processes = Processes(Vec::new());
        for (workload, role) in roles(&objects) {
            let root = folder.path().join(role);
            mount(&objects, &secrets, workload, role, &root);
            processes.0.push((role.to_owned(), start(&objects, workload, role, &root)));
        }
        let started = Instant::now();
        for (role, child) in &mut processes.0 {
            while !folder.path().join(&*role).join(SOCKET).exists() {
                if child.try_wait().unwrap().is_some() || started.elapsed() > START_TIMEOUT {
                    let _ = child.kill();
                    let log = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
                    panic!("{overlay}: {role} rejects its settings: {log}");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
