//! The last step of rendering: everything that is not listed is removed, whatever wrote it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};

use super::elements::{ATTRIBUTES, CELL_STYLES, ELEMENTS, HIGHLIGHT_CLASSES, LANGUAGE_CLASS};

/// Schemes of addresses in links and images. Relative addresses stay as they are.
const URL_SCHEMES: [&str; 3] = ["http", "https", "mailto"];
/// Elements that go with their content.
const REMOVED_WITH_CONTENT: [&str; 2] = ["script", "style"];
/// Search engines give targets no credit, and pages that links open cannot reach back.
const LINK_RELATION: &str = "nofollow noopener";

static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(sanitizer);

/// Returns `html` with nothing in it but the listed elements, attributes, classes and schemes.
pub(super) fn sanitize(html: &str) -> String {
    SANITIZER.clean(html).to_string()
}

fn sanitizer() -> Builder<'static> {
    let names = || ELEMENTS.iter().map(|element| element.name);
    let mut attributes: HashMap<&str, HashSet<&str>> =
        ELEMENTS.iter().map(|element| (element.name, element.attributes.iter().copied().collect())).collect();
    for cell in ["td", "th"] {
        attributes.entry(cell).or_default().insert("style");
    }
    // A task in a list.
    attributes.insert("input", ["checked", "disabled", "type"].into());
    let task = HashMap::from([("type", "checkbox"), ("disabled", "")]);
    let mut builder = Builder::empty();
    builder
        .tags(names().chain(["input"]).collect())
        .clean_content_tags(REMOVED_WITH_CONTENT.into())
        .tag_attributes(attributes)
        .set_tag_attribute_values(HashMap::from([("input", task)]))
        .generic_attributes(ATTRIBUTES.iter().copied().collect())
        .url_schemes(URL_SCHEMES.into())
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some(LINK_RELATION))
        .strip_comments(true)
        .attribute_filter(attribute);
    builder
}

/// Returns the value of an attribute, or `None` for one that is removed.
fn attribute<'v>(element: &str, name: &str, value: &'v str) -> Option<Cow<'v, str>> {
    let is_kept = match (element, name) {
        (_, "style") => CELL_STYLES.contains(&value),
        ("code", "class") => {
            let is_plain = |char: char| char.is_ascii_graphic();
            value.strip_prefix(LANGUAGE_CLASS).is_some_and(|language| language.chars().all(is_plain))
        }
        (_, "class") => HIGHLIGHT_CLASSES.contains(&value),
        _ => true,
    };
    is_kept.then_some(Cow::Borrowed(value))
}
