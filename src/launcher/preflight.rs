//! Checks before any child is started: git and free ports.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::process::Stdio;

use tokio::process::Command;

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

/// Returns the address that `text` names.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.to_socket_addrs()
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| format!("`{text}` is not an address: HOST:PORT is expected"))
}

/// Returns the address that `text` names if no process listens there, with a free port in the place of port 0.
pub(super) fn free_port(text: &str) -> Result<SocketAddr, String> {
    let address = address(text)?;
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
}
