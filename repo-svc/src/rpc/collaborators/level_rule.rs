use ferrite_kit::auth::AuthError;
use ferrite_proto::Permission;

/// The field that violations about the user name.
pub(super) const USER_FIELD: &str = "collaborator";

/// Checks that the caller, whose level is `own`, gives no higher level than that, and changes or removes no collaborator who has
/// one.
///
/// # Errors
/// [`AuthError::PermissionRequired`] with the level that the caller lacks.
pub(super) fn require_at_most(own: Permission, levels: [Permission; 2]) -> Result<(), AuthError> {
    match levels.into_iter().max() {
        Some(needed) if needed > own => Err(AuthError::PermissionRequired { needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_gives_and_takes_levels_up_to_its_own() {
        use Permission::{Admin, None, Owner, Read, Write};
        for own in [None, Read, Write, Admin, Owner] {
            for current in [None, Read, Write, Admin, Owner] {
                for wanted in [None, Read, Write, Admin, Owner] {
                    let may = require_at_most(own, [current, wanted]).is_ok();
                    assert_eq!(may, current <= own && wanted <= own, "{own} {current} {wanted}");
                }
            }
        }
    }
}
