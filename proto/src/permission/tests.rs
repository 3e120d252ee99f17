use super::*;

const LEVELS: [Permission; 5] =
    [Permission::None, Permission::Read, Permission::Write, Permission::Admin, Permission::Owner];

#[test]
fn each_level_includes_those_before_it() {
    for pair in LEVELS.windows(2) {
        assert!(pair[0] < pair[1], "{pair:?}");
    }
}

#[test]
fn levels_survive_the_wire() {
    for level in LEVELS {
        assert_eq!(Permission::from(crate::repo::Permission::from(level)), level);
    }
}

#[test]
fn a_level_that_is_not_set_is_no_permission() {
    assert_eq!(Permission::from(crate::repo::Permission::Unspecified), Permission::None);
}
