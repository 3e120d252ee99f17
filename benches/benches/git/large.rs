//! A realistic history: text files of several KB that change by a few lines, binary files, folders
//! several levels deep, merged topic branches, tags.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use ferrite_benches::Failure;
use ferrite_benches::history::{Import, MAIN, Random, cached};

/// One in this many files is binary.
const FILES_PER_BINARY: u64 = 40;

const WORDS: &str = "account archive async await batch block branch buffer bytes cache call change channel check child client \
    close commit config connect content copy count cursor data deadline decode default delete delta depth digest disk done draft edge \
    empty encode entry error event exact expect fetch field file filter find flush folder format frame graph group guard handle hash \
    head header hook index inner input iter join journal key label lease length level limit line link list load lock loop map mark \
    match merge message method mode name next node object offset open option order output owner pack page parent parse part path \
    pause peer pipe place plan policy pool prefix probe process proof push query queue range rate read reason record ref region reject \
    relay remote reply report request reset result retry return role route row rule run scan scope seal search seat section seek self \
    send server session settle shard side signal size slot socket sort source span spawn split stage start state status step store \
    stream string sum sweep switch table tag target task team text thread ticket time token total trace track tree trust turn type \
    unit update upload user value verify version view wait walk watch window work write zone";

struct Files {
    random: Random,
    words: Vec<&'static str>,
    contents: Vec<Vec<String>>,
    binary: Vec<Vec<u8>>,
    count: usize,
}

impl Files {
    fn path(number: u64) -> String {
        let (area, module, part) = (number % 11, number / 11 % 23, number / 253 % 7);
        let kind = if number % FILES_PER_BINARY == 7 { "bin" } else { "rs" };
        match number % 5 {
            0 => format!("area-{area}/module-{module}/file-{number}.{kind}"),
            1 | 2 => format!("area-{area}/module-{module}/part-{part}/file-{number}.{kind}"),
            _ => format!("area-{area}/module-{module}/part-{part}/src/inner/file-{number}.{kind}"),
        }
    }

    fn line(&mut self) -> String {
        let words = 3 + self.random.below(9);
        let mut line = "    ".repeat(self.random.index(4));
        for _ in 0..words {
            let word = self.random.number();
            line.push_str(self.words[(word % self.words.len() as u64) as usize]);
            match word >> 60 {
                0 => line.push_str(&format!("_{:x}", word >> 40 & 0xffff)),
                1 => line.push_str("();"),
                _ => {}
            }
            line.push(' ');
        }
        line.push('\n');
        line
    }

    fn add(&mut self) -> u64 {
        let number = self.count as u64;
        self.count += 1;
        let (mut lines, mut bytes) = (Vec::new(), Vec::new());
        if number % FILES_PER_BINARY == 7 {
            let length = 50_000 + self.random.index(800_000);
            bytes = self.random.bytes(length);
        } else {
            // Most files are short, a few are long.
            let longest = [60, 120, 300, 900][self.random.index(4)];
            lines = (0..20 + self.random.below(longest)).map(|_| self.line()).collect();
        }
        self.contents.push(lines);
        self.binary.push(bytes);
        number
    }

    /// Changes a few lines of a file, or a few bytes of a binary one.
    fn change(&mut self, number: u64) {
        let index = number as usize;
        if !self.binary[index].is_empty() {
            let at = self.random.index(self.binary[index].len() - 64);
            let patch = self.random.bytes(64);
            self.binary[index][at..at + 64].copy_from_slice(&patch);
            return;
        }
        for _ in 0..1 + self.random.below(3) {
            let at = self.random.index(self.contents[index].len());
            let line = self.line();
            if self.random.below(3) == 0 {
                self.contents[index].insert(at, line);
            } else {
                self.contents[index][at] = line;
            }
        }
    }

    fn write(&self, import: &mut Import, number: u64) -> Result<(), Failure> {
        let index = number as usize;
        if self.binary[index].is_empty() {
            import.file(&Self::path(number), self.contents[index].concat().as_bytes())
        } else {
            import.file(&Self::path(number), &self.binary[index])
        }
    }
}

pub(crate) fn large(cache: &Path, commits: u64, files: u64) -> Result<PathBuf, Failure> {
    cached(cache, &format!("history-{commits}-{files}"), |import| {
        let mut all = Files {
            random: Random::new(42),
            words: WORDS.split_whitespace().collect(),
            contents: Vec::new(),
            binary: Vec::new(),
            count: 0,
        };
        import.commit(MAIN, 1, &[])?;
        for _ in 0..(files / 4).max(1) {
            let number = all.add();
            all.write(import, number)?;
        }
        grow(import, &mut all, commits, files)
    })
}

/// Writes all commits after the first one.
fn grow(import: &mut Import, all: &mut Files, commits: u64, files: u64) -> Result<(), Failure> {
    let (mut tip, mut topic) = (1, Topic::default());
    for mark in 2..=commits {
        let place = mark % 40;
        let branch = if (20..28).contains(&place) { format!("topic/{}", mark / 40) } else { MAIN.to_owned() };
        let merges = place == 33 && topic.tip > 0;
        let mut parents = vec![format!(":{}", if branch == MAIN || topic.tip == 0 { tip } else { topic.tip })];
        if merges {
            parents.push(format!(":{}", topic.tip));
        }
        import.commit(&branch, mark, &parents)?;
        let mut changed = if merges { std::mem::take(&mut topic.changed) } else { BTreeSet::new() };
        // All files exist after four fifths of the history.
        let wanted = files / 4 + (files - files / 4) * mark * 5 / (commits * 4).max(1);
        while (all.count as u64) < wanted.min(files) {
            changed.insert(all.add());
        }
        for _ in 0..1 + all.random.below(4) {
            let number = all.random.below(all.count as u64);
            // Large files change rarely.
            if number % FILES_PER_BINARY != 7 || all.random.below(50) == 0 {
                all.change(number);
                changed.insert(number);
            }
        }
        for number in &changed {
            all.write(import, *number)?;
        }
        if branch == MAIN {
            tip = mark;
            topic.tip = if merges { 0 } else { topic.tip };
        } else {
            topic.tip = mark;
            topic.changed.extend(changed);
        }
        name(import, mark, commits)?;
    }
    Ok(())
}

#[derive(Default)]
struct Topic {
    tip: u64,
    changed: BTreeSet<u64>,
}

/// Writes tags and deletes old branches.
fn name(import: &mut Import, mark: u64, commits: u64) -> Result<(), Failure> {
    let time = 1_500_000_000 + mark * 300;
    let out = import.stream()?;
    if mark.is_multiple_of(500) {
        writeln!(out, "tag v{}\nfrom :{mark}\ntagger Committer <committer@example.com> {time} +0100", mark / 500)?;
        writeln!(out, "data 8\nRelease\n")?;
    }
    // Older branches are deleted after their merge.
    if mark % 40 == 39 && mark + 1_600 < commits {
        writeln!(out, "reset refs/heads/topic/{}\nfrom {}\n", mark / 40, "0".repeat(40))?;
    }
    Ok(())
}
