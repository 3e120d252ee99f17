use std::collections::{BTreeMap, BTreeSet};

use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_proto::operation::{self, Operation};
use ferrite_proto::{Rule, Scope};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::contracts::{Contracts, Rpc};
use super::groups::group;
use super::parameters::path_parameter;
use super::summaries::summary;
use crate::api::ConditionalWrite;
use crate::{Capacity, Description, Route, Success};

/// Errors of every request, of every request whose credentials are looked at, and of every request
/// with a body.
const OF_ALL: [u16; 2] = [500, 503];
const COMMON: [u16; 5] = [401, 404, 422, 500, 503];
const OF_BODIES: [u16; 4] = [400, 408, 413, 415];

/// Writes that ignore an `Idempotency-Key`, because repeating them is safe.
const WITHOUT_KEY: [&str; 11] = [
    operation::STAR_REPOSITORY,
    operation::UNSTAR_REPOSITORY,
    operation::WATCH_REPOSITORY,
    operation::UNWATCH_REPOSITORY,
    operation::FOLLOW_USER,
    operation::UNFOLLOW_USER,
    operation::SET_PROTECTION,
    operation::UPDATE_PROTECTION,
    operation::DELETE_PROTECTION,
    operation::DELETE_EMAILS,
    operation::SYNC_MIRROR,
];

/// Returns the row of a route. What anyone may read of an account needs a token if that is the caller's
/// own, which the path does not name.
fn table_row(route: &Route) -> Operation {
    let capacity = match route.capacity {
        Capacity::Own => ferrite_proto::Capacity::Own,
        Capacity::Organization => ferrite_proto::Capacity::Organization,
        Capacity::Administrator => ferrite_proto::Capacity::Administrator,
    };
    let row = Operation::find(route.operation, capacity).expect("every route names an operation of the table");
    let rule = match (row.rule, row.name) {
        (Rule::Anyone, _) if !route.path.starts_with("/api/v1/user/") => Rule::Anyone,
        (Rule::Anyone, operation::LIST_REPOSITORIES) => Rule::User(Some(Scope::RepoRead)),
        (Rule::Anyone, _) => Rule::User(None),
        (rule, _) => rule,
    };
    Operation { rule, ..*row }
}

/// Returns the conditional request parameters that the gateway accepts on the route.
fn conditions(route: &Route, routes: &[Route]) -> Vec<&'static str> {
    let is_write = ConditionalWrite::of(route, routes).is_some_and(|write| write.takes_tags());
    let taken = [("If-None-Match", route.has_tag()), ("If-Match", is_write), ("If-None-Match-Write", is_write)];
    taken.into_iter().filter(|(_, is_taken)| *is_taken).map(|(name, _)| name).collect()
}

fn scope(rule: Rule) -> Option<Scope> {
    match rule {
        Rule::Service | Rule::Public | Rule::Anyone | Rule::Password => None,
        Rule::User(scope) => scope,
        Rule::Administrator => Some(Scope::Admin),
        Rule::Organization(_, scope) => Some(scope),
        Rule::Team(_) => Some(Scope::Org),
        Rule::Repository { unit, level, .. } => Some(unit.scope(level)),
    }
}

fn security(row: &Operation) -> Value {
    let scopes: Vec<_> = scope(row.rule).into_iter().chain(row.further_scope).map(Scope::as_str).collect();
    match row.rule {
        Rule::Public => json!([]),
        Rule::Password => json!([{"password": []}]),
        Rule::Anyone | Rule::Repository { anonymous: true, .. } => json!([{}, {"token": scopes}]),
        _ => json!([{"token": scopes}]),
    }
}

fn parameters(route: &Route, id: &str, row: &Operation, about: &Description, conditions: &[&str]) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        let name = name.trim_start_matches('*');
        let (kind, about) = path_parameter([id, route.operation_name()], name);
        let schema = if kind == "integer" {
            json!({"type": "integer", "format": "int64", "minimum": 1})
        } else {
            json!({"type": kind, "minLength": 1})
        };
        json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
    });
    let others = [("query", &about.query), ("header", &about.headers)].into_iter().flat_map(|(place, parameters)| {
        parameters
            .iter()
            .map(move |one| json!({"name": one.name, "in": place, "description": one.about, "schema": one.schema}))
    });
    // Responses of operations with a password are not stored, because one of them has a secret.
    let takes_key = row.is_write && row.rule != Rule::Password && !WITHOUT_KEY.contains(&route.operation);
    let shared = takes_key.then_some("Idempotency-Key").into_iter().chain(conditions.iter().copied());
    let shared = shared.map(|name| json!({"$ref": format!("#/components/parameters/{name}")}));
    in_path.chain(others).chain(shared).collect()
}

pub(super) fn content(schema: &Schema) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn add_success(responses: &mut Map<String, Value>, success: &Success, is_read: bool, schemas: &mut Schemas) {
    let empty = || json!({"description": reason_phrase(success.status)});
    let response = responses.entry(success.status.to_string()).or_insert_with(empty);
    let mut headers = success.headers.to_vec();
    if let Some((media_type, schema)) = success.body {
        let schema = schema(schemas);
        let known = response["content"][media_type]["schema"].take();
        response["content"][media_type]["schema"] = match known {
            Value::Null => schema,
            known if known == schema => schema,
            known => json!({"anyOf": [known, schema]}),
        };
        headers.extend((is_read && media_type == "application/json").then_some("ETag"));
    }
    // The file does not have this range.
    if success.status == 416 {
        response["content"] = content(&json!({"$ref": "#/components/schemas/Error"}));
    }
    if let Value::Object(references) = header_references(&headers)
        && !references.is_empty()
    {
        let mut all = response["headers"].as_object().cloned().unwrap_or_default();
        all.extend(references);
        response["headers"] = Value::Object(all);
    }
}

fn header_references(names: &[&str]) -> Value {
    let reference = |name: &&str| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    Value::Object(names.iter().map(reference).collect())
}

fn reason_phrase(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// Returns an error response: the shared one if the contract lists no reasons.
fn error_response(status: u16, reasons: &BTreeSet<String>) -> Value {
    if reasons.is_empty() {
        return json!({"$ref": format!("#/components/responses/{status}")});
    }
    let list: Vec<_> = reasons.iter().map(String::as_str).collect();
    let mut response = described_error(status, &format!("{}: {}", reason_phrase(status), list.join(", ")));
    if reasons.contains("INTERRUPTED") {
        response["headers"] = header_references(&["Retry-After"]);
    } else if reasons.contains("HEAD_MOVED") {
        // Absent if the caller named the head.
        response["headers"] = json!({"Retry-After": {"schema": {"type": "integer", "minimum": 0}}});
    }
    response
}

fn described_error(status: u16, description: &str) -> Value {
    let error = content(&json!({"$ref": "#/components/schemas/Error"}));
    let mut response = json!({"description": description, "content": error});
    match status {
        301 | 307 => response["headers"] = header_references(&["Location"]),
        401 => response["headers"] = header_references(&["WWW-Authenticate"]),
        412 => response["headers"] = header_references(&["ETag"]),
        415 => response["headers"] = header_references(&["Accept-Encoding"]),
        429 | 503 => response["headers"] = header_references(&["Retry-After"]),
        _ => {}
    }
    response
}

fn responses(route: &Route, row: &Operation, rpc: &Rpc, about: &Description, schemas: &mut Schemas) -> Value {
    let is_read = route.method == "GET";
    let mut responses = Map::new();
    for success in &about.responses {
        add_success(&mut responses, success, is_read, schemas);
    }
    if route.has_tag() {
        let json = about.responses.iter().filter(|one| one.body.is_some_and(|body| body.0 == "application/json"));
        let has_date = about.responses.iter().any(|one| one.headers.contains(&"Last-Modified"));
        let of_all = ["ETag"].into_iter().chain(has_date.then_some("Last-Modified"));
        let headers: Vec<_> = json.flat_map(|one| one.headers).copied().chain(of_all).collect();
        let headers = header_references(&headers);
        responses.insert("304".to_owned(), json!({"description": reason_phrase(304), "headers": headers}));
    }
    let mut errors = rpc.errors.clone();
    // If the request has no body, the requested data is too large. The gateway sends 422 for that.
    if about.bodies.is_empty()
        && let Some(reasons) = errors.remove(&413)
    {
        errors.entry(422).or_default().extend(reasons);
    }
    let mut add = |statuses: &[u16]| {
        for status in statuses {
            errors.entry(*status).or_default();
        }
    };
    add(if row.rule == Rule::Public { &OF_ALL } else { &COMMON });
    if row.is_write {
        add(&[429]);
    }
    // Even if no read of the path has a tag: `If-Match` never matches then.
    if matches!(route.method, "PATCH" | "PUT" | "DELETE") {
        add(&[412]);
    }
    if !about.bodies.is_empty() {
        add(&OF_BODIES);
    }
    if !matches!(row.rule, Rule::Anyone | Rule::Public) {
        add(&[403]);
    }
    if route.path.contains("{owner}/{repo}") {
        add(&[if row.is_write { 307 } else { 301 }]);
    }
    responses.extend(errors.iter().map(|(status, reasons)| (status.to_string(), error_response(*status, reasons))));
    Value::Object(responses)
}

fn body_name(schema: &Schema) -> String {
    let reference = schema.pointer("/anyOf/0/$ref").or_else(|| schema.get("$ref")).and_then(Value::as_str);
    reference.and_then(|text| text.rsplit('/').next()).expect("a body has a name").to_owned()
}

pub(super) fn document(routes: &[Route]) -> Value {
    let (contracts, mut schemas, mut paths) = (Contracts::read(), Schemas::default(), Map::new());
    let mut requests = BTreeMap::new();
    for route in routes {
        let Some(describe) = route.describe else { continue };
        let mut about = Description::default();
        describe(&mut about);
        let (row, rpc, id) = (table_row(route), contracts.rpc(route.operation), route.operation_id());
        let mut operation = json!({
            "operationId": id,
            "tags": [group(route.operation)],
            "summary": summary(&id).or(rpc.about.first().map(String::as_str)),
            "x-rpc": route.operation,
            "security": security(&row),
            "parameters": parameters(route, &id, &row, &about, &conditions(route, routes)),
            "responses": responses(route, &row, &rpc, &about, &mut schemas),
        });
        if rpc.about.len() > 1 {
            operation["description"] = rpc.about[1..].join("\n\n").into();
        }
        let (mut is_required, mut contents) = (true, Map::new());
        for body in &about.bodies {
            let schema = (body.schema)(&mut schemas);
            if body.media_type == "application/json" {
                let name = body_name(&schema);
                let object = schemas.resolve(&json!({"$ref": format!("#/components/schemas/{name}")}));
                is_required = object.is_some_and(|object| object.get("required").is_some());
                requests.entry(name).or_insert(rpc.request.clone());
            }
            contents.insert(body.media_type.to_owned(), json!({"schema": schema}));
        }
        if !contents.is_empty() {
            operation["requestBody"] = json!({"required": is_required, "content": contents});
        }
        if let Some(max_bytes) = about.bodies.iter().filter_map(|body| body.max_bytes).max() {
            operation["requestBody"]["x-max-bytes"] = max_bytes.into();
        }
        let path = route.path.replace("{*", "{");
        paths.entry(path).or_insert_with(|| json!({}))[route.method.to_lowercase()] = operation;
    }
    let mut schemas = schemas.into_map();
    for (name, request) in requests {
        let properties = schemas.get_mut(&name).and_then(|schema| schema["properties"].as_object_mut());
        for (field, property) in properties.into_iter().flatten() {
            // If the service's request has a field of this name, its contract describes it.
            if property.get("description").is_none()
                && let Some(text) = contracts.field(&request, field)
            {
                property["description"] = text.into();
            }
        }
    }
    schemas.insert("Error".to_owned(), error_schema());
    schemas.insert("FieldError".to_owned(), field_error_schema());
    let errors = shared_errors();
    keep_used(&mut schemas, paths.values().chain([&errors]));
    json!({
        "openapi": "3.1.1",
        "info": info(),
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": errors,
            "headers": headers(),
            "parameters": shared_parameters(),
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer",
                    "description": "An access token, as `Authorization: token T` or `Authorization: Bearer T`.",
                },
                "password": {
                    "type": "http", "scheme": "basic",
                    "description": "A user name and a password, accepted only for the user's access tokens and for a new password.",
                },
            },
        },
    })
}

/// Removes schemas that cannot be reached from `roots`, such as those flattened into others.
fn keep_used<'a>(schemas: &mut BTreeMap<String, Schema>, roots: impl Iterator<Item = &'a Value>) {
    let mut used = BTreeSet::new();
    roots.for_each(|root| add_used(root, schemas, &mut used));
    schemas.retain(|name, _| used.contains(name));
}

/// Adds the names of the schemas that can be reached from `value`.
fn add_used(value: &Value, schemas: &BTreeMap<String, Schema>, used: &mut BTreeSet<String>) {
    let reference = value.get("$ref").and_then(Value::as_str);
    if let Some(name) = reference.and_then(|text| text.strip_prefix("#/components/schemas/"))
        && used.insert(name.to_owned())
        && let Some(schema) = schemas.get(name)
    {
        add_used(schema, schemas, used);
    }
    match value {
        Value::Object(entries) => entries.values().for_each(|entry| add_used(entry, schemas, used)),
        Value::Array(items) => items.iter().for_each(|item| add_used(item, schemas, used)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn info() -> Value {
    let license = env!("CARGO_PKG_LICENSE");
    json!({
        "title": "Ferrite",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "The REST API of Ferrite. The guide at `/docs/api/guide` explains what all operations share, such as pagination.",
        "license": {"name": license, "identifier": license},
    })
}

fn shared_errors() -> Value {
    let statuses = COMMON.iter().chain(&OF_BODIES).chain(&[301, 307, 403, 412, 429]);
    Value::Object(
        statuses.map(|status| (status.to_string(), described_error(*status, reason_phrase(*status)))).collect(),
    )
}

fn request_header(name: &str, about: &str, schema: &Schema) -> Value {
    json!({"name": name, "in": "header", "description": about, "schema": schema})
}

fn shared_parameters() -> Value {
    let text = json!({"type": "string"});
    let key = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"});
    json!({
        "Idempotency-Key": request_header(
            "Idempotency-Key",
            "A new text for each write. If the response is lost, repeat the request with the same key: it has no second effect. \
             Responses are stored for 24 hours. Operations that are safe to repeat ignore it.",
            &key,
        ),
        "If-Match": request_header(
            "If-Match",
            "Entity tags from the `ETag` header of earlier GET responses of this path, or `*` for any. The write is done only if the \
             current tag of the resource is one of them.",
            &text,
        ),
        "If-None-Match": request_header(
            "If-None-Match",
            "Entity tags from the `ETag` header of earlier responses. If the current tag is one of them, the response is a 304 without \
             a body.",
            &text,
        ),
        "If-None-Match-Write": request_header(
            "If-None-Match",
            "Entity tags from the `ETag` header of earlier GET responses of this path, or `*` for any. The write is done only if the \
             current tag of the resource is none of them. With `*`, it is done only if it creates the resource.",
            &text,
        ),
    })
}

fn headers() -> Value {
    json!({
        "Accept-Encoding": {"schema": {"const": "identity"}, "description": "Present if the body was compressed."},
        "Accept-Ranges": {"schema": {"const": "bytes"}},
        "Content-Disposition": {"schema": {"type": "string"}},
        "Content-Range": {"schema": {"type": "string"}},
        "Content-Transfer-Encoding": {"schema": {"const": "binary"}},
        "ETag": {"schema": {"type": "string"}},
        "Last-Modified": {"schema": {"type": "string"}},
        "Link": {"schema": {"type": "string"}},
        "Location": {"schema": {"type": "string", "format": "uri"}, "required": true},
        "Preference-Applied": {"schema": {"type": "string"}},
        "Retry-After": {"schema": {"type": "integer", "minimum": 0}, "required": true},
        "WWW-Authenticate": {
            "schema": {"type": "string"},
            "required": true,
            "description": "`Bearer`, or `Basic` where only a password is accepted.",
        },
        "X-Total-Count": {"schema": {"type": "integer", "minimum": 0}},
    })
}

fn field_error_schema() -> Schema {
    json!({
        "type": "object",
        "description": "A refused field. The guide (`/docs/api/guide`, section Errors) defines the codes.",
        "properties": {
            "field": {"type": "string", "description": "Its name, such as `name` or `config.url`."},
            "code": {"type": "string", "description": "Why it is refused, for programs.", "examples": ["required"]},
            "message": {"type": "string", "description": "The same for people."},
        },
        "required": ["field", "code", "message"],
    })
}

fn error_schema() -> Schema {
    let field_error = json!({"$ref": "#/components/schemas/FieldError"});
    json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "A summary for people; do not parse it."},
            "reason": {
                "type": "string",
                "description": "Why, for programs: one of those that the operation lists for the status. Absent if the status and \
                     `errors` say it all.",
                "examples": ["BRANCH_PROTECTED"],
            },
            "url": {"type": "string", "description": "This operation in the reference."},
            "errors": {"type": "array", "items": field_error, "description": "The refused fields."},
        },
        "required": ["message", "url"],
    })
}
