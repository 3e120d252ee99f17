//! JSON Schemas of shapes, for the OpenAPI document. [`shape!`](crate::shape) defines a struct with
//! its schema, [`word_shape!`](crate::word_shape) an enum serialized as a word.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A JSON Schema (2020-12).
pub type Schema = Value;

/// Where an OpenAPI document keeps named schemas.
const COMPONENTS: &str = "#/components/schemas/";

/// A response value with a schema.
pub trait Shape {
    /// Returns the schema and adds named parts to `schemas`.
    fn schema(schemas: &mut Schemas) -> Schema;
}

/// The named schemas of a document.
#[derive(Clone, Debug, Default)]
pub struct Schemas {
    by_name: BTreeMap<String, Schema>,
    /// The type path of each schema.
    paths: BTreeMap<String, String>,
}

impl Schemas {
    /// Adds the object for the type at `path`, named after its last segment, with the lines of its
    /// comment and the fields from `add_fields`. Returns a reference to it.
    ///
    /// # Panics
    /// If another type has the same name.
    pub fn object(
        &mut self,
        path: &str,
        about: &[&str],
        add_fields: impl FnOnce(&mut ObjectFields, &mut Self),
    ) -> Schema {
        let name = path.rsplit("::").next().unwrap_or(path);
        let first = self.paths.entry(name.to_owned()).or_insert_with(|| path.to_owned());
        assert_eq!(*first, path, "two types have the same name in the document");
        if !self.by_name.contains_key(name) {
            // Reserve the name first: a field may have the same shape.
            self.by_name.insert(name.to_owned(), Value::Null);
            let mut fields = ObjectFields::default();
            add_fields(&mut fields, self);
            let mut object = json!({"type": "object", "properties": fields.properties});
            if !fields.required.is_empty() {
                object["required"] = fields.required.into();
            }
            self.by_name.insert(name.to_owned(), described(object, about));
        }
        json!({"$ref": format!("{COMPONENTS}{name}")})
    }

    /// Returns the schema that `schema` refers to.
    #[must_use]
    pub fn resolve(&self, schema: &Schema) -> Option<&Schema> {
        self.by_name.get(schema.get("$ref")?.as_str()?.strip_prefix(COMPONENTS)?)
    }

    /// Returns the schemas by name.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, Schema> {
        self.by_name
    }
}

/// The fields of an object.
#[derive(Debug, Default)]
pub struct ObjectFields {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl ObjectFields {
    /// Adds a field with the lines of its comment.
    pub fn add(&mut self, name: &str, about: &[&str], schema: Schema, is_required: bool) {
        self.properties.insert(name.to_owned(), described(schema, about));
        if is_required {
            self.required.push(name.to_owned());
        }
    }

    /// Adds the fields of the object that `schema` refers to.
    pub fn add_fields_of(&mut self, schema: &Schema, schemas: &Schemas) {
        let object = schemas.resolve(schema).cloned().unwrap_or_default();
        self.properties.extend(object["properties"].as_object().cloned().unwrap_or_default());
        let required = object["required"].as_array().cloned().unwrap_or_default();
        self.required.extend(required.iter().filter_map(Value::as_str).map(str::to_owned));
    }

    /// Adds a field of a struct as serde writes it, by what its attribute says (`rename = "type"`).
    pub fn add_written(&mut self, name: &str, about: &[&str], serde: &str, schema: Schema, schemas: &Schemas) {
        if serde == "flatten" {
            let (is_optional, required) = (schema.get("anyOf").is_some(), self.required.len());
            self.add_fields_of(&without_null(schema), schemas);
            if is_optional {
                self.required.truncate(required);
            }
            return;
        }
        let renamed = serde.split_once("rename = \"").and_then(|(_, rest)| rest.split('"').next());
        let schema = if serde.contains("Option::is_none") { without_null(schema) } else { schema };
        self.add(renamed.unwrap_or(name), about, schema, !serde.contains("skip_serializing_if"));
    }
}

/// Adds the lines of a comment as the description.
fn described(mut schema: Schema, about: &[&str]) -> Schema {
    if !about.is_empty() {
        let lines: Vec<_> = about.iter().map(|line| line.trim()).collect();
        schema["description"] = lines.join(" ").into();
    }
    schema
}

/// Returns the schema of a text that is one of `words`.
#[must_use]
pub fn words(words: &[&str]) -> Schema {
    json!({"type": "string", "enum": words})
}

/// Returns a schema that also allows null.
#[must_use]
pub fn nullable(mut schema: Schema) -> Schema {
    match schema.get("type").cloned() {
        Some(kind @ Value::String(_)) if schema.get("enum").is_none() => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

/// Undoes [`nullable`].
fn without_null(mut schema: Schema) -> Schema {
    if let Some(one) = schema.pointer("/anyOf/0") {
        return one.clone();
    }
    if let Some(kind) = schema.pointer("/type/0").cloned() {
        schema["type"] = kind;
    }
    schema
}

impl Shape for String {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "string"})
    }
}

impl Shape for bool {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "boolean"})
    }
}

impl Shape for i64 {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "integer", "format": "int64"})
    }
}

impl Shape for i32 {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "integer", "format": "int32"})
    }
}

impl Shape for usize {
    fn schema(_: &mut Schemas) -> Schema {
        json!({"type": "integer", "format": "int64", "minimum": 0})
    }
}

impl Shape for &'static str {
    fn schema(schemas: &mut Schemas) -> Schema {
        String::schema(schemas)
    }
}

/// Any value.
impl Shape for Value {
    fn schema(_: &mut Schemas) -> Schema {
        json!({})
    }
}

impl<T: Shape> Shape for BTreeMap<String, T> {
    fn schema(schemas: &mut Schemas) -> Schema {
        json!({"type": "object", "additionalProperties": T::schema(schemas)})
    }
}

impl<T: Shape> Shape for Box<T> {
    fn schema(schemas: &mut Schemas) -> Schema {
        T::schema(schemas)
    }
}

/// An always empty list.
impl<T: Shape> Shape for [T; 0] {
    fn schema(schemas: &mut Schemas) -> Schema {
        json!({"type": "array", "items": T::schema(schemas), "maxItems": 0})
    }
}

impl<T: Shape> Shape for Option<T> {
    fn schema(schemas: &mut Schemas) -> Schema {
        nullable(T::schema(schemas))
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn schema(schemas: &mut Schemas) -> Schema {
        json!({"type": "array", "items": T::schema(schemas)})
    }
}

/// Defines a response struct and its [`Shape`](crate::schema::Shape): `shape! { #[derive(…)] struct
/// Name { … } }`. A field may have one serde attribute after its comment.
#[macro_export]
macro_rules! shape {
    (
        $(#[doc = $about:literal])*
        #[derive($($derived:ident),+)]
        $seen:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[serde($($serde:tt)+)])?
                $field_seen:vis $field:ident: $type:ty
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive($($derived),+)]
        $seen struct $name {
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)+)])?
                $field_seen $field: $type
            ),+
        }

        impl $crate::schema::Shape for $name {
            fn schema(schemas: &mut $crate::schema::Schemas) -> $crate::schema::Schema {
                schemas.object(concat!(module_path!(), "::", stringify!($name)), &[$($about),*], |fields, schemas| {
                    $(
                        let schema = <$type as $crate::schema::Shape>::schema(schemas);
                        let serde = stringify!($($($serde)+)?);
                        fields.add_written(stringify!($field), &[$($doc),*], serde, schema, schemas);
                    )+
                })
            }
        }
    };
}

/// Defines an enum serialized as a word, and its [`Shape`](crate::schema::Shape): `word_shape! {
/// #[derive(…)] enum Name { Variant = "word" } }`.
#[macro_export]
macro_rules! word_shape {
    (
        $(#[doc = $about:literal])*
        #[derive($($derived:ident),+)]
        $seen:vis enum $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $variant:ident = $word:literal
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive($($derived),+)]
        $seen enum $name {
            $(
                $(#[doc = $doc])*
                $variant
            ),+
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(match self {
                    $(Self::$variant => $word),+
                })
            }
        }

        impl $crate::schema::Shape for $name {
            fn schema(_: &mut $crate::schema::Schemas) -> $crate::schema::Schema {
                $crate::schema::words(&[$($word),+])
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    shape! {
        /// Part of
        /// another one.
        #[derive(Serialize)]
        struct Part {
            id: i64,
            #[serde(skip_serializing_if = "Option::is_none")]
            note: Option<String>,
        }
    }

    shape! {
        #[derive(Serialize)]
        struct Whole {
            #[serde(flatten)]
            part: Part,
            /// The kind.
            #[serde(rename = "type")]
            kind: Option<String>,
            parts: Vec<Part>,
            next: Option<Part>,
        }
    }

    word_shape! {
        #[derive(Clone, Copy, Debug)]
        enum Size {
            Small = "small",
            Large = "large",
        }
    }

    shape! {
        #[derive(Serialize)]
        struct More {
            #[serde(flatten)]
            part: Option<Part>,
            size: Size,
            #[serde(skip_serializing_if = "Option::is_none")]
            other: Option<Size>,
            sizes: BTreeMap<String, i32>,
            none: [&'static str; 0],
            any: Box<Value>,
        }
    }

    #[test]
    #[should_panic(expected = "two types have the same name")]
    fn a_name_has_one_type() {
        let mut schemas = Schemas::default();
        Part::schema(&mut schemas);
        schemas.object("other::Part", &[], |_, _| {});
    }

    #[test]
    fn words_maps_and_parts_that_may_be_absent_are_described() {
        let (sizes, any) = (BTreeMap::from([("a".to_owned(), 1)]), Box::new(json!([true])));
        let more = More { part: None, size: Size::Small, other: Some(Size::Large), sizes, none: [], any };
        let written = serde_json::to_value(more).unwrap();
        let expected = json!({"size": "small", "other": "large", "sizes": {"a": 1}, "none": [], "any": [true]});
        assert_eq!(written, expected);
        let mut schemas = Schemas::default();
        More::schema(&mut schemas);
        let size = json!({"type": "string", "enum": ["small", "large"]});
        let expected = json!({
            "type": "object",
            "properties": {
                "id": {"type": "integer", "format": "int64"},
                "note": {"type": "string"},
                "size": size,
                "other": size,
                "sizes": {"type": "object", "additionalProperties": {"type": "integer", "format": "int32"}},
                "none": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
                "any": {},
            },
            "required": ["size", "sizes", "none", "any"],
        });
        assert_eq!(schemas.into_map()["More"], expected);
        assert_eq!(usize::schema(&mut Schemas::default())["minimum"], 0);
    }

    #[test]
    fn a_struct_is_described_as_serde_writes_it() {
        let part = || Part { id: 1, note: None };
        let whole = Whole { part: part(), kind: None, parts: vec![part()], next: Some(part()) };
        let written = serde_json::to_value(whole).unwrap();
        assert_eq!(written, json!({"id": 1, "type": null, "parts": [{"id": 1}], "next": {"id": 1}}));
        let mut schemas = Schemas::default();
        assert_eq!(Whole::schema(&mut schemas), json!({"$ref": "#/components/schemas/Whole"}));
        let part = json!({"$ref": "#/components/schemas/Part"});
        let expected = json!({
            "Part": {
                "type": "object",
                "description": "Part of another one.",
                "properties": {"id": {"type": "integer", "format": "int64"}, "note": {"type": "string"}},
                "required": ["id"],
            },
            "Whole": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "format": "int64"},
                    "note": {"type": "string"},
                    "type": {"type": ["string", "null"], "description": "The kind."},
                    "parts": {"type": "array", "items": part},
                    "next": {"anyOf": [part, {"type": "null"}]},
                },
                "required": ["id", "type", "parts", "next"],
            },
        });
        assert_eq!(json!(schemas.into_map()), expected);
    }
}
