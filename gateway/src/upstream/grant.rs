//! A grant of repo-svc with the git store of its repository. Requests to the other services carry
//! it.

use ferrite_proto::metadata;
use http::HeaderMap;
use http::header::{HeaderValue, InvalidHeaderValue};

/// A grant, and the name of the git store that serves its requests.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    text: HeaderValue,
    /// `None` if repo-svc names no store, as older versions do.
    store: Option<HeaderValue>,
}

impl Grant {
    /// Fails if a text is not a valid header value, which is a bug of repo-svc.
    pub(crate) fn new(text: &str, store: &str) -> Result<Self, InvalidHeaderValue> {
        let mut text = HeaderValue::from_str(text)?;
        text.set_sensitive(true);
        let store = (!store.is_empty()).then(|| HeaderValue::from_str(store)).transpose()?;
        Ok(Self { text, store })
    }

    /// Returns the grant for a field of a message.
    pub(crate) fn text(&self) -> String {
        self.text.to_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn insert_into(&self, headers: &mut HeaderMap) {
        headers.insert(metadata::GRANT, self.text.clone());
        if let Some(store) = &self.store {
            headers.insert(metadata::STORE, store.clone());
        }
    }
}
