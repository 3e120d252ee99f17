//! The bars, and whether a measurement meets them.

use ferrite_benches::percentile_ms;

use crate::plain::{Baseline, Plain};
use crate::record::{Kind, Requests};
use crate::watch::MinuteSamples;

const MAX_PACKS: usize = 50;
const MAX_LOOSE_OBJECTS: usize = 3_000;
/// Highest allowed ratio of clone and archive times in the last minute to plain git.
const MAX_OF_PLAIN: f64 = 3.0;
const MAX_READ_P99_MS: f64 = 100.0;
/// Highest allowed ratio of write times in the last minute to the first one.
const MAX_OF_FIRST_TIME: f64 = 1.5;
/// Lowest allowed ratio of clones and archives in the last minute to the first one.
const MIN_OF_FIRST_RATE: f64 = 0.5;
/// Highest allowed ratio of memory in the last minute to the third one.
const MAX_OF_THIRD_MEMORY: f64 = 1.2;

fn line(what: &str, figure: &str, bar: &str, holds: bool) {
    println!("| {what} | {figure} | {bar} | {} |", if holds { "ok" } else { "MISSED" });
}

fn at(requests: Option<&Requests>, percent: usize) -> f64 {
    requests.map_or(0.0, |requests| percentile_ms(&requests.times, percent))
}

fn against_plain(kind: Kind, last: &MinuteSamples, plain: Plain) {
    let ours = at(last.requests.get(&kind), 50);
    let bar = format!("{MAX_OF_PLAIN}x");
    let all = [("in the same load", plain.in_load), ("as many at once", plain.at_once), ("alone", plain.alone)];
    for (how, theirs) in all {
        let ratio = ours / theirs;
        let figure = format!("{ours:.0} ms to {theirs:.0} ms, {ratio:.2}x");
        // A minute without any misses the bar.
        let holds = ours > 0.0 && ratio <= MAX_OF_PLAIN;
        line(&format!("{}, p50 of the last minute to plain git's, {how}", kind.name()), &figure, &bar, holds);
    }
}

fn against_first(kind: Kind, first: &MinuteSamples, last: &MinuteSamples) {
    for percent in [50, 95] {
        let (before, after) = (at(first.requests.get(&kind), percent), at(last.requests.get(&kind), percent));
        let ratio = after / before;
        let figure = format!("{before:.1} to {after:.1} ms, {ratio:.2}x");
        let what = format!("{}, p{percent} of the first minute to the last", kind.name());
        line(&what, &figure, &format!("{MAX_OF_FIRST_TIME}x"), after > 0.0 && ratio <= MAX_OF_FIRST_TIME);
    }
}

/// Compares numbers of operations: directly, and scaled by the times of plain git for the initial
/// and the final repository, so that the growth of a repository is taken into account.
fn rate(kind: Kind, first: &MinuteSamples, last: &MinuteSamples, plain: Plain) {
    let count = |samples: &MinuteSamples| samples.requests.get(&kind).map_or(0, |requests| requests.times.len());
    let (before, after) = (count(first), count(last));
    let (ratio, growth) = (after as f64 / before as f64, plain.at_once / plain.before);
    let (what, bar) =
        (format!("{}, number in the first minute to the last", kind.name()), format!("at least {MIN_OF_FIRST_RATE}x"));
    line(&what, &format!("{before} to {after}, {ratio:.2}x"), &bar, ratio >= MIN_OF_FIRST_RATE);
    let figure =
        format!("{ratio:.2}x, plain git {:.0} to {:.0} ms, {:.2}x", plain.before, plain.at_once, ratio * growth);
    line(&format!("{what}, times the growth of plain git's time"), &figure, &bar, ratio * growth >= MIN_OF_FIRST_RATE);
}

/// Prints each bar with its figure, and whether it is met.
pub(crate) fn print(minutes: &[MinuteSamples], baseline: &Baseline, failed: usize, lost: usize) {
    let (Some(first), Some(last)) = (minutes.first(), minutes.last()) else { return };
    let stores = || minutes.iter().flat_map(|minute| minute.stores.values());
    let packs = stores().map(|store| store.packs).max().unwrap_or(0);
    let loose = stores().map(|store| store.loose).max().unwrap_or(0);
    println!("\n| bar | figure | bound | |");
    println!("|---|---|---|---|");
    line("packs in one repository, most", &packs.to_string(), &MAX_PACKS.to_string(), packs <= MAX_PACKS);
    let bound = MAX_LOOSE_OBJECTS.to_string();
    line("loose objects in one repository, most", &loose.to_string(), &bound, loose <= MAX_LOOSE_OBJECTS);
    against_plain(Kind::Clone, last, baseline.clone);
    against_plain(Kind::Archive, last, baseline.archive);
    let read = at(last.requests.get(&Kind::Read), 99);
    let bound = format!("{MAX_READ_P99_MS:.0} ms");
    line("small reads, p99 of the last minute", &format!("{read:.1} ms"), &bound, read < MAX_READ_P99_MS);
    if minutes.len() > 1 {
        [Kind::Put, Kind::Push].into_iter().for_each(|kind| against_first(kind, first, last));
        rate(Kind::Clone, first, last, baseline.clone);
        rate(Kind::Archive, first, last, baseline.archive);
    }
    line("failed requests", &failed.to_string(), "0", failed == 0);
    line("acknowledged commits lost, repositories damaged", &lost.to_string(), "0", lost == 0);
    if let [_, _, third, ..] = minutes {
        let (before, after) = (third.memory_mib(), last.memory_mib());
        let figure = format!("{before:.0} to {after:.0} MiB, {:.2}x", after / before);
        let what = "memory of all processes, mean of the third minute to the last";
        line(what, &figure, &format!("{MAX_OF_THIRD_MEMORY}x"), after <= before * MAX_OF_THIRD_MEMORY);
    }
}
