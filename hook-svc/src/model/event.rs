use ferrite_proto::error::FieldViolation;

/// All event names, in the order in which responses list them.
const EVENT_NAMES: [&str; 9] =
    ["create", "delete", "fork", "push", "issues", "pull_request", "issue_comment", "release", "repository"];
const DEFAULT_EVENT: &str = "push";

/// A non-empty set of the events that trigger a hook, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HookEvents(u16);

impl HookEvents {
    /// Parses event names. An empty list means `push`.
    pub(crate) fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, FieldViolation> {
        let mut events = 0;
        for name in names {
            events |= bit(name.as_ref()).ok_or_else(|| {
                FieldViolation::new(
                    "events",
                    "unknown",
                    format!("must be one or more of `{}`", EVENT_NAMES.join("`, `")),
                )
            })?;
        }
        if events == 0 { Ok(Self(bit(DEFAULT_EVENT).unwrap_or(1))) } else { Ok(Self(events)) }
    }

    /// Parses a column written by [`HookEvents::to_column`]. Returns `None` for an unknown name.
    pub(crate) fn from_column(text: &str) -> Option<Self> {
        let names: Vec<_> = text.split(',').collect();
        Self::parse(&names).ok()
    }

    pub(crate) fn to_column(self) -> String {
        self.names().collect::<Vec<_>>().join(",")
    }

    pub(crate) fn contains(self, name: &str) -> bool {
        bit(name).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Returns the names in the order of [`EVENT_NAMES`].
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        EVENT_NAMES.into_iter().filter(move |name| self.contains(name))
    }
}

fn bit(name: &str) -> Option<u16> {
    EVENT_NAMES.iter().position(|known| *known == name).map(|index| 1 << index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;

    #[test]
    fn no_names_mean_pushes() {
        let events = HookEvents::parse::<&str>(&[]).unwrap();
        assert_eq!(events.names().collect::<Vec<_>>(), ["push"]);
    }

    #[test]
    fn unknown_names_are_refused() {
        for name in ["", "Push", "pushes", "push,issues", "*"] {
            let violation = HookEvents::parse(&["push", name]).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("events", "unknown"), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn any_names_in_any_order_come_back_once_in_the_fixed_order(
            wanted in subsequence(EVENT_NAMES.to_vec(), 1..=9),
            repeats in proptest::collection::vec(select(EVENT_NAMES.to_vec()), 0..8),
        ) {
            let mut sent: Vec<_> = repeats.into_iter().filter(|name| wanted.contains(name)).collect();
            sent.extend(wanted.iter().rev());
            let events = HookEvents::parse(&sent).unwrap();
            prop_assert_eq!(events.names().collect::<Vec<_>>(), wanted);
            prop_assert_eq!(HookEvents::from_column(&events.to_column()), Some(events));
        }

        #[test]
        fn arbitrary_names_are_known_or_refused(names in proptest::collection::vec(".{0,8}", 1..4)) {
            let known = names.iter().all(|name| EVENT_NAMES.contains(&name.as_str()));
            prop_assert_eq!(HookEvents::parse(&names).is_ok(), known);
        }
    }
}
