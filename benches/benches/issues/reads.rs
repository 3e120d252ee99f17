//! Measured reads, and the table of their times.

use std::time::{Duration, Instant};

use ferrite_benches::{Failure, percentile_ms};

use crate::seed::{RARE_WORD, WORD_OF_ALL, WORD_OF_PERCENT, recent};
use crate::site::{LABELS, Site, label, member, repository};

/// Requests before the measured ones.
const WARMUP_CALLS: u32 = 20;
/// Highest allowed ratio of a read's times in a large and in a small repository.
const BAR: f64 = 2.0;
/// Issues per page.
const ISSUE_PAGE: i64 = 10;
const COMMENT_PAGE: i64 = 50;
const TOTAL_COUNT: &str = "x-total-count";
/// Distance between the numbers of issues that are read one after the other, modulo the number of
/// issues.
const STRIDE: i64 = 7_919;

#[derive(Clone, Copy, Debug)]
enum Page {
    First,
    Middle,
    Last,
}

/// A measured request.
#[derive(Clone, Debug)]
enum Read {
    /// A different issue each time.
    Issue,
    /// Comments of a different issue each time.
    Comments,
    /// A list: its path with a query, items per page, and the page.
    List(String, i64, Page),
}

/// All reads with their names.
fn all(size: i64) -> Vec<(&'static str, Read)> {
    let issues = |query: &str, page| Read::List(format!("/issues?{query}"), ISSUE_PAGE, page);
    let comments = |page| Read::List(format!("/issues/comments?limit={COMMENT_PAGE}"), COMMENT_PAGE, page);
    let (half, percent, user) = (label(0), label(LABELS - 1), member(3));
    let labels = |name: &str, page| issues(&format!("labels={name}"), page);
    let search = |word: &str| issues(&format!("state=all&q={word}"), Page::First);
    let since = chrono::DateTime::from_timestamp(recent(size), 0).unwrap_or_default().format("%Y-%m-%dT%H:%M:%SZ");
    vec![
        ("one issue", Read::Issue),
        ("list, first page", issues("state=open", Page::First)),
        ("list, middle page", issues("state=open", Page::Middle)),
        ("list, last page", issues("state=open", Page::Last)),
        ("all states, middle page", issues("state=all", Page::Middle)),
        ("closed, first page", issues("state=closed", Page::First)),
        ("closed, last page", issues("state=closed", Page::Last)),
        ("label (half), first page", labels(&half, Page::First)),
        ("label (half), last page", labels(&half, Page::Last)),
        ("label (1 %), first page", labels(&percent, Page::First)),
        ("label (1 %), last page", labels(&percent, Page::Last)),
        ("assignee, first page", issues(&format!("assignee={user}"), Page::First)),
        ("assignee, last page", issues(&format!("assignee={user}"), Page::Last)),
        ("label (half), assignee", issues(&format!("labels={half}&assignee={user}"), Page::First)),
        ("sort=updated, first page", issues("sort=updated", Page::First)),
        ("since, 20 issues", issues(&format!("state=all&since={since}"), Page::First)),
        ("q, in 20 issues", search(RARE_WORD)),
        ("q, in 1 %", search(WORD_OF_PERCENT)),
        ("q, in all", search(WORD_OF_ALL)),
        ("comments of an issue", Read::Comments),
        ("all comments, first page", comments(Page::First)),
        ("all comments, last page", comments(Page::Last)),
    ]
}

impl Read {
    /// Path of a list with its page; empty for other reads, whose path has a number.
    async fn path(&self, site: &Site) -> Result<String, Failure> {
        let Self::List(list, size, page) = self else { return Ok(String::new()) };
        let path = |page: i64| repository(&format!("{list}&page={page}"));
        if matches!(page, Page::First) {
            return Ok(path(1));
        }
        let (headers, _) = site.get(&path(1)).await?;
        let total = headers.get(TOTAL_COUNT).and_then(|value| value.to_str().ok()?.parse::<i64>().ok());
        let last = (total.ok_or_else(|| format!("{list} has no count"))? - 1) / size + 1;
        Ok(path(if matches!(page, Page::Last) { last } else { last / 2 }))
    }

    /// Sends the request with this number; `path` is the result of [`Read::path`].
    async fn make(&self, site: &Site, path: &str, number: u32) -> Result<Duration, Failure> {
        let issue = i64::from(number) * STRIDE % site.size + 1;
        let path = match self {
            Self::Issue => repository(&format!("/issues/{issue}")),
            Self::Comments => repository(&format!("/issues/{issue}/comments")),
            Self::List(..) => path.to_owned(),
        };
        let begin = Instant::now();
        let (_, body) = site.get(&path).await?;
        let time = begin.elapsed();
        if body.as_ref() == b"[]" { Err(format!("{path} is empty").into()) } else { Ok(time) }
    }
}

/// Prints the table of reads. The installations alternate, so that other load on the machine
/// affects all of them.
pub(crate) async fn measure(database: &str, sites: &[Site], calls: u32) -> Result<(), Failure> {
    head(sites);
    for (place, (name, _)) in all(0).into_iter().enumerate() {
        let mut reads = Vec::new();
        for site in sites {
            let read = all(site.size).swap_remove(place).1;
            let path = read.path(site).await?;
            reads.push((site, read, path, Vec::new()));
        }
        for number in 0..calls + WARMUP_CALLS.min(calls) {
            for (site, read, path, times) in &mut reads {
                times.push(read.make(site, path, number).await?);
            }
        }
        let times = reads.into_iter().map(|(_, _, _, times)| times.into_iter().skip(WARMUP_CALLS.min(calls) as usize));
        row(database, name, &times.map(|times| Summary::of(times.collect())).collect::<Vec<_>>());
    }
    Ok(())
}

/// Times of one read, in milliseconds.
struct Summary {
    median: f64,
    p95: f64,
}

impl Summary {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self { median: percentile_ms(&times, 50), p95: percentile_ms(&times, 95) }
    }
}

fn head(sites: &[Site]) {
    let columns = |cell: &dyn Fn(&Site) -> String| sites.iter().map(cell).collect::<String>();
    let sizes = columns(&|site| format!(" {:>9} | {:>8} |", site.size, "p95"));
    println!("\n| {:10} | {:26} |{sizes} {:>5} |      |", "database", "median, ms", "ratio");
    println!(
        "|------------|----------------------------|{}------:|------|",
        columns(&|_| "----------:|---------:|".into())
    );
}

fn row(database: &str, name: &str, times: &[Summary]) {
    let cells: String = times.iter().map(|times| format!(" {:>9.2} | {:>8.2} |", times.median, times.p95)).collect();
    let ratio = match times {
        [first, .., last] => last.median / first.median,
        _ => 1.0,
    };
    let mark = if ratio > BAR { "over" } else { "" };
    println!("| {database:10} | {name:26} |{cells} {ratio:>5.2} | {mark:4} |");
}
