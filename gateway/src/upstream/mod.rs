pub(crate) mod client_headers;
pub(crate) mod clients;
pub(crate) mod git_client;
pub(crate) mod grant;
pub(crate) mod reauthorize;
