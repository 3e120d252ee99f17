use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("SetEmailVerification", "email", "string", "The e-mail address."),
    ("GetQuota", "username", "string", "The name of the user or organization."),
    ("UpdateQuota", "username", "string", "The name of the user or organization."),
    ("SetStore", "name", "string", "The name of the store."),
    ("UpdateStore", "name", "string", "The name of the store."),
    ("DeleteStore", "name", "string", "The name of the store."),
];
