//! HTTP as the gateway speaks it: requests, JSON bodies, pages, links, routes and errors. Not here: services, and what they mean.

pub(crate) mod body;
pub(crate) mod error;
pub(crate) mod etag;
pub(crate) mod json;
pub(crate) mod links;
pub(crate) mod middleware;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod query_token;
pub(crate) mod routes;
