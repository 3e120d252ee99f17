use ferrite_proto::id::{DeployKeyId, HookId, IssueId, PublicKeyId, RepositoryId, TeamId, TokenId, UserId};

/// An argument of a statement, of a type that both databases have. `None` is `NULL`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// `BIGINT`, in SQLite `INTEGER`.
    Int(Option<i64>),
    /// `TEXT`. Must not contain NUL, which PostgreSQL rejects; input is validated before.
    Text(Option<String>),
    /// `BOOLEAN`, in SQLite `INTEGER`.
    Bool(Option<bool>),
    /// `BYTEA`, in SQLite `BLOB`.
    Bytes(Option<Vec<u8>>),
}

/// Size counted for a value that is neither text nor bytes.
const FIXED_VALUE_BYTES: u64 = 8;

pub(super) fn bytes_of(values: &[Value]) -> u64 {
    let bytes = |value: &Value| match value {
        Value::Text(Some(text)) => text.len() as u64,
        Value::Bytes(Some(bytes)) => bytes.len() as u64,
        Value::Int(_) | Value::Bool(_) | Value::Text(None) | Value::Bytes(None) => FIXED_VALUE_BYTES,
    };
    values.iter().map(bytes).sum()
}

macro_rules! from {
    ($($type:ty => $variant:ident($value:ident) $convert:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                Self::$variant(Some($convert))
            }
        }

        impl From<Option<$type>> for Value {
            fn from(value: Option<$type>) -> Self {
                Self::$variant(value.map(|$value| $convert))
            }
        }
    )*};
}

from! {
    i64 => Int(value) value;
    i32 => Int(value) i64::from(value);
    u32 => Int(value) i64::from(value);
    UserId => Int(id) id.0;
    RepositoryId => Int(id) id.0;
    TokenId => Int(id) id.0;
    IssueId => Int(id) id.0;
    HookId => Int(id) id.0;
    TeamId => Int(id) id.0;
    PublicKeyId => Int(id) id.0;
    DeployKeyId => Int(id) id.0;
    bool => Bool(value) value;
    String => Text(value) value;
    &str => Text(value) value.to_owned();
    &String => Text(value) value.clone();
    Vec<u8> => Bytes(value) value;
    &[u8] => Bytes(value) value.to_vec();
}
