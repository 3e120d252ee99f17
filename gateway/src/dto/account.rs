//! Deploy keys.

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Time, shape};
use ferrite_proto::repo;
use serde::Serialize;

shape! {
    /// A key of a repository.
    #[derive(Clone, Debug, Serialize)]
    pub(crate) struct DeployKey {
        id: i64,
        /// Type, base64 and comment, as OpenSSH writes them.
        key: String,
        url: String,
        title: String,
        created_at: Time,
        /// True if the key opens the repository for reading only.
        read_only: bool,
    }
}

impl DeployKey {
    pub(crate) fn new(key: repo::DeployKey, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            id: key.id,
            url: urls.deploy_key(key.id),
            key: key.key,
            title: key.title,
            created_at: Time::new(key.create_time, "create_time")?,
            read_only: key.is_read_only,
        })
    }
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use prost_types::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_have_their_own_urls() {
        let links = Links::new("http://git.example.com", "h:22");
        let key = repo::DeployKey {
            id: 4,
            key: "k".into(),
            title: "t".into(),
            create_time: Some(Timestamp { seconds: 1, nanos: 0 }),
            is_read_only: true,
            ..Default::default()
        };
        let expected = json!({
            "id": 4, "key": "k", "title": "t", "created_at": "1970-01-01T00:00:01Z", "read_only": true,
            "url": "http://git.example.com/api/v1/repos/bob/demo/keys/4",
        });
        let urls = links.repository("bob", "demo");
        assert_eq!(serde_json::to_value(DeployKey::new(key, &urls).unwrap()).unwrap(), expected);
    }
}
