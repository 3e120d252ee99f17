//! Routes as data: one list makes a router and the table of the routes that it serves, so that the two cannot differ. Every route
//! names the operation that it carries out.
//!
//! Not here: the permission to carry out an operation, which repo-svc decides by the operation's name.

/// The capacity in which the caller of an operation acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// For itself.
    Own,
    /// For the organization that the path names.
    Organization,
    /// As an administrator of the site, for the account or team that the path names.
    Administrator,
}

/// A route and the operation that it carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Full method name of an RPC (`ferrite.repo.v1.AccountService/GetUser`), name of one of git-svc's HTTP bodies (`git/raw`),
    /// or name of an operation that the gateway does by itself (`gateway/markdown`).
    pub operation: &'static str,
    /// Capacity in which the caller acts.
    pub capacity: Capacity,
    /// HTTP method.
    pub method: &'static str,
    /// Path template of the router, for example `/api/v1/users/{username}`.
    pub path: &'static str,
}

/// An operation, and the capacity in which a route lets its caller do it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    name: &'static str,
    capacity: Capacity,
}

impl Route {
    /// Returns the route of `method` and `path`. An operation without a capacity is one that the caller does for itself.
    pub(crate) fn new(method: &'static str, path: &'static str, operation: impl Into<Operation>) -> Self {
        let Operation { name, capacity } = operation.into();
        Self { operation: name, capacity, method, path }
    }
}

impl From<&'static str> for Operation {
    fn from(name: &'static str) -> Self {
        Self { name, capacity: Capacity::Own }
    }
}

/// Returns the operation `name`, done for the organization that the path names.
pub(crate) fn organization(name: &'static str) -> Operation {
    Operation { name, capacity: Capacity::Organization }
}

/// Returns the operation `name`, done as an administrator of the site.
pub(crate) fn administrator(name: &'static str) -> Operation {
    Operation { name, capacity: Capacity::Administrator }
}

/// Makes the functions `routes` and `router` of lines `"/path" => get handler as OPERATION, post handler as OPERATION;`. The
/// state's type comes first.
macro_rules! routes {
    ($state:ty: $($path:literal => $($method:ident $handler:path as $operation:expr),+;)+) => {
        /// Returns the routes that [`router`] serves.
        pub(crate) fn routes() -> Vec<$crate::http::routes::Route> {
            vec![$($($crate::http::routes::Route::new($crate::http::routes::method!($method), $path, $operation)),+),+]
        }

        /// Returns the router that serves [`routes`].
        pub(crate) fn router() -> axum::Router<$state> {
            axum::Router::new()$(.route($path, axum::routing::MethodRouter::new()$(.$method($handler))+))+
        }
    };
}

/// The name of a method on the wire.
macro_rules! method {
    (get) => {
        "GET"
    };
    (post) => {
        "POST"
    };
    (put) => {
        "PUT"
    };
    (patch) => {
        "PATCH"
    };
    (delete) => {
        "DELETE"
    };
}

pub(crate) use {method, routes};
