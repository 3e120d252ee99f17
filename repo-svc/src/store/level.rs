use ferrite_proto::Permission;

use crate::model::level_named;

/// Decodes a level of a collaborator, which is stored as a word. Returns [`Permission::None`] for `None` and unknown words.
pub(super) fn level_from_str(word: Option<&str>) -> Permission {
    word.and_then(level_named).unwrap_or(Permission::None)
}

/// Decodes a level of a team, which is stored as a number. Returns [`Permission::None`] for `None` and unknown numbers.
pub(super) fn level_from_number(number: Option<i64>) -> Permission {
    match number {
        Some(1) => Permission::Read,
        Some(2) => Permission::Write,
        Some(3) => Permission::Admin,
        Some(4) => Permission::Owner,
        _ => Permission::None,
    }
}

/// Encodes a level that a team may have; decoded by [`level_from_number`].
pub(super) fn level_number(permission: Permission) -> i64 {
    match permission {
        Permission::None | Permission::Read => 1,
        Permission::Write => 2,
        Permission::Admin => 3,
        Permission::Owner => 4,
    }
}
