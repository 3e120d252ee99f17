//! Webhooks and their deliveries.

use super::Row;

pub(super) const ROWS: &[Row] = &[("", "delivery", "string", "The id of the delivery.")];
