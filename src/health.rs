//! `ferrite health`: checks whether processes are ready, for health checks of containers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ferrite_core::config::within;
use ferrite_core::net::Address;

use crate::launcher::{self, admin_sockets, probe, unusable_folder};
use crate::output::print_line;
use crate::role::in_runtime;

const CHOOSE_ADDRESS: &str = "choose another address with --address (FERRITE_ADMIN_LISTEN)";
const CHOOSE_FOLDER: &str =
    "choose another data folder with --data (FERRITE_DATA), or an address with --address (FERRITE_ADMIN_LISTEN)";

#[derive(Args, Debug)]
pub(crate) struct HealthArgs {
    /// Address to check, `HOST:PORT` or `unix:PATH`; all processes of `ferrite up` by default.
    #[arg(long, env = "FERRITE_ADMIN_LISTEN", value_name = "HOST:PORT")]
    address: Option<Address>,

    /// Data folder of `ferrite up`.
    #[arg(long, env = "FERRITE_DATA", value_name = "FOLDER", default_value = "./ferrite-data")]
    data: PathBuf,

    /// Timeout, in seconds.
    #[arg(long, env = "FERRITE_HEALTH_SECONDS", default_value_t = 3, value_parser = within::<u64>(1..=60))]
    timeout: u64,
}

/// Prints `ready` and returns success if every process is ready.
pub(crate) fn start(args: &HealthArgs) -> ExitCode {
    in_runtime("health", Some(1), check(args))
}

async fn check(args: &HealthArgs) -> Result<(), String> {
    let timeout = Duration::from_secs(args.timeout);
    let asked = tokio::time::timeout(timeout, ask(args)).await;
    asked.map_err(|_| format!("no response within {} s", args.timeout))??;
    print_line("ready");
    Ok(())
}

async fn ask(args: &HealthArgs) -> Result<(), String> {
    if let Some(address) = &args.address {
        return ready(&connectable(address), CHOOSE_ADDRESS).await;
    }
    // Paths of Unix sockets must be short.
    std::env::set_current_dir(&args.data).map_err(|error| unusable_folder(&args.data, &error))?;
    for (role, address) in admin_sockets() {
        ready(&address, CHOOSE_FOLDER).await.map_err(|reason| format!("{role}: {reason}"))?;
    }
    Ok(())
}

/// Asks one process. The error ends with `advice` if nothing answers.
async fn ready(address: &Address, advice: &str) -> Result<(), String> {
    probe::ask(address).await.map_err(|error| format!("nothing answers at {address}: {error}; {advice}"))?
}

/// Replaces an unspecified address, such as `0.0.0.0`, by the loopback address.
fn connectable(address: &Address) -> Address {
    let Address::Tcp(text) = address else { return address.clone() };
    let Ok(socket) = text.parse::<SocketAddr>() else { return address.clone() };
    Address::Tcp(launcher::connectable(socket).to_string())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_on_all_interfaces_is_asked_over_loopback() {
        let connectable = |text: &str| connectable(&text.parse().unwrap()).to_string();
        assert_eq!(connectable("0.0.0.0:9000"), "127.0.0.1:9000");
        assert_eq!(connectable("[::]:9000"), "[::1]:9000");
        assert_eq!(connectable("repo-svc:9000"), "repo-svc:9000");
        assert_eq!(connectable("unix:run/x.sock"), "unix:run/x.sock");
    }

    #[tokio::test]
    async fn an_address_without_a_private_listener_is_named_with_advice() {
        // Nothing listens on port 1. A free port could be taken by another test.
        let nobody = Address::Tcp("127.0.0.1:1".to_owned());
        let said = ready(&nobody, CHOOSE_ADDRESS).await.unwrap_err();
        assert!(said.starts_with("nothing answers at 127.0.0.1:1: ") && said.ends_with(CHOOSE_ADDRESS), "{said}");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let public = Address::Tcp(listener.local_addr().unwrap().to_string());
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 256]).await.unwrap();
            stream.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n{}").await.unwrap();
        };
        let (said, ()) = tokio::join!(ready(&public, CHOOSE_ADDRESS), server);
        let expected = format!("{public} is not an --admin-listen address, it answers `HTTP/1.1 404 Not Found`");
        assert_eq!(said, Err(expected));
    }
}
