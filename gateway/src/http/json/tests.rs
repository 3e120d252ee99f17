use proptest::prelude::*;

use super::*;

/// A list entry with a text, its mark, and a field that is not cut.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Entry {
    body: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    name: String,
}

impl LongTexts for Entry {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
    }
}

fn entry(body: &str) -> Entry {
    Entry { body: body.to_owned(), truncated: false, name: "n".into() }
}

fn written(entries: Vec<Entry>, max_bytes: usize) -> Result<serde_json::Value, OverBudget> {
    let bytes = Unwritten::new(Texts(entries), true).write(max_bytes)?;
    assert!(bytes.len() <= max_bytes && bytes.capacity() <= max_bytes);
    Ok(serde_json::from_slice(&bytes).unwrap())
}

#[test]
fn characters_of_html_are_escaped() {
    let text = "<script>&\u{2028}\u{2029}\u{2027}é€\u{e2}";
    let encoded = String::from_utf8(encode(text)).unwrap();
    assert_eq!(encoded, "\"\\u003cscript\\u003e\\u0026\\u2028\\u2029\u{2027}é€\u{e2}\"");
    let key = std::collections::BTreeMap::from([("<", 1)]);
    assert_eq!(encode(&key), br#"{"\u003c":1}"#);
}

#[test]
fn a_value_above_the_budget_is_not_made() {
    let value = || Unwritten::new(Whole(vec!["<".repeat(1000); 3]), false);
    let bytes = value().write(usize::MAX).unwrap();
    assert_eq!(bytes.len(), 3 * 6002 + 4);
    assert_eq!((value().write(bytes.len()).unwrap(), bytes.capacity()), (bytes.clone(), bytes.len()));
    assert_eq!(value().write(bytes.len() - 1), Err(OverBudget));
    let retried = value();
    assert_eq!(retried.try_write(bytes.len() - 1), Err(OverBudget));
    assert_eq!(retried.try_write(bytes.len()), Ok(bytes));
    assert_eq!(retried.write(usize::MAX), Err(OverBudget), "it is written once");
}

#[test]
fn texts_are_cut_only_where_their_page_does_not_fit() {
    let entries = vec![entry("short"), entry(&"<".repeat(1000)), entry(&"é\n".repeat(1000))];
    let whole = written(entries.clone(), 1 << 20).unwrap();
    assert!(whole.as_array().unwrap().iter().all(|entry| entry.get("truncated").is_none()));
    let cut = written(entries.clone(), 3000).unwrap();
    assert_eq!((&cut[0]["body"], cut[0].get("truncated")), (&"short".into(), None));
    for (entry, shown) in entries.iter().zip(cut.as_array().unwrap()).skip(1) {
        let body = shown["body"].as_str().unwrap();
        assert!(entry.body.starts_with(body) && body.len() > 100, "{body}");
        assert_eq!(shown["truncated"], true);
    }
    assert_eq!(written(entries, 100), Err(OverBudget));
    assert_eq!(written(Vec::new(), 2), Ok(serde_json::json!([])));
}

proptest! {
    #[test]
    fn escaping_changes_no_value(text in any::<String>()) {
        let back: String = serde_json::from_slice(&encode(&text)).unwrap();
        prop_assert_eq!(back, text);
    }

    #[test]
    fn the_bytes_of_a_text_are_known_before_it_is_written(text in any::<String>()) {
        prop_assert_eq!(text.chars().map(written_bytes).sum::<usize>() + 2, encode(&text).len());
    }

    #[test]
    fn pages_of_texts_fit(bodies in prop::collection::vec("[<\na€]{0,300}", 1..9), max_bytes in 400_usize..3000) {
        let page = written(bodies.iter().map(|body| entry(body)).collect(), max_bytes).unwrap();
        for (entry, body) in page.as_array().unwrap().iter().zip(&bodies) {
            let shown = entry["body"].as_str().unwrap();
            prop_assert!(body.starts_with(shown));
            prop_assert_eq!(shown != body, entry.get("truncated").is_some());
        }
    }
}

proptest! {
    #[test]
    fn a_text_is_escaped_wherever_its_characters_are(text in "[a-e<>&\u{2027}-\u{202a}â\"\n]{0,40}") {
        let encoded = String::from_utf8(encode(&text)).unwrap();
        let read: String = serde_json::from_str(&encoded).unwrap();
        prop_assert_eq!(read, text);
        let is_safe = !encoded.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
        prop_assert!(is_safe, "{}", encoded);
    }
}
