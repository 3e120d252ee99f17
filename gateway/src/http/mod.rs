//! HTTP on the client's side: requests, JSON bodies, queries, pages, routes and errors of the API.

pub(crate) mod body;
pub(crate) mod body_limits;
pub(crate) mod caching;
pub(crate) mod client_address;
pub(crate) mod client_bounds;
pub(crate) mod describe;
pub(crate) mod error;
pub(crate) mod etag;
pub(crate) mod filters;
pub(crate) mod headers;
pub(crate) mod if_match;
pub(crate) mod json;
mod json_value;
pub(crate) mod middleware;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod query;
mod query_token;
pub(crate) mod redirect;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod routes;
mod times;
mod unread_body;
pub(crate) mod upload;
pub(crate) mod words;
