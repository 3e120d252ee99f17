use ferrite_proto::error::FieldViolation;

use crate::error::RepoError;

const MAX_TOPIC_CHARS: usize = 35;
pub(crate) const MAX_TOPICS: usize = 25;

/// 1 to 35 characters from `a` to `z`, digits and `-`, which is neither first nor last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic(String);

checked_text!(Topic);

impl Topic {
    /// Converts upper case to lower case.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        let refuse = |code, message: String| Err(FieldViolation::new(field, code, message));
        if text.is_empty() {
            return refuse("required", "must not be empty".into());
        }
        if text.chars().count() > MAX_TOPIC_CHARS {
            return refuse("too_long", format!("must have at most {MAX_TOPIC_CHARS} characters"));
        }
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_plain || text.starts_with('-') || text.ends_with('-') {
            return refuse(
                "invalid",
                "must contain only letters, digits and `-`, and must not begin or end with `-`".into(),
            );
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

/// The topics of a repository, in order and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topics(Vec<Topic>);

impl Topics {
    /// Keeps the first of several equal topics. Violations name a position, such as `topics[3]`, or
    /// `topics` if there are too many.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, RepoError> {
        let mut topics = Self::default();
        let mut violations = Vec::new();
        for (place, text) in texts.iter().enumerate() {
            match Topic::parse(text, &format!("topics[{place}]")) {
                Ok(topic) if topics.0.contains(&topic) => {}
                // Checked here, so that a long list costs little.
                Ok(_) if topics.0.len() == MAX_TOPICS => return Err(too_many("topics")),
                Ok(topic) => topics.0.push(topic),
                Err(violation) if violations.len() < MAX_TOPICS => violations.push(violation),
                Err(_) => return Err(too_many("topics")),
            }
        }
        if violations.is_empty() { Ok(topics) } else { Err(RepoError::Invalid(violations)) }
    }

    pub(crate) fn of_column(text: &str) -> Self {
        Self(text.split(',').filter(|topic| !topic.is_empty()).map(|topic| Topic(topic.to_owned())).collect())
    }

    pub(crate) fn column(&self) -> String {
        self.0.iter().map(Topic::as_str).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Topic> {
        self.0.iter()
    }

    /// Appends a topic, unless it is already there.
    pub(crate) fn with(&self, topic: Topic) -> Result<Self, RepoError> {
        let mut topics = self.clone();
        if topics.0.contains(&topic) {
            return Ok(topics);
        }
        if topics.0.len() == MAX_TOPICS {
            return Err(too_many("topic"));
        }
        topics.0.push(topic);
        Ok(topics)
    }

    /// `None` if the topic is not there.
    pub(crate) fn without(&self, topic: &Topic) -> Option<Self> {
        let rest: Vec<_> = self.0.iter().filter(|other| *other != topic).cloned().collect();
        (rest.len() < self.0.len()).then_some(Self(rest))
    }
}

fn too_many(field: &str) -> RepoError {
    RepoError::field(field, "too_many", &format!("a repository can have at most {MAX_TOPICS} topics"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(texts: &[&str]) -> Result<Topics, RepoError> {
        Topics::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    fn violations(refused: Result<Topics, RepoError>) -> Vec<(String, &'static str)> {
        let Err(RepoError::Invalid(violations)) = refused else { panic!("{refused:?}") };
        violations.into_iter().map(|violation| (violation.field, violation.code)).collect()
    }

    #[test]
    fn topics_are_small_letters_digits_and_inner_dashes() {
        for (text, parsed) in [("rust", "rust"), ("Web-2", "web-2"), ("a", "a"), ("3d", "3d"), ("a--b", "a--b")] {
            assert_eq!(Topic::parse(text, "t").unwrap().as_str(), parsed);
        }
        assert!(Topic::parse(&"x".repeat(35), "t").is_ok());
        for (text, code) in [
            ("", "required"),
            (&"x".repeat(36), "too_long"),
            ("-a", "invalid"),
            ("a-", "invalid"),
            ("-", "invalid"),
            ("a b", "invalid"),
            ("a,b", "invalid"),
            ("a_b", "invalid"),
            ("ä", "invalid"),
            ("a\0", "invalid"),
            ("c++", "invalid"),
        ] {
            assert_eq!(Topic::parse(text, "t").unwrap_err().code, code, "{text:?}");
        }
    }

    #[test]
    fn a_list_keeps_its_order_and_has_each_topic_once() {
        let parsed = topics(&["web", "Rust", "rust", "WEB", "api"]).unwrap();
        assert_eq!(parsed.column(), "web,rust,api");
        assert_eq!(Topics::of_column(&parsed.column()), parsed);
        assert_eq!(Topics::of_column(""), Topics::default());
        assert_eq!(
            violations(topics(&["a", "b c", "", "d"])),
            [("topics[1]".to_owned(), "invalid"), ("topics[2]".to_owned(), "required")]
        );
    }

    #[test]
    fn a_repository_has_25_topics_at_most() {
        let many: Vec<_> = (0..26).map(|number| format!("t{number}")).collect();
        let full = Topics::parse(&many[..25]).unwrap();
        assert_eq!(violations(Topics::parse(&many)), [("topics".to_owned(), "too_many")]);
        assert_eq!(violations(Topics::parse(&vec![String::new(); 1_000])), [("topics".to_owned(), "too_many")]);
        let topic = |text: &str| Topic::parse(text, "topic").unwrap();
        assert_eq!(violations(full.with(topic("one-more"))), [("topic".to_owned(), "too_many")]);
        assert_eq!(full.with(topic("T3")).unwrap(), full);
        let rest = full.without(&topic("t0")).unwrap();
        assert_eq!((rest.iter().count(), rest.without(&topic("t0"))), (24, None));
        assert_eq!(rest.with(topic("t0")).unwrap().column(), format!("{},t0", rest.column()));
    }
}
