//! Routes as data: one list makes a router and the table of the routes that it serves, so that the two cannot differ. Every route
//! names the operation that it carries out.
//!
//! Not here: the permission to carry out an operation, which repo-svc decides by the operation's name.

use ferrite_proto::operation;

use super::describe::{Description, Success};

/// The names of operations that are no RPCs in the API's document.
const OTHER_NAMES: [(&str, &str); 4] = [
    (operation::RAW, "GetRawFile"),
    (operation::ARCHIVE, "GetArchive"),
    (operation::ASSET, "DownloadReleaseAsset"),
    (operation::RENDER_MARKDOWN, "RenderMarkdown"),
];

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
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Full method name of an RPC (`ferrite.repo.v1.AccountService/GetUser`), name of one of git-svc's HTTP bodies (`git/raw`),
    /// or name of an operation that the gateway does by itself (`gateway/markdown`).
    pub operation: &'static str,
    /// Capacity in which the caller acts.
    pub capacity: Capacity,
    /// What the route does, where several routes carry out the operation in this capacity; empty for the only one.
    pub variant: &'static str,
    /// HTTP method.
    pub method: &'static str,
    /// Path template of the router, for example `/api/v1/users/{username}`.
    pub path: &'static str,
    /// Describes what the handler takes and returns; `None` for one of git, which the document of the API does not have.
    pub describe: Option<fn(&mut Description)>,
}

/// An operation, and the capacity in which a route lets its caller do it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    name: &'static str,
    capacity: Capacity,
    variant: &'static str,
}

impl Route {
    /// Returns the route of `method` and `path`. An operation without a capacity is one that the caller does for itself.
    pub(crate) fn new(method: &'static str, path: &'static str, operation: impl Into<Operation>) -> Self {
        let Operation { name, capacity, variant } = operation.into();
        Self { operation: name, capacity, variant, method, path, describe: None }
    }

    /// Returns the same route, whose handler `describe` describes.
    pub(crate) fn described(self, describe: fn(&mut Description)) -> Self {
        Self { describe: Some(describe), ..self }
    }

    /// Returns the name of the route in the API's document (`operationId`): that of its RPC, with what tells it from other routes. It
    /// is the route's anchor on the page of the documentation.
    #[must_use]
    pub fn operation_id(&self) -> String {
        let capacity = match self.capacity {
            Capacity::Own => "",
            Capacity::Organization => "OfOrganization",
            Capacity::Administrator => "AsAdministrator",
        };
        [self.operation_name(), self.variant, capacity].concat()
    }

    /// Returns whether it is a read whose responses have tags, as the description of its handler says.
    pub(crate) fn has_tag(&self) -> bool {
        let mut about = Description::default();
        if let Some(describe) = self.describe {
            describe(&mut about);
        }
        self.method == "GET" && about.responses.iter().any(Success::has_tag)
    }

    /// Returns the name of the operation without that of its service.
    pub(crate) fn operation_name(&self) -> &'static str {
        match OTHER_NAMES.iter().find(|(operation, _)| *operation == self.operation) {
            Some((_, name)) => name,
            None => self.operation.split_once('/').map_or(self.operation, |(_, name)| name),
        }
    }
}

impl From<&'static str> for Operation {
    fn from(name: &'static str) -> Self {
        Self { name, capacity: Capacity::Own, variant: "" }
    }
}

/// Returns the operation `name`, done for the organization that the path names.
pub(crate) fn organization(name: &'static str) -> Operation {
    Operation { capacity: Capacity::Organization, ..name.into() }
}

/// Returns the operation `name`, done as an administrator of the site.
pub(crate) fn administrator(name: &'static str) -> Operation {
    Operation { capacity: Capacity::Administrator, ..name.into() }
}

/// Returns one of the variants of an operation that several routes carry out.
pub(crate) fn variant(operation: impl Into<Operation>, variant: &'static str) -> Operation {
    Operation { variant, ..operation.into() }
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

/// Makes the functions `routes` and `router` as [`routes!`] does, of handlers whose signatures describe them.
macro_rules! operations {
    ($state:ty: $($path:literal => $($method:ident $handler:path as $operation:expr),+;)+) => {
        /// Returns the routes that [`router`] serves.
        pub(crate) fn routes() -> Vec<$crate::http::routes::Route> {
            vec![$($(
                $crate::http::routes::Route::new($crate::http::routes::method!($method), $path, $operation)
                    .described(|about| $crate::http::describe::describe($handler, about))
            ),+),+]
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

pub(crate) use {method, operations, routes};
