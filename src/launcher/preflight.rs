//! Checks before any child is started: git and free ports.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::process::Stdio;

use tokio::process::Command;

use crate::output::Failure;

/// Fails unless the program `git` runs.
pub(super) async fn require_git() -> Result<(), String> {
    let status = Command::new("git")
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await
        .map_err(|_| "git is not installed: the program `git` is not on PATH".to_owned())?;
    if status.success() { Ok(()) } else { Err(format!("`git --version` fails ({status})")) }
}

/// Returns the address that `text` names, which is the value of `setting`.
pub(super) fn address(setting: &str, text: &str) -> Result<SocketAddr, Failure> {
    resolve(text).map_err(|reason| Failure::of_settings(format!("invalid value '{text}' for {setting}: {reason}")))
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "the host has no address".to_owned())
}

/// Returns the address that `text` names if no process listens there, with a free port in the place of port 0.
pub(super) fn free_port(text: &str) -> Result<SocketAddr, String> {
    let address = resolve(text).map_err(|reason| format!("cannot listen on {text}: {reason}"))?;
    let listener = TcpListener::bind(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
    listener.local_addr().map_err(|error| format!("cannot listen on {address}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = holder.local_addr().unwrap();
        let message = free_port(&taken.to_string()).unwrap_err();
        assert!(message.contains(&taken.to_string()), "{message}");
        assert_ne!(free_port("127.0.0.1:0").unwrap().port(), 0);
        for wrong in ["", "3000", "nowhere", "127.0.0.1:99999"] {
            assert!(free_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_that_does_not_resolve_is_named_with_its_setting_and_the_reason() {
        let reason = "x..y:80".to_socket_addrs().unwrap_err().to_string();
        let failure = format!("{:?}", address("--http (FERRITE_HTTP)", "x..y:80").unwrap_err());
        for part in ["invalid value 'x..y:80' for --http (FERRITE_HTTP): ", &reason] {
            assert!(failure.contains(part), "{failure}");
        }
        assert!(address("--http (FERRITE_HTTP)", "127.0.0.1:80").is_ok());
    }
}
