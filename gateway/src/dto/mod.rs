//! JSON shapes of responses. They are types of their own, so a field that a service adds to a message changes no response.
//!
//!
//! Not here: shapes that payloads of webhooks have too (`ferrite_api_types`).

use ferrite_api_types::schema::{Schema, Schemas, Shape};
use serde::Serialize;
use serde_json::json;

pub(crate) use ferrite_api_types::convert::require;
pub(crate) use ferrite_api_types::{Accounts, Comment, Issue, Label, Milestone, Repository, User, Viewer};

/// The results of a search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchResults<T> {
    pub(crate) data: Vec<T>,
    pub(crate) ok: bool,
}

/// Without a name of its own: it differs for each kind of results.
impl<T: Shape> Shape for SearchResults<T> {
    fn schema(schemas: &mut Schemas) -> Schema {
        json!({
            "type": "object",
            "properties": {"data": Vec::<T>::schema(schemas), "ok": bool::schema(schemas)},
            "required": ["data", "ok"],
        })
    }
}
