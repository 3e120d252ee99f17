use ferrite_proto::error::FieldViolation;

/// All events there are, in the order in which answers name them.
const NAMES: [&str; 8] = ["create", "delete", "fork", "push", "issues", "pull_request", "issue_comment", "release"];
const DEFAULT: &str = "push";

/// The events that a hook fires for; never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HookEvents(u8);

impl HookEvents {
    /// The events of these names, or only pushes when there are no names.
    ///
    /// # Errors
    /// When a name is not known.
    pub(crate) fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, FieldViolation> {
        let mut events = 0;
        for name in names {
            events |= bit(name.as_ref()).ok_or_else(|| {
                FieldViolation::new("events", "unknown", format!("must be some of `{}`", NAMES.join("`, `")))
            })?;
        }
        if events == 0 { Ok(Self(bit(DEFAULT).unwrap_or(1))) } else { Ok(Self(events)) }
    }

    /// Reads what [`HookEvents::to_column`] wrote.
    pub(crate) fn from_column(text: &str) -> Option<Self> {
        let names: Vec<_> = text.split(',').collect();
        Self::parse(&names).ok()
    }

    /// The names, joined by commas.
    pub(crate) fn to_column(self) -> String {
        self.names().collect::<Vec<_>>().join(",")
    }

    /// The names, in the fixed order.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().filter(move |name| bit(name).is_some_and(|bit| self.0 & bit != 0))
    }
}

fn bit(name: &str) -> Option<u8> {
    NAMES.iter().position(|known| *known == name).map(|index| 1 << index)
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
            wanted in subsequence(NAMES.to_vec(), 1..=8),
            repeats in proptest::collection::vec(select(NAMES.to_vec()), 0..8),
        ) {
            let mut sent: Vec<_> = repeats.into_iter().filter(|name| wanted.contains(name)).collect();
            sent.extend(wanted.iter().rev());
            let events = HookEvents::parse(&sent).unwrap();
            prop_assert_eq!(events.names().collect::<Vec<_>>(), wanted);
            prop_assert_eq!(HookEvents::from_column(&events.to_column()), Some(events));
        }

        #[test]
        fn arbitrary_names_are_known_or_refused(names in proptest::collection::vec(".{0,8}", 1..4)) {
            let known = names.iter().all(|name| NAMES.contains(&name.as_str()));
            prop_assert_eq!(HookEvents::parse(&names).is_ok(), known);
        }
    }
}
