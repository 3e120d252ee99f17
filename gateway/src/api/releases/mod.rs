//! Releases of repositories, the entries of their files, and the downloads of these.

mod assets;
mod downloads;
mod releases;

use super::call::groups;

groups! { assets downloads releases }
