//! An installation's processes and store folders, as the kernel shows them; and pseudorandom data.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Cluster, Role};

/// Time limit for git processes to end while their git-svc is paused.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) id: u32,
    pub(crate) name: String,
}

pub(crate) fn git_below(root: u32) -> Vec<Running> {
    let mut parents = HashMap::new();
    let mut names = HashMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The second field is the name in parentheses, which can contain anything.
        let Some((name, rest)) = stat.rsplit_once(')') else { continue };
        let mut fields = rest.split_whitespace();
        let (Some(state), Some(parent)) = (fields.next(), fields.next().and_then(|id| id.parse::<u32>().ok())) else {
            continue;
        };
        parents.insert(id, parent);
        if state != "Z" && name.split_once('(').is_some_and(|(_, name)| name.starts_with("git")) {
            names.insert(id, entry.path());
        }
    }
    let is_below = |mut id: u32| {
        while let Some(parent) = parents.get(&id) {
            if *parent == root {
                return true;
            }
            id = *parent;
        }
        false
    };
    let running = names.into_iter().filter(|(id, _)| is_below(*id));
    running.filter_map(|(id, path)| Some(Running { id, name: subcommand(&path)? })).collect()
}

/// The subcommand in the command line of a git process: the first word that is not an option of
/// git.
fn subcommand(process: &Path) -> Option<String> {
    let line = std::fs::read(process.join("cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).skip(1);
    while let Some(word) = words.next() {
        match word.as_ref() {
            "-c" | "-C" => drop(words.next()),
            option if option.starts_with('-') => {}
            "" => return None,
            name => return Some(name.to_owned()),
        }
    }
    None
}

pub(crate) fn working_in(folder: &Path) -> usize {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let folders = folders.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
    folders.filter(|place: &PathBuf| place.starts_with(folder)).count()
}

pub(crate) async fn wait_for_no_process_in(folder: &Path, timeout: Duration) {
    let start = Instant::now();
    while working_in(folder) > 0 {
        assert!(
            start.elapsed() < timeout,
            "{} processes are still running in {}",
            working_in(folder),
            folder.display()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("tmp_objdir") || name.starts_with("incoming-") {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// Runs `git fsck` on every repository of the store with this number and returns their count.
/// Pauses git-svc and waits for its git processes first: fsck would report packs as missing that
/// maintenance replaces meanwhile.
pub(crate) async fn fsck_all(cluster: &Cluster, number: usize, git: &super::Git) -> usize {
    let store = if number == 0 { cluster.store() } else { cluster.store_folder(number) };
    let below = |folders: Vec<PathBuf>| -> Vec<PathBuf> {
        let lists = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
        lists.map(|entry| entry.path()).collect()
    };
    cluster.signal_replica(Role::Git, number, Signal::STOP);
    wait_for_no_process_in(&store, GIT_TIMEOUT).await;
    let repositories = below(below(below(vec![store.join("repos")])));
    for path in &repositories {
        let place = path.display().to_string();
        git.run("", &["-c", "safe.directory=*", "--git-dir", &place, "fsck", "--strict", "--full"]).await;
    }
    cluster.signal_replica(Role::Git, number, Signal::CONT);
    repositories.len()
}

/// Bytes that zlib cannot compress: a random block, repeated at a distance beyond its window of 32
/// KiB.
pub(crate) fn noise(count: usize, seed: u64) -> Vec<u8> {
    const BLOCK_BYTES: usize = 1 << 18;
    let mut random = Random(seed);
    let block: Vec<u8> = (0..BLOCK_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let mut bytes = block.repeat(count.div_ceil(BLOCK_BYTES));
    bytes.truncate(count);
    bytes
}

/// A pseudorandom number generator (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Prints its seed. `FERRITE_TEST_SEED` sets it.
    pub(crate) fn seeded() -> Self {
        let given =
            std::env::vars().find(|(name, _)| name == "FERRITE_TEST_SEED").and_then(|(_, seed)| seed.parse().ok());
        let seed = given.unwrap_or_else(rand::random);
        eprintln!("FERRITE_TEST_SEED={seed}");
        Self(seed)
    }
}

pub(crate) fn running_in(store: &Path, repository: i64) -> usize {
    let place = format!("{repository}.git");
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let folders = folders.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
    folders.filter(|folder| folder.starts_with(store) && folder.iter().any(|part| *part == *place)).count()
}
