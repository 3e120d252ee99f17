//! Whether a field of a body is required, and what its absence means.

use std::marker::PhantomData;

use ferrite_api_types::schema::{Schema, Schemas, nullable};
use serde_json::{Value, json};

use super::{Field, Kind, Mistakes};

/// A required value. An empty one counts as absent.
pub(crate) struct Required<K>(PhantomData<K>);

impl<K: Kind> Field for Required<K> {
    type Value = K::Value;

    const IS_REQUIRED: bool = true;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<K::Value> {
        Present::<K>::read(name, value.filter(|value| !K::is_empty(value)), mistakes)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        let mut schema = K::schema(schemas);
        match schema["type"].as_str() {
            Some("string") if schema.get("minLength").is_none() => schema["minLength"] = json!(1),
            Some("array") => schema["minItems"] = json!(1),
            _ => {}
        }
        schema
    }
}

/// A required value, as [`Required`], that the service checks as well: if nothing else is wrong in
/// the body, the service gets an empty value and reports this error with those that it finds.
pub(crate) struct Checked<K>(PhantomData<K>);

impl<K: Kind<Value: Default>> Field for Checked<K> {
    type Value = K::Value;

    const IS_REQUIRED: bool = true;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<K::Value> {
        match value.filter(|value| !K::is_empty(value)) {
            Some(value) => K::read(name, value, mistakes),
            None => mistakes.add_absent(name),
        }
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        Required::<K>::schema(schemas)
    }
}

/// A required value, which can be empty.
pub(crate) struct Present<K>(PhantomData<K>);

impl<K: Kind> Field for Present<K> {
    type Value = K::Value;

    const IS_REQUIRED: bool = true;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<K::Value> {
        match value {
            Some(value) => K::read(name, value, mistakes),
            None => mistakes.add(name, "required", "is required"),
        }
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        K::schema(schemas)
    }
}

/// An optional value, which can be empty.
pub(crate) struct Optional<K>(PhantomData<K>);

impl<K: Kind> Field for Optional<K> {
    type Value = Option<K::Value>;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<K::Value>> {
        match value {
            Some(value) => K::read(name, value, mistakes).map(Some),
            None => Some(None),
        }
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// An optional value. An empty one counts as absent.
pub(crate) struct NonEmpty<K>(PhantomData<K>);

impl<K: Kind> Field for NonEmpty<K> {
    type Value = Option<K::Value>;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<K::Value>> {
        Optional::<K>::read(name, value.filter(|value| !K::is_empty(value)), mistakes)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// An optional text. A blank one counts as absent.
pub(crate) struct NonBlank<K>(PhantomData<K>);

impl<K: Kind> Field for NonBlank<K> {
    type Value = Option<K::Value>;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<K::Value>> {
        let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
        Optional::<K>::read(name, value.filter(|value| !is_blank(value)), mistakes)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// An optional value with a default.
pub(crate) struct OrDefault<K>(PhantomData<K>);

impl<K: Kind<Value: Default>> Field for OrDefault<K> {
    type Value = K::Value;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<K::Value> {
        Optional::<K>::read(name, value, mistakes).map(Option::unwrap_or_default)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// A value that clients of Gitea send and that cannot have an effect here: it must be absent, empty
/// or false.
pub(crate) struct Unsupported<K>(PhantomData<K>);

impl<K: Kind> Field for Unsupported<K> {
    type Value = ();

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<()> {
        let Some(value) = value.filter(|value| !K::is_empty(value) && *value != Value::Bool(false)) else {
            return Some(());
        };
        K::read(name, value, mistakes)?;
        mistakes.add(name, "invalid", "is not supported")
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// A value that clients of Gitea send and that has no effect here. It must still be valid, unless it
/// is empty.
pub(crate) struct WithoutEffect<K>(PhantomData<K>);

impl<K: Kind> Field for WithoutEffect<K> {
    type Value = ();

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<()> {
        NonEmpty::<K>::read(name, value, mistakes).map(drop)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// A change of a value: `None` if absent, which changes nothing, and `Some(None)` for null, which
/// removes the value.
pub(crate) struct Nullable<K>(PhantomData<K>);

impl<K: Kind> Field for Nullable<K> {
    type Value = Option<Option<K::Value>>;

    const TAKES_NULL: bool = true;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<Option<K::Value>>> {
        match value {
            Some(Value::Null) => Some(Some(None)),
            value => Some(Optional::<K>::read(name, value, mistakes)?.map(Some)),
        }
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(K::schema(schemas))
    }
}

/// A change of a value: `None` if absent, which changes nothing, and `Some(None)` for an empty
/// value, which removes it.
pub(crate) struct Clearable<K>(PhantomData<K>);

impl<K: Kind> Field for Clearable<K> {
    type Value = Option<Option<K::Value>>;

    fn read(name: &str, value: Option<Value>, mistakes: &mut Mistakes) -> Option<Option<Option<K::Value>>> {
        match value {
            Some(value) if K::is_empty(&value) => Some(Some(None)),
            value => Some(Optional::<K>::read(name, value, mistakes)?.map(Some)),
        }
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        json!({"anyOf": [K::schema(schemas), {"const": ""}, {"type": "null"}]})
    }
}
