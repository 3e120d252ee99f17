//! Organizations, members and teams.

use super::Row;

pub(super) const ROWS: &[Row] = &[];
