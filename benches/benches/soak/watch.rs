//! Samples of the installation, one per second: packs and loose objects of each repository, memory,
//! and CPU time by process.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::memory::{self, Sample};
use ferrite_benches::processes::Processes;

use crate::record::{self, Minute, Record};
use crate::site::Site;

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Repositories per sample. If there are more, they take turns.
const MAX_SAMPLED_REPOSITORIES: usize = 20;
/// Repositories per table: those with the most packs and loose objects.
const MAX_SHOWN_REPOSITORIES: usize = 4;

/// Files of one repository: the highest numbers of a minute, otherwise the last values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Store {
    pub(crate) packs: usize,
    pub(crate) loose: usize,
    bytes: u64,
    has_index: bool,
    has_bitmap: bool,
    has_graph: bool,
}

impl Store {
    fn of(repository: &Path) -> Self {
        let objects = repository.join("objects");
        let mut store = Self { has_graph: objects.join("info/commit-graph").exists(), ..Self::default() };
        for entry in std::fs::read_dir(objects.join("pack")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_pack = name.ends_with(".pack") && name.starts_with("pack-");
            store.packs += usize::from(is_pack);
            store.has_index |= name == "multi-pack-index";
            store.has_bitmap |= name.ends_with(".bitmap");
            store.bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
        for first_byte in 0..=u8::MAX {
            store.loose += std::fs::read_dir(objects.join(format!("{first_byte:02x}"))).map_or(0, Iterator::count);
        }
        store
    }

    fn after(self, last: Self) -> Self {
        Self { packs: self.packs.max(last.packs), loose: self.loose.max(last.loose), ..last }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MinuteSamples {
    pub(crate) requests: Minute,
    pub(crate) stores: BTreeMap<usize, Store>,
    memory: Vec<Sample>,
    cpu: Vec<(String, Duration)>,
}

impl MinuteSamples {
    /// Mean memory of all processes, in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        let sum: u64 = self.memory.iter().flat_map(BTreeMap::values).sum();
        sum as f64 / self.memory.len().max(1) as f64
    }

    fn print(&self, site: &Site, title: &str) {
        println!("\n### {title}");
        record::print(&self.requests);
        let mut stores: Vec<_> = self.stores.iter().collect();
        stores.sort_by_key(|(_, store)| std::cmp::Reverse((store.packs, store.loose)));
        println!("\n| repository | packs | loose objects | MiB in packs | index of packs | bitmap | commit-graph |");
        println!("|---|---:|---:|---:|---|---|---|");
        for (number, store) in stores.iter().take(MAX_SHOWN_REPOSITORIES) {
            let mib = store.bytes as f64 / f64::from(1 << 20);
            let yes = |is_there| if is_there { "yes" } else { "no" };
            let name = &site.repositories[**number].name;
            let (index, bitmap, graph) = (yes(store.has_index), yes(store.has_bitmap), yes(store.has_graph));
            println!("| {name} | {} | {} | {mib:.1} | {index} | {bitmap} | {graph} |", store.packs, store.loose);
        }
        if stores.len() > MAX_SHOWN_REPOSITORIES {
            let loose = self.stores.values().map(|store| store.loose).max().unwrap_or(0);
            println!("the most loose objects of all {} repositories: {loose}", stores.len());
        }
        self.print_processes();
    }

    fn print_processes(&self) {
        let mut names: Vec<_> = self.memory.iter().flat_map(BTreeMap::keys).collect();
        names.sort_unstable();
        names.dedup();
        let mean = |name: &String| {
            let sum: u64 = self.memory.iter().filter_map(|sample| sample.get(name)).sum();
            sum as f64 / self.memory.len().max(1) as f64
        };
        let parts: Vec<_> = names.into_iter().map(|name| format!("{name} {:.0}", mean(name))).collect();
        let peak = self.memory.iter().map(|sample| sample.values().sum::<u64>()).max().unwrap_or(0);
        println!("\nmemory, mean MiB: {:.0} ({}); at its peak {peak}", self.memory_mib(), parts.join(", "));
        let sum: f64 = self.cpu.iter().map(|(_, time)| time.as_secs_f64()).sum();
        let used = self.cpu.iter().filter(|(_, time)| !time.is_zero());
        let parts: Vec<_> = used.map(|(name, time)| format!("{name} {:.1}", time.as_secs_f64())).collect();
        println!("CPU, s: {sum:.1} ({})", parts.join(", "));
    }
}

fn sample(site: &Site, launcher: u32, round: usize, samples: &mut MinuteSamples) {
    let count = site.repositories.len();
    for place in 0..count.min(MAX_SAMPLED_REPOSITORIES) {
        let number = (round * MAX_SAMPLED_REPOSITORIES + place) % count;
        let (last, store) = (Store::of(&site.repositories[number].path), samples.stores.entry(number).or_default());
        *store = store.after(last);
    }
    samples.memory.push(memory::sample(launcher));
}

/// Samples until the end of the load, and prints each minute when it is over. Then lets plain git
/// take its share in the load for up to a minute. `processes` are those of the service without
/// git's.
pub(crate) async fn run(site: &Site, processes: &Processes, record: &Record) -> Result<Vec<MinuteSamples>, Failure> {
    let (span, mut minutes, mut round) = (record.span, Vec::new(), 0);
    tokio::time::sleep_until(span.begin.into()).await;
    let mut cpu_before = processes.each();
    for minute in 0..span.minutes {
        let mut samples = MinuteSamples::default();
        while Instant::now() < span.end_of(minute) {
            tokio::task::block_in_place(|| sample(site, processes.root(), round, &mut samples));
            round += 1;
            let next = (Instant::now() + SAMPLE_INTERVAL).min(span.end_of(minute));
            tokio::time::sleep_until(next.into()).await;
        }
        let cpu = processes.each();
        let since =
            cpu.iter().zip(&cpu_before).map(|((name, now), (_, before))| (name.clone(), now.saturating_sub(*before)));
        samples.cpu = since.collect();
        cpu_before = cpu;
        samples.requests = record.minute(minute as usize);
        samples.print(site, &format!("minute {}", minute + 1));
        minutes.push(samples);
    }
    site.make_copies().await?;
    tokio::time::sleep(span.minute).await;
    Ok(minutes)
}
