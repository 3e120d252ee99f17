//! The units of repositories, by which Gitea gives permissions to teams. Here a team has the same
//! permission on all of them.

use std::collections::BTreeMap;

use crate::http::error::{ApiError, FieldError};

/// Units of repositories here.
const OWN: [&str; 4] = ["repo.code", "repo.issues", "repo.releases", "repo.wiki"];
/// External trackers and wikis, which only have an address here.
const EXTERNAL: [&str; 2] = ["repo.ext_issues", "repo.ext_wiki"];
/// Units that repositories here do not have.
const ABSENT: [&str; 4] = ["repo.actions", "repo.packages", "repo.projects", "repo.pulls"];
/// More than Gitea has.
const MAX_UNITS: usize = 50;
const NO_PERMISSION: &str = "none";
const PERMISSIONS: [&str; 4] = [NO_PERMISSION, "read", "write", "admin"];

/// Returns the units that a team has a permission on.
pub(super) fn names() -> Vec<&'static str> {
    OWN.into_iter().chain(EXTERNAL).collect()
}

/// Returns the permission of a team on each unit.
pub(super) fn map(permission: &str) -> BTreeMap<String, String> {
    let shown = names().into_iter().map(|unit| (unit, permission));
    let absent = ABSENT.into_iter().map(|unit| (unit, NO_PERMISSION));
    shown.chain(absent).map(|(unit, permission)| (unit.to_owned(), permission.to_owned())).collect()
}

/// Returns the permission that a request gives a team: by name, by a list of the units that have it,
/// or as a map of units to permissions. Fails if the units of repositories here do not get the same
/// one. Other units make no difference. As in Gitea, an administrator has all units.
pub(super) fn permission(
    permission: Option<String>,
    units: Option<Vec<String>>,
    units_map: Option<BTreeMap<String, String>>,
) -> Result<Option<String>, ApiError> {
    let given = permission.filter(|word| !word.is_empty());
    let sizes =
        [("units", units.as_ref().map_or(0, Vec::len)), ("units_map", units_map.as_ref().map_or(0, BTreeMap::len))];
    if let Some((field, _)) = sizes.into_iter().find(|(_, size)| *size > MAX_UNITS) {
        return Err(ApiError::invalid_field(field, "too_long", format!("must have at most {MAX_UNITS} entries")));
    }
    if given.as_deref() == Some("admin") {
        return Ok(given);
    }
    // py-gitea sends a map without permissions if it is given none.
    let units_map = units_map.filter(|map| map.values().any(|word| word != NO_PERMISSION));
    let mut errors = Vec::new();
    if let Some(units) = units.filter(|_| units_map.is_none()) {
        errors.extend(check_names(&units));
    }
    let mapped = match units_map.map(|map| mapped(&map)) {
        Some(Ok(word)) => Some(word),
        Some(Err(error)) => {
            errors.push(error);
            None
        }
        None => None,
    };
    if let (Some(mapped), Some(given)) = (&mapped, given.as_deref().filter(|word| *word != NO_PERMISSION))
        && mapped != given
    {
        errors.push(FieldError::new("units_map", "invalid", "must agree with `permission`"));
    }
    if errors.is_empty() { Ok(mapped.or(given)) } else { Err(ApiError::invalid(errors)) }
}

fn check_names(units: &[String]) -> Option<FieldError> {
    let has_all = OWN.iter().all(|unit| units.iter().any(|given| given == unit));
    (!has_all).then(|| FieldError::new("units", "invalid", format!("must have all of {}", listed())))
}

/// Returns the permission on all units of repositories here.
fn mapped(map: &BTreeMap<String, String>) -> Result<String, FieldError> {
    let invalid = |message: String| FieldError::new("units_map", "invalid", message);
    let given = OWN.map(|unit| map.get(unit).map_or(NO_PERMISSION, String::as_str));
    if given.iter().any(|word| !PERMISSIONS.contains(word)) {
        return Err(invalid("permissions must be `none`, `read`, `write` or `admin`".to_owned()));
    }
    match given {
        [first, ..] if first != NO_PERMISSION && given.iter().all(|word| *word == first) => Ok(first.to_owned()),
        _ => Err(invalid(format!("must give the same permission on {}", listed()))),
    }
}

/// Names the units of repositories here, for messages.
fn listed() -> String {
    OWN.map(|unit| format!("`{unit}`")).join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapping(entries: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
        Some(entries.iter().map(|(unit, word)| ((*unit).to_owned(), (*word).to_owned())).collect())
    }

    fn all(word: &'static str) -> Vec<(&'static str, &'static str)> {
        OWN.into_iter().map(|unit| (unit, word)).collect()
    }

    #[test]
    fn a_team_is_shown_with_the_same_permission_on_each_unit() {
        let expected = json!({
            "repo.code": "write", "repo.issues": "write", "repo.releases": "write", "repo.wiki": "write",
            "repo.ext_issues": "write", "repo.ext_wiki": "write", "repo.actions": "none", "repo.packages": "none",
            "repo.projects": "none", "repo.pulls": "none",
        });
        assert_eq!(serde_json::to_value(map("write")).unwrap(), expected);
        assert!(names().iter().all(|unit| expected[*unit] == "write"));
    }

    #[test]
    fn units_that_get_one_permission_are_accepted() {
        let words = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let word = |word: &str| Some(word.to_owned());
        // As the Go SDK, py-gitea and Terraform send them.
        let sent = words(&["repo.code", "repo.issues", "repo.ext_issues", "repo.wiki", "repo.pulls", "repo.releases"]);
        let mut more = all("read");
        more.extend([("repo.ext_wiki", "none"), ("repo.pulls", "write"), ("repo.new", "owner")]);
        for (given, units, units_map, expected) in [
            (word("write"), None, None, word("write")),
            (word("write"), sent.clone(), mapping(&[]), word("write")),
            (None, sent.clone(), None, None),
            (word(""), None, mapping(&all("write")), word("write")),
            (word("none"), None, mapping(&more), word("read")),
            (word("read"), words(&["repo.code"]), mapping(&all("read")), word("read")),
            (word("read"), sent.clone(), mapping(&all("none")), word("read")),
            (None, None, mapping(&all("admin")), word("admin")),
            (word("admin"), words(&["repo.code"]), mapping(&[("repo.code", "read")]), word("admin")),
            (None, None, None, None),
        ] {
            let found = permission(given.clone(), units.clone(), units_map.clone()).unwrap();
            assert_eq!(found, expected, "{given:?} {units:?} {units_map:?}");
        }
    }

    #[test]
    fn units_that_differ_are_refused() {
        let code = || Some(vec!["repo.code".to_owned()]);
        let mut mixed = all("write");
        mixed[1].1 = "read";
        let many = || Some(vec!["repo.code".to_owned(); MAX_UNITS + 1]);
        for (units, units_map) in [
            (code(), None),
            (many(), None),
            (None, mapping(&mixed)),
            (None, mapping(&[("repo.code", "read")])),
            (None, mapping(&all("owner"))),
            (None, mapping(&all("write"))),
        ] {
            let shown = format!("{units:?} {units_map:?}");
            assert!(permission(Some("read".to_owned()), units, units_map).is_err(), "{shown}");
        }
        assert!(permission(Some("admin".to_owned()), many(), None).is_err());
    }
}
