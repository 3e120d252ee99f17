//! `ferrite demo`: a server with example data in a temporary folder, removed when the command ends.
//!
//! Each file uses only those after it: this file, `guide`, `content`, `api`, `receiver`, `server`.

mod api;
mod content;
mod guide;
mod receiver;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ferrite_core::Lifecycle;
use ferrite_core::config::host_and_port;

use self::api::Api;
use self::receiver::Receiver;
use self::server::{Server, Settings};
use crate::output::{Failure, error_chain, print_line};
use crate::role::{StopSignals, in_runtime, stop_with_stdin};
use crate::{launcher, password};

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Listen address of the REST API and git over HTTP; port 0: any free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = host_and_port)]
    http: String,

    /// Git executable: a path, or a name in /usr/local/bin, /usr/bin or /bin; `git` by default.
    #[arg(long, env = "FERRITE_GIT_PROGRAM", value_name = "FILE", value_parser = git_svc::git_program)]
    git_program: Option<PathBuf>,

    /// Stop when standard input ends.
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

pub(crate) fn start(args: &DemoArgs) -> ExitCode {
    in_runtime("demo", Some(1), demo(args))
}

async fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let mut signals = StopSignals::new().map_err(|error| format!("cannot watch signals: {error}"))?;
    git_svc::check_git(args.git_program.as_deref()).await.map_err(|error| error_chain(&error))?;
    launcher::free_port(&args.http, "choose another address with --http")?;
    let password = password::generate().map_err(|error| format!("cannot get random bytes from the system: {error}"))?;
    let receiver = Receiver::bind().await?;
    let folder = tempfile::Builder::new()
        .prefix("ferrite-demo-")
        .tempdir()
        .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let life = Lifecycle::new(Duration::ZERO);
    if args.stop_with_stdin {
        stop_with_stdin(&life);
    }
    let mut server = Server::start(&Settings {
        data: folder.path(),
        http: &args.http,
        git_program: args.git_program.as_deref(),
        password: &password,
        receiver: receiver.address(),
    })?;
    let outcome = tokio::select! {
        outcome = run(&mut server, receiver, &password) => outcome.map_err(Failure::from),
        _ = signals.next() => Ok(()),
        () = life.stopping() => Ok(()),
    };
    server.stop().await;
    let removed = folder.close().map_err(|error| format!("cannot remove the temporary folder: {error}"));
    outcome.and(removed.map_err(Failure::from))
}

/// Creates the example data, prints how to try it, and receives webhooks. Returns when the server
/// or the receiver fails.
async fn run(server: &mut Server, receiver: Receiver, password: &str) -> Result<(), String> {
    let receiver_url = receiver.url();
    let shown = async {
        let url = server.ready().await?;
        let token = content::create(&Api::new(&url)?, password, &receiver_url).await?;
        print_line(&guide::text(&url, &token, password));
        Err::<(), String>(server.unexpected_end().await)
    };
    tokio::select! {
        outcome = shown => outcome,
        outcome = receiver.serve() => outcome,
    }
}
