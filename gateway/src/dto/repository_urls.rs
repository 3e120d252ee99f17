use std::collections::HashMap;

use ferrite_proto::issue::NamedRepository;

use ferrite_api_types::links::{Links, RepositoryLinks};

/// URLs of several repositories, by their ids.
pub(crate) struct RepositoryUrls(HashMap<i64, RepositoryLinks>);

impl RepositoryUrls {
    pub(crate) fn new(repositories: Vec<NamedRepository>, links: &Links) -> Self {
        let urls = |named: NamedRepository| (named.repository_id, links.repository(&named.owner, &named.name));
        Self(repositories.into_iter().map(urls).collect())
    }

    /// Adds a repository whose URLs are known.
    pub(crate) fn with(mut self, repository_id: i64, urls: RepositoryLinks) -> Self {
        self.0.insert(repository_id, urls);
        self
    }

    pub(crate) fn of(&self, repository_id: i64) -> Option<&RepositoryLinks> {
        self.0.get(&repository_id)
    }
}
