//! Removes texts from native payloads after they were edited or deleted.
//!
//! A removed text becomes empty, and the payload gets `"redacted": true`. Everything else stays,
//! including the order of keys.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Keys from the root of a payload to a text or another value.
pub(crate) type TextPath = &'static [&'static str];

pub(crate) const ISSUE_TEXT: TextPath = &["issue", "body"];
pub(crate) const PULL_TEXT: TextPath = &["pull_request", "body"];
pub(crate) const COMMENT_TEXT: TextPath = &["comment", "body"];
pub(crate) const REVIEW_TEXT: TextPath = &["review", "content"];
/// The text that an edit replaced.
pub(crate) const TEXT_BEFORE: TextPath = &["changes", "body", "from"];
pub(crate) const RELEASE_NOTES: TextPath = &["release", "body"];

/// The repository of a pull request's head.
pub(crate) const HEAD_REPOSITORY: TextPath = &["pull_request", "head", "repo"];

const MARK: &str = "redacted";

/// Empties the texts at `paths`. A payload without any of them is returned unchanged.
pub(crate) fn without_texts(payload: &str, paths: &[TextPath]) -> Result<String, serde_json::Error> {
    let mut root: Node = serde_json::from_str(payload)?;
    let mut is_changed = false;
    for path in paths {
        if let Some(Node::Scalar(Value::String(text))) = root.find(path)
            && !text.is_empty()
        {
            text.clear();
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(payload.to_owned());
    }
    if let Node::Object(entries) = &mut root
        && entries.iter().all(|(key, _)| key != MARK)
    {
        entries.push((MARK.to_owned(), Node::Scalar(Value::Bool(true))));
    }
    serde_json::to_string(&root)
}

/// Replaces the value at `path` by null.
pub(crate) fn without_value(payload: &str, path: TextPath) -> Result<String, serde_json::Error> {
    let mut root: Node = serde_json::from_str(payload)?;
    if let Some(value) = root.find(path) {
        *value = Node::Scalar(Value::Null);
    }
    serde_json::to_string(&root)
}

/// Marks a payload that was rendered from a redacted fact.
pub(crate) fn marked(payload: &str) -> String {
    match payload.strip_suffix('}') {
        Some(open) => format!("{open},\"{MARK}\":true}}"),
        None => payload.to_owned(),
    }
}

/// JSON that keeps the order of keys.
enum Node {
    Scalar(Value),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    fn find(&mut self, path: &[&str]) -> Option<&mut Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        let Self::Object(entries) = self else { return None };
        entries.iter_mut().find(|(key, _)| key == first)?.1.find(rest)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(serializer),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Object(entries) => {
                let mut object = serializer.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| object.serialize_entry(key, value))?;
                object.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            object.push(entry);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::recorded;

    #[test]
    fn a_text_becomes_empty_and_everything_else_stays_in_its_order() {
        let payload = r#"{"z":1,"issue":{"title":"t","body":"secret","labels":[{"b":null,"a":-1.5}]},"changes":{"body":{"from":"old"}},"a":true}"#;
        assert_eq!(
            without_texts(payload, &[ISSUE_TEXT, TEXT_BEFORE]).unwrap(),
            r#"{"z":1,"issue":{"title":"t","body":"","labels":[{"b":null,"a":-1.5}]},"changes":{"body":{"from":""}},"a":true,"redacted":true}"#
        );
    }

    #[test]
    fn a_payload_without_the_text_stays_as_it_is() {
        for payload in [r#"{"issue":{"body":""}}"#, r#"{"issue":null}"#, "{}", "[]", r#"{"comment":{"body":"x"}}"#] {
            assert_eq!(without_texts(payload, &[ISSUE_TEXT, TEXT_BEFORE, RELEASE_NOTES]).unwrap(), payload);
        }
        assert!(without_texts("{", &[]).is_err());
    }

    #[test]
    fn a_value_becomes_null_and_is_not_marked() {
        let payload = r#"{"a":1,"pull_request":{"head":{"repo":{"id":7},"sha":"x"}}}"#;
        let without = r#"{"a":1,"pull_request":{"head":{"repo":null,"sha":"x"}}}"#;
        assert_eq!(without_value(payload, HEAD_REPOSITORY).unwrap(), without);
        assert_eq!(without_value(r#"{"a":1}"#, HEAD_REPOSITORY).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn a_payload_is_marked_once() {
        let once = without_texts(r#"{"issue":{"body":"a"},"comment":{"body":"b"}}"#, &[ISSUE_TEXT]).unwrap();
        assert_eq!(
            without_texts(&once, &[COMMENT_TEXT]).unwrap(),
            r#"{"issue":{"body":""},"comment":{"body":""},"redacted":true}"#
        );
        assert_eq!(marked(r#"{"a":1}"#), r#"{"a":1,"redacted":true}"#);
    }

    #[test]
    fn recorded_payloads_lose_their_texts_and_nothing_else() {
        for name in ["native-issues-opened", "native-issues-edited", "native-issue-comment-created", "native-release"] {
            let before = recorded::json(name);
            let paths = [ISSUE_TEXT, COMMENT_TEXT, TEXT_BEFORE, RELEASE_NOTES];
            let after = without_texts(&before.to_string(), &paths).unwrap();
            let after: Value = serde_json::from_str(&after).unwrap();
            let mut expected = before;
            for path in paths {
                let pointer = format!("/{}", path.join("/"));
                if let Some(text) = expected.pointer_mut(&pointer).filter(|text| !text.as_str().unwrap().is_empty()) {
                    *text = "".into();
                    expected["redacted"] = true.into();
                }
            }
            assert_eq!(after, expected, "{name}");
        }
    }
}
