//! Open pull requests, whose list says which can be merged, after a push to their base.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_benches::history::MAIN;
use ferrite_benches::installation::{Installation, client, created, json_of};
use ferrite_benches::{Failure, milliseconds};
use reqwest::{Client, Method};
use serde_json::json;

use crate::merges;
use crate::site::{self, Pull, repository_path};

const REPOSITORY: &str = "lists";
const OPENED_AT_ONCE: usize = 16;
/// The largest page.
const PAGE: usize = 50;

/// All pages of the open ones.
struct List {
    elapsed: Duration,
    /// The slowest page.
    slowest: Duration,
    pulls: usize,
    mergeable: usize,
}

async fn list(installation: &Installation, client: &Client) -> Result<List, Failure> {
    let mut list = List { elapsed: Duration::ZERO, slowest: Duration::ZERO, pulls: 0, mergeable: 0 };
    for page in 1.. {
        let path = repository_path(REPOSITORY, &format!("/pulls?limit={PAGE}&page={page}"));
        let begin = Instant::now();
        let pulls = json_of(installation.request(client, Method::GET, &path), 200).await?;
        let time = begin.elapsed();
        let pulls = pulls.as_array().ok_or("the response is not a list")?;
        list.elapsed += time;
        list.slowest = list.slowest.max(time);
        list.pulls += pulls.len();
        list.mergeable += pulls.iter().filter(|pull| pull["mergeable"] == true).count();
        if pulls.len() < PAGE {
            break;
        }
    }
    Ok(list)
}

/// Opens pull requests, pushes to their base, and lists them twice. Prints a line for each list.
pub(crate) async fn measure(
    title: &str,
    installation: &Arc<Installation>,
    folder: &Path,
    files: usize,
    count: usize,
) -> Result<(), Failure> {
    site::push(installation, folder, REPOSITORY, files, count).await?;
    merges::open(installation, Pull::of(REPOSITORY, count), OPENED_AT_ONCE).await?;
    let client = client()?;
    println!("\n| {title:10} | open | all pages, ms | slowest page, ms | mergeable |");
    println!("|------------|-----:|--------------:|-----------------:|----------:|");
    for (name, is_pushed) in [("opened", false), ("pushed", true), ("again", false)] {
        if is_pushed {
            let path = repository_path(REPOSITORY, "/contents/newer.txt");
            let change = json!({"message": "Push", "content": "eA==", "branch": MAIN});
            created(installation.request(&client, Method::PUT, &path).json(&change)).await?;
        }
        let list = list(installation, &client).await?;
        let (all, slowest) = (milliseconds(list.elapsed, 1), milliseconds(list.slowest, 1));
        println!("| {name:10} | {:>4} | {all:>13.0} | {slowest:>16.0} | {:>9} |", list.pulls, list.mergeable);
        if list.pulls != count || list.mergeable != count {
            return Err(format!("{} of {count} are listed, {} can be merged", list.pulls, list.mergeable).into());
        }
    }
    Ok(())
}
