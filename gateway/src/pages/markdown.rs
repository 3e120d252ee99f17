//! Markdown texts of pages.

use std::collections::HashSet;

use ferrite_markdown::render::{ReferenceLinks, render};

use super::error::PageResult;
use super::visit::Visit;
use crate::blocking::{Interrupt, Interrupted};
use crate::http::client_address::counted_client;

/// Bytes of text that one page renders. What is longer is shown as it was typed.
const MAX_RENDERED_BYTES: usize = 2 << 20;

/// Renders texts, in their order, in one job. `repository`, `owner/name`, is what references such as
/// `#1` belong to.
pub(super) async fn render_many(visit: &Visit, texts: Vec<String>, repository: &str) -> PageResult<Vec<String>> {
    if texts.iter().all(String::is_empty) {
        return Ok(texts);
    }
    let site = &visit.shell.site;
    let links = ReferenceLinks::of_context(repository, &format!("{}{}", site.origin, site.root));
    let client = counted_client(&visit.headers, visit.shell.viewer.as_ref().map(|viewer| viewer.id));
    let too_long = beyond(&texts, MAX_RENDERED_BYTES);
    let work = move |interrupt: &Interrupt| {
        let texts = texts.iter().enumerate();
        let html = texts.map(|(place, text)| match too_long.contains(&place) {
            true => Ok(typed(text)),
            false => render(text, Some(&links), &|| interrupt.check().is_err()).map_err(|_| Interrupted),
        });
        html.collect::<Result<Vec<_>, _>>()
    };
    Ok(visit.state.markdown.run_interruptible(client, work).await?)
}

/// Returns the places of the texts that do not fit into `max` bytes together with those before.
fn beyond(texts: &[String], max: usize) -> HashSet<usize> {
    let mut left = max;
    let mut beyond = HashSet::new();
    for (place, text) in texts.iter().enumerate() {
        match left.checked_sub(text.len()) {
            Some(rest) => left = rest,
            None => {
                beyond.insert(place);
            }
        }
    }
    beyond
}

fn typed(text: &str) -> String {
    let Ok(text) = askama::filters::escape(text, askama::filters::Html);
    format!("<pre>{text}</pre>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_too_long_together_are_shown_as_typed() {
        let texts = ["aaaa", "bbbb", "c"].map(str::to_owned);
        assert_eq!(beyond(&texts, 5), HashSet::from([1]));
        assert!(beyond(&texts, 9).is_empty());
        let shown = typed("<script> & \"x\"");
        assert!(shown.starts_with("<pre>&#60;script&#62; &#38; ") && !shown.contains("<script>"), "{shown}");
    }
}
