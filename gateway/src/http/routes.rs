//! Routes as data: one list gives the router and the table of its routes, so that they cannot
//! differ. Each route names its operation, by which repo-svc decides about permissions.

use ferrite_proto::operation;

use super::describe::{Description, Success};

/// Names in the OpenAPI document of operations that are not RPCs.
const OTHER_NAMES: [(&str, &str); 6] = [
    (operation::RAW, "GetRawFile"),
    (operation::ARCHIVE, "GetArchive"),
    (operation::ASSET, "DownloadReleaseAsset"),
    (operation::RENDER_MARKDOWN, "RenderMarkdown"),
    (operation::GET_SETTINGS, "GetSettings"),
    (operation::GET_VERSION, "GetVersion"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    Own,
    /// For the organization in the path.
    Organization,
    /// As an administrator of the site, for the account or team in the path.
    Administrator,
}

#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Full method name of an RPC (`ferrite.repo.v1.AccountService/GetUser`), name of an HTTP body
    /// of git-svc (`git/raw`), or name of an operation of the gateway itself (`gateway/markdown`).
    pub operation: &'static str,
    pub capacity: Capacity,
    /// Distinguishes routes with the same operation and capacity; empty if there is only one.
    pub variant: &'static str,
    pub method: &'static str,
    /// Path template of the router, for example `/api/v1/users/{username}`.
    pub path: &'static str,
    /// Describes the handler's inputs and output; `None` for git over HTTP, which the OpenAPI
    /// document omits.
    pub describe: Option<fn(&mut Description)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    name: &'static str,
    capacity: Capacity,
    variant: &'static str,
}

impl Route {
    pub(crate) fn new(method: &'static str, path: &'static str, operation: impl Into<Operation>) -> Self {
        let Operation { name, capacity, variant } = operation.into();
        Self { operation: name, capacity, variant, method, path, describe: None }
    }

    pub(crate) fn described(self, describe: fn(&mut Description)) -> Self {
        Self { describe: Some(describe), ..self }
    }

    /// Returns the `operationId`: the name of the RPC, the variant and the capacity. It is also the
    /// anchor of the route in the documentation.
    #[must_use]
    pub fn operation_id(&self) -> String {
        let capacity = match self.capacity {
            Capacity::Own => "",
            Capacity::Organization => "OfOrganization",
            Capacity::Administrator => "AsAdministrator",
        };
        [self.operation_name(), self.variant, capacity].concat()
    }

    /// Whether it is a read whose responses have entity tags.
    pub(crate) fn has_tag(&self) -> bool {
        let mut about = Description::default();
        if let Some(describe) = self.describe {
            describe(&mut about);
        }
        self.method == "GET" && about.responses.iter().any(Success::has_tag)
    }

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

pub(crate) fn organization(name: &'static str) -> Operation {
    Operation { capacity: Capacity::Organization, ..name.into() }
}

pub(crate) fn administrator(name: &'static str) -> Operation {
    Operation { capacity: Capacity::Administrator, ..name.into() }
}

/// One of several routes with the same operation.
pub(crate) fn variant(operation: impl Into<Operation>, variant: &'static str) -> Operation {
    Operation { variant, ..operation.into() }
}

/// Defines the functions `routes` and `router` from the state's type and lines such as `"/path" =>
/// get handler as OPERATION, post handler as OPERATION;`.
macro_rules! routes {
    ($state:ty: $($path:literal => $($method:ident $handler:path as $operation:expr),+;)+) => {
        pub(crate) fn routes() -> Vec<$crate::http::routes::Route> {
            vec![$($($crate::http::routes::Route::new($crate::http::routes::method!($method), $path, $operation)),+),+]
        }

        pub(crate) fn router() -> axum::Router<$state> {
            axum::Router::new()$(.route($path, axum::routing::MethodRouter::new()$(.$method($handler))+))+
        }
    };
}

/// As [`routes!`], with handlers whose signatures describe them.
macro_rules! operations {
    ($state:ty: $($path:literal => $($method:ident $handler:path as $operation:expr),+;)+) => {
        pub(crate) fn routes() -> Vec<$crate::http::routes::Route> {
            vec![$($(
                $crate::http::routes::Route::new($crate::http::routes::method!($method), $path, $operation)
                    .described(|about| $crate::http::describe::describe($handler, about))
            ),+),+]
        }

        pub(crate) fn router() -> axum::Router<$state> {
            axum::Router::new()$(.route($path, axum::routing::MethodRouter::new()$(.$method($handler))+))+
        }
    };
}

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
