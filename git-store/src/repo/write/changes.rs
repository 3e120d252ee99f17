//! The paths that a commit changes, and the message that names them.

use crate::types::path::TreePath;

/// A message names the files of each kind up to this number, and counts them beyond it.
const MAX_NAMED: usize = 20;

/// The changed paths of a commit.
#[derive(Debug, Default)]
pub(super) struct Changes {
    added: Vec<TreePath>,
    updated: Vec<TreePath>,
    deleted: Vec<TreePath>,
}

impl Changes {
    pub(super) fn add(&mut self, path: &TreePath) {
        self.added.push(path.clone());
    }

    /// Records a file that is replaced or that moves here.
    pub(super) fn update(&mut self, path: &TreePath) {
        self.updated.push(path.clone());
    }

    pub(super) fn delete(&mut self, path: &TreePath) {
        self.deleted.push(path.clone());
    }

    pub(super) fn is_update(&self) -> bool {
        !self.updated.is_empty() || !self.deleted.is_empty()
    }

    /// Returns the message of a commit that has none of its own, with a line for each kind of change.
    pub(super) fn message(&self) -> String {
        let kinds = [("Add", &self.added), ("Update", &self.updated), ("Delete", &self.deleted)];
        let lines = kinds.into_iter().filter(|(_, paths)| !paths.is_empty()).map(|(verb, paths)| {
            if paths.len() > MAX_NAMED {
                return format!("{verb} {} files", paths.len());
            }
            let names: Vec<_> = paths.iter().map(|path| String::from_utf8_lossy(path.as_bytes())).collect();
            format!("{verb} {}", names.join(", "))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(count: usize) -> Vec<TreePath> {
        (0..count).map(|number| TreePath::strict(format!("dir/{number}").as_bytes()).unwrap()).collect()
    }

    #[test]
    fn a_message_names_a_few_files_and_counts_many() {
        let changes = Changes { added: paths(2), updated: paths(21), deleted: paths(1) };
        assert_eq!(changes.message(), "Add dir/0, dir/1\nUpdate 21 files\nDelete dir/0");
        assert!(changes.is_update());
        let changes = Changes { added: paths(1), ..Changes::default() };
        assert_eq!((changes.message().as_str(), changes.is_update()), ("Add dir/0", false));
    }
}
