use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("", "delivery", "string", "The id of the delivery."),
    ("GetHook", "id", "integer", "The id of the webhook."),
    ("UpdateHook", "id", "integer", "The id of the webhook."),
    ("DeleteHook", "id", "integer", "The id of the webhook."),
    ("ListDeliveries", "id", "integer", "The id of the webhook."),
    ("GetDelivery", "id", "integer", "The id of the webhook."),
    ("Redeliver", "id", "integer", "The id of the webhook."),
    ("ReplayDeliveries", "id", "integer", "The id of the webhook."),
    ("TestHook", "id", "integer", "The id of the webhook."),
];
