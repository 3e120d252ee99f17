//! Names of templates: how they are compared, and how an unknown one is refused.

use crate::types::error::GitError;

/// A template that does not exist; the name comes back cut, since it came from outside.
pub(super) fn unknown(field: &str, name: &str) -> GitError {
    let shown: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
    GitError::invalid(field, "unknown", format!("there is no template `{shown}`"))
}

/// A name as it is compared: letters and digits in lower case, and the signs that tell `C` from `C++`.
pub(super) fn key(name: &str) -> String {
    let kept = name.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '+' | '#' | '.'));
    kept.flat_map(char::to_lowercase).collect()
}
