mod assets;
mod downloads;
mod releases;

use super::call::groups;

groups! { assets downloads releases }
