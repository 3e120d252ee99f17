//! `ferrite up`: all of Ferrite on one machine.
//!
//! The launcher locks the data folder, creates keys and the first administrator, runs one child
//! process per role over Unix sockets inside the folder, restarts children that exit, and stops
//! them in order. It serves nothing itself.
//!
//! Each file uses only those after it: this file, `child`, `probe`, `first_administrator`, `plan`,
//! `args`, `keys`, `folder`.

mod args;
mod child;
mod first_administrator;
mod folder;
mod keys;
mod plan;
pub(crate) mod probe;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use ferrite_core::{Lifecycle, telemetry};
use sd_notify::NotifyState;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::environment;
use crate::output::{Failure, error_chain, print_line};
use crate::role::{StopSignals, in_runtime, stop_with_stdin};
pub(crate) use args::UpArgs;
use child::{ChildEvent, Children};
use folder::DataFolder;
pub(crate) use folder::{create_private_folder, unusable_folder};
pub(crate) use keys::{SERVICE_PUBLIC_FOLDER, ensure as ensure_keys, write as write_file};
use plan::Plan;
pub(crate) use plan::{KEY_FOLDER, REPO_DATABASE_FILE, admin_sockets, connectable, is_passed_on};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const CHOOSE_HTTP: &str = "choose another address with --http (FERRITE_HTTP)";

/// Runs the launcher. Logs `warnings` first.
pub(crate) fn start(args: &UpArgs, warnings: &[String]) -> ExitCode {
    in_runtime("up", Some(1), up(args, warnings))
}

async fn up(args: &UpArgs, warnings: &[String]) -> Result<(), Failure> {
    // The launcher exports no traces; its children do.
    telemetry::init_without_export("up", &args.telemetry).map_err(|error| error.to_string())?;
    environment::log(warnings);
    let mut signals = StopSignals::new().map_err(|error| format!("cannot watch signals: {error}"))?;
    telemetry::check_export().map_err(|error| Failure::of_settings(error.to_string()))?;
    let http = address("--http (FERRITE_HTTP)", &args.http)?;
    let ssh = address("--ssh (FERRITE_SSH)", &args.ssh)?;
    Plan::new(args, http, ssh).check()?;
    first_administrator::check(args)?;
    git_svc::check_git(args.git_program.as_deref()).await.map_err(|error| error_chain(&error))?;
    let folder = DataFolder::open(&args.data)?;
    let http = free_port(&args.http, CHOOSE_HTTP)?;
    let ssh = free_port(&args.ssh, "choose another address with --ssh (FERRITE_SSH)")?;
    if args.grpc_tcp {
        let free = |address: &str| free_port(address, "--grpc-tcp (FERRITE_GRPC_TCP) needs this address");
        plan::GRPC_ADDRESSES.iter().try_for_each(|(_, address)| free(address).map(drop))?;
    }
    folder.enter()?;
    keys::ensure(&PathBuf::from(plan::KEY_FOLDER))?;
    let plan = Plan::new(args, http, ssh);
    plan.check_files()?;
    first_administrator::ensure_first_administrator(args).await?;
    let life = Lifecycle::new(args.grace);
    if args.stop_with_stdin {
        stop_with_stdin(&life);
    }
    let (event_sender, mut events) = mpsc::unbounded_channel();
    let mut children = Children::start(&plan, &event_sender)?;
    let outcome = watch(&plan, &mut events, &mut signals, &life, &children).await;
    notify_service_manager(NotifyState::Stopping);
    children.stop(args.grace, &mut signals).await;
    drop(folder);
    outcome
}

fn address(setting: &str, text: &str) -> Result<SocketAddr, Failure> {
    resolve(text).map_err(|reason| Failure::of_settings(format!("invalid value '{text}' for {setting}: {reason}")))
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "the host has no address".to_owned())
}

/// Resolves an address and checks that it is free. Replaces port 0 by a free port. Errors end with
/// `advice`.
pub(crate) fn free_port(text: &str, advice: &str) -> Result<SocketAddr, String> {
    let address = resolve(text).map_err(|reason| format!("cannot listen on {text}: {reason}; {advice}"))?;
    let bound = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    bound.map_err(|error| format!("cannot listen on {address}: {error}; {advice}"))
}

/// Reports the state to systemd, if systemd started the launcher.
fn notify_service_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Handles events of the children. Returns when asked to stop, or when a child cannot start or
/// rejects its settings.
async fn watch(
    plan: &Plan,
    events: &mut mpsc::UnboundedReceiver<ChildEvent>,
    signals: &mut StopSignals,
    life: &Lifecycle,
    children: &Children,
) -> Result<(), Failure> {
    let deadline = Instant::now() + START_TIMEOUT;
    let mut starting: Vec<&'static str> = plan.roles();
    loop {
        tokio::select! {
            name = signals.next() => {
                tracing::info!(signal = name, "stopping");
                return Ok(());
            }
            () = life.stopping() => return Ok(()),
            () = tokio::time::sleep_until(deadline), if !starting.is_empty() => {
                return Err(format!("not ready after {} s: {}", START_TIMEOUT.as_secs(), starting.join(", ")).into());
            }
            Some(event) = events.recv() => match event {
                ChildEvent::Ready(role) if !starting.is_empty() => {
                    starting.retain(|other| *other != role);
                    if starting.is_empty() {
                        children.set_all_ready();
                        print_line(&format!("ready: {}", plan.http_url()));
                        notify_service_manager(NotifyState::Ready);
                    }
                }
                ChildEvent::Ready(role) => tracing::info!(child = role, "ready again"),
                ChildEvent::StartFailed(role, status) => {
                    return Err(format!("{role} did not start ({status}); see its message above").into());
                }
                ChildEvent::SettingsRefused(role) => {
                    return Err(Failure::of_settings(format!("{role} rejected its settings; see its message above")));
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_named() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = holder.local_addr().unwrap();
        let message = free_port(&taken.to_string(), CHOOSE_HTTP).unwrap_err();
        assert!(message.contains(&taken.to_string()) && message.ends_with(CHOOSE_HTTP), "{message}");
        assert_ne!(free_port("127.0.0.1:0", CHOOSE_HTTP).unwrap().port(), 0);
        for wrong in ["", "3000", "nowhere", "127.0.0.1:99999"] {
            assert!(free_port(wrong, CHOOSE_HTTP).is_err(), "{wrong}");
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
