//! Web pages: what a first visit loads, and how long pages take with 1 and with 32 connections,
//! beside cgit on the same repository if Debian's packages cgit and lighttpd are installed.
//!
//!     make bench-pages
//!
//! Measures the release binary, `ferrite up` on SQLite, for visitors without an account. The clients
//! are in this process and share the machine with the service. Each keeps its connection and sends
//! the next request as soon as it gets a response. Without `--bench`, as in `cargo test --benches`,
//! every page is opened a few times, as a test of the bench.

mod cgit;
mod site;
mod visit;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use ferrite_benches::load::{self, Requests};
use ferrite_benches::{Failure, block_on};

use cgit::Cgit;
use site::Site;
use visit::Page;

/// Numbers of connections.
const CONNECTIONS: [usize; 2] = [1, 32];
const TEST_TIME: Duration = Duration::from_millis(50);
/// cgit starts a process for each request, and lighttpd queues what it cannot start.
const CGIT_CONNECTIONS: usize = 1;

/// Measures web pages.
#[derive(Debug, Parser)]
struct Args {
    /// Pages; all by default.
    #[arg(value_enum)]
    pages: Vec<Page>,

    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,

    /// Keep the data folder.
    #[arg(long)]
    keep: bool,

    /// Passed by `cargo bench`, but not by `cargo test`.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn pages(&self) -> Vec<Page> {
        Page::ALL.into_iter().filter(|page| self.pages.is_empty() || self.pages.contains(page)).collect()
    }

    fn time(&self) -> Duration {
        if self.bench { Duration::from_secs(self.seconds) } else { TEST_TIME }
    }
}

/// Measures one page of a server and prints the row.
async fn measure(
    args: &Args,
    server: &str,
    page: Page,
    url: &str,
    path: String,
    connections: usize,
) -> Result<(), Failure> {
    let headers = vec![("accept-encoding", "gzip".to_owned())];
    let requests = Requests { url: url.to_owned(), headers, path: Box::new(move |_| path.clone()), status: 200 };
    let requests = Arc::new(requests);
    load::run(&requests, connections, args.time() / 4).await?;
    let measured = load::run(&requests, connections, args.time()).await?;
    println!(
        "| {server:7} | {:8} | {connections:>11} | {:>7.0} | {:>7.2} | {:>7.2} | {:>6.1} |",
        page.name(),
        measured.rate(),
        measured.percentile_ms(50),
        measured.percentile_ms(99),
        measured.bytes_of_each() / 1024.0,
    );
    Ok(())
}

async fn run(args: &Args, folder: &Path) -> Result<(), Failure> {
    let site = Site::new(folder, args.bench).await?;
    println!("\n| first visit | requests | KiB, compressed |");
    println!("|-------------|---------:|----------------:|");
    for page in args.pages() {
        let cold = visit::cold(&site.installation.url, &site.path(page)).await?;
        println!("| {:11} | {:>8} | {:>15.1} |", page.name(), cold.requests, cold.bytes as f64 / 1024.0);
    }
    println!("\n| server  | page     | connections | pages/s | p50, ms | p99, ms |    KiB |");
    println!("|---------|----------|------------:|--------:|--------:|--------:|-------:|");
    for connections in CONNECTIONS {
        for page in args.pages() {
            measure(args, "Ferrite", page, &site.installation.url, site.path(page), connections).await?;
        }
    }
    let Some(cgit) = Cgit::start(&site.history, &folder.join("cgit")).await? else {
        println!("\ncgit was not measured: cgit and lighttpd are not installed");
        return Ok(());
    };
    for page in args.pages() {
        if let Some(path) = site.cgit_path(page) {
            measure(args, "cgit", page, &cgit.url, path, CGIT_CONNECTIONS).await?;
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let mut folder = tempfile::Builder::new().prefix("ferrite-bench-").tempdir()?;
    folder.disable_cleanup(args.keep);
    block_on(run(&args, folder.path()))
}
