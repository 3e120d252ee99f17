//! What a file has on each side, and which kind of conflict that or git's words mean.

use git2::Oid;

/// What a commit has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSide {
    /// The mode.
    pub mode: u32,
    /// The blob or the commit of the submodule. If a file was renamed and merged first, the
    /// repository may not have it.
    pub id: Oid,
}

impl FileSide {
    pub(super) fn is_submodule(self) -> bool {
        self.mode == 0o160_000
    }

    pub(super) fn is_regular(self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

/// Why a file conflicts. Of several reasons, the last in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConflictKind {
    /// Both sides changed the same lines.
    Content,
    /// Both sides added a file at this path.
    AddAdd,
    /// Both sides changed a file that is not text.
    Binary,
    /// The file has another mode or type on each side.
    Mode,
    /// One side changed or renamed the file, the other deleted it.
    ModifyDelete,
    /// The other side renamed the folder that the file was added to, or to several places.
    DirectoryRename,
    /// Both sides renamed the file, or other files to its path.
    RenameRename,
    /// Both sides moved the submodule to another commit.
    Submodule,
    /// One side has a file at this path, the other a folder.
    DirectoryFile,
}

impl ConflictKind {
    /// The name in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::AddAdd => "add_add",
            Self::Binary => "binary",
            Self::Mode => "mode",
            Self::ModifyDelete => "modify_delete",
            Self::DirectoryRename => "directory_rename",
            Self::RenameRename => "rename_rename",
            Self::Submodule => "submodule",
            Self::DirectoryFile => "directory_file",
        }
    }

    /// Returns the kind of a message of `merge-tree`, by its stable type (git's `merge-ort.c`);
    /// `None` if only the sides tell.
    pub(super) fn of_message(kind: &[u8]) -> Option<Self> {
        let words = std::str::from_utf8(kind).ok()?;
        let starts = |start: &str| words.starts_with(start);
        match words {
            "CONFLICT (file/directory)" => Some(Self::DirectoryFile),
            "CONFLICT (rename/rename)" | "CONFLICT (rename involved in collision)" => Some(Self::RenameRename),
            "CONFLICT (rename/delete)" | "CONFLICT (modify/delete)" => Some(Self::ModifyDelete),
            "CONFLICT (distinct modes)" => Some(Self::Mode),
            "CONFLICT (binary)" => Some(Self::Binary),
            _ if starts("CONFLICT (submodule") => Some(Self::Submodule),
            _ if words.contains("directory rename") => Some(Self::DirectoryRename),
            _ => None,
        }
    }

    /// Returns the kind by what the three commits have at the path.
    pub(super) fn of_sides(base: Option<FileSide>, ours: Option<FileSide>, theirs: Option<FileSide>) -> Self {
        if [base, ours, theirs].into_iter().flatten().any(FileSide::is_submodule) {
            return Self::Submodule;
        }
        match (base, ours, theirs) {
            (_, Some(ours), Some(theirs)) if ours.id == theirs.id && ours.mode != theirs.mode => Self::Mode,
            (None, Some(_), Some(_)) => Self::AddAdd,
            (Some(_), Some(_), Some(_)) => Self::Content,
            _ => Self::ModifyDelete,
        }
    }
}
