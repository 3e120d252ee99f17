use ferrite_core::net::{BadStoreName, StoreName};
use ferrite_proto::error::FieldViolation;

/// For stores that are added without a weight.
pub(crate) const DEFAULT_STORE_WEIGHT: i32 = 100;
const MAX_STORE_WEIGHT: i32 = 10_000;

pub(crate) fn parse_store_name(text: &str, field: &str) -> Result<StoreName, FieldViolation> {
    let message = "must be 1 to 63 characters from `a` to `z`, `0` to `9` and `-`, and must not begin with `-`";
    text.parse().map_err(|BadStoreName| FieldViolation::new(field, "invalid", message))
}

/// A store with weight zero gets no new repositories.
pub(crate) fn check_store_weight(weight: i32, field: &str) -> Result<i32, FieldViolation> {
    if (0..=MAX_STORE_WEIGHT).contains(&weight) {
        return Ok(weight);
    }
    Err(FieldViolation::new(field, "out_of_range", format!("must be between 0 and {MAX_STORE_WEIGHT}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_hosts_and_weights_are_bounded() {
        let longest = "a".repeat(63);
        for name in ["default", "git-0", "0", longest.as_str()] {
            assert_eq!(parse_store_name(name, "name").unwrap().as_str(), name);
        }
        for name in ["", "-a", "Git", "a_b", "a.b", "a/b", "ä", &"a".repeat(64)] {
            assert_eq!(parse_store_name(name, "name").unwrap_err().field, "name", "{name}");
        }
        assert!(
            [0, 1, DEFAULT_STORE_WEIGHT, 10_000].iter().all(|weight| check_store_weight(*weight, "weight").is_ok())
        );
        assert!([-1, 10_001, i32::MIN, i32::MAX].iter().all(|weight| check_store_weight(*weight, "weight").is_err()));
    }
}
