//! Routes as data: one list makes a router and the table of what it serves, so that the two cannot differ.

/// A method and a path template, as the router knows them.
pub(crate) type Route = (&'static str, &'static str);

/// Makes `ROUTES` and `router` of lines `"/path" => get handler, post handler;`. The state's type comes first.
macro_rules! routes {
    ($state:ty: $($path:literal => $($method:ident $handler:expr),+;)+) => {
        /// What [`router`] serves.
        pub(crate) const ROUTES: &[$crate::routes::Route] =
            &[$($(($crate::routes::method!($method), $path)),+),+];

        /// Serves [`ROUTES`].
        pub(crate) fn router<S>() -> axum::Router<S>
        where
            S: Clone + Send + Sync + 'static,
            $state: axum::extract::FromRef<S>,
        {
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
