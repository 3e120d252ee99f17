use ferrite_api_types::convert::{MissingField, optional_time, time};
use ferrite_proto::repo;
use serde::Serialize;

/// A git store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Store {
    name: String,
    weight: i32,
    /// Repositories that are placed on it.
    repositories: i64,
    reachable: bool,
    /// Null if it was not seen yet; so are the following.
    free_bytes: Option<i64>,
    total_bytes: Option<i64>,
    last_seen_at: Option<String>,
    created_at: String,
}

impl Store {
    pub(crate) fn new(store: repo::Store) -> Result<Self, MissingField> {
        Ok(Self {
            name: store.name,
            weight: store.weight,
            repositories: store.repository_count,
            reachable: store.is_reachable,
            free_bytes: store.free_bytes,
            total_bytes: store.total_bytes,
            last_seen_at: optional_time(store.seen_at, "seen_at")?,
            created_at: time(store.created_at, "created_at")?,
        })
    }
}
