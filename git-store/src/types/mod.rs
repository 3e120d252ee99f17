//! Plain values that all other modules use: names, paths, protection rules, limits, errors. No I/O.

/// Displays types that wrap bytes as text.
macro_rules! printed {
    ($($name:ident)*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str(&String::from_utf8_lossy(&self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), out)
            }
        }
    )*};
}

pub mod archive;
pub mod error;
pub mod limits;
pub mod merge_requirements;
pub mod name;
pub mod path;
pub mod protection;
pub mod push_options;
pub mod required_reviews;
pub mod weak_map;
pub mod wiki;
