//! Smaller repositories, each for one question.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::history::{Dice, MAIN, cached};

/// Branches of one folder of [`many_refs`].
const TEAM: u32 = 5_000;

/// One commit with so many small files, 40 in a folder.
pub(crate) fn tree(cache: &Path, files: u32) -> Result<PathBuf, Failure> {
    cached(cache, &format!("tree-{files}"), |import| {
        import.commit(MAIN, 1, &[])?;
        for number in 0..files {
            import.file(&path(number), format!("file {number}\n").repeat(12).as_bytes())?;
        }
        Ok(())
    })
}

/// The path of a file of [`tree`].
pub(crate) fn path(number: u32) -> String {
    format!("area-{}/part-{}/file-{number}.txt", number / 2_000, number / 40 % 50)
}

/// A short history with so many branches.
pub(crate) fn many_refs(cache: &Path, refs: u32) -> Result<PathBuf, Failure> {
    const COMMITS: u32 = 500;
    cached(cache, &format!("refs-{refs}"), |import| {
        for mark in 1..=COMMITS {
            let parents = if mark == 1 { Vec::new() } else { vec![format!(":{}", mark - 1)] };
            import.commit(MAIN, mark.into(), &parents)?;
            import.file(&format!("file-{}.txt", mark % 50), format!("line {mark}\n").repeat(20).as_bytes())?;
        }
        for number in 0..refs.saturating_sub(1) {
            let (team, mark) = (number / TEAM, 1 + number % COMMITS);
            writeln!(import.stream()?, "reset refs/heads/team-{team}/branch-{number}\nfrom :{mark}\n")?;
        }
        Ok(())
    })
}

/// One commit of so many MiB that no compression makes smaller.
pub(crate) fn heavy(cache: &Path, mib: u32) -> Result<PathBuf, Failure> {
    const FILE_MIB: u32 = 2;
    cached(cache, &format!("heavy-{mib}"), |import| {
        let mut dice = Dice::new(7);
        import.commit(MAIN, 1, &[])?;
        for number in 0..mib.div_ceil(FILE_MIB) {
            import.file(&format!("data-{number}.bin"), &dice.bytes((FILE_MIB as usize) << 20))?;
        }
        Ok(())
    })
}
