//! The document of the API (OpenAPI 3.1). It is made of the routes, the signatures of their handlers, and the contracts: the comments of
//! RPCs and messages, the errors that these list, and the permission table.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_api_types::schema::{Schema, Schemas};
use ferrite_proto::operation::Operation;
use ferrite_proto::{Rule, Scope};
use http::StatusCode;
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use serde_json::{Map, Value, json};
use tonic::Code;

use crate::http::error::http_status;
use crate::{Capacity, Description, Route, Success, operations};

/// The parameters of paths: the operation for which the row holds, or nothing for all others, the name, the type and the meaning.
const PATH_PARAMETERS: &[(&str, &str, &str, &str)] = &[
    ("", "owner", "string", "The user or organization that owns the repository."),
    ("", "repo", "string", "The name of the repository."),
    ("", "index", "integer", "The number of the issue in its repository."),
    ("", "id", "integer", "The id."),
    ("GetLabel", "id", "string", "The id, or the name if no label of the repository has that id."),
];
/// The codes that comments of contracts name.
const CODES: [(&str, Code); 10] = [
    ("INVALID_ARGUMENT", Code::InvalidArgument),
    ("NOT_FOUND", Code::NotFound),
    ("ALREADY_EXISTS", Code::AlreadyExists),
    ("PERMISSION_DENIED", Code::PermissionDenied),
    ("UNAUTHENTICATED", Code::Unauthenticated),
    ("RESOURCE_EXHAUSTED", Code::ResourceExhausted),
    ("FAILED_PRECONDITION", Code::FailedPrecondition),
    ("ABORTED", Code::Aborted),
    ("OUT_OF_RANGE", Code::OutOfRange),
    ("UNAVAILABLE", Code::Unavailable),
];
/// Errors of every request, and of every request with a body.
const COMMON: [u16; 5] = [401, 404, 422, 500, 503];
const OF_BODIES: [u16; 4] = [400, 408, 413, 415];

/// The contracts with their comments.
struct Contracts(Vec<FileDescriptorProto>);

/// What the contract says about an RPC.
struct Rpc {
    /// The paragraphs of its comment and of that of its service, without those that list errors.
    about: Vec<String>,
    /// The reasons of its errors by their statuses.
    errors: BTreeMap<u16, BTreeSet<String>>,
    /// The full name of its request, with a dot in front.
    request: String,
}

/// Returns the paragraphs of the comment of the item at `path` (see `SourceCodeInfo.Location.path`).
fn paragraphs(file: &FileDescriptorProto, path: &[i32]) -> Vec<String> {
    let mut locations = file.source_code_info.iter().flat_map(|info| &info.location);
    let Some(location) = locations.find(|location| location.path == path) else { return Vec::new() };
    let lines: Vec<_> = location.leading_comments().lines().map(str::trim).collect();
    lines.split(|line| line.is_empty()).map(|lines| lines.join(" ")).filter(|text| !text.is_empty()).collect()
}

/// Adds the errors that a paragraph lists as `CODE (REASON, REASON)`.
fn add_errors(paragraph: &str, errors: &mut BTreeMap<u16, BTreeSet<String>>) {
    for part in paragraph.split(')') {
        let Some((head, list)) = part.split_once('(') else { continue };
        let Some((_, code)) = CODES.iter().find(|(name, _)| head.trim_end().ends_with(name)) else { continue };
        let is_reason =
            |word: &&str| word.len() > 1 && word.chars().all(|char| char.is_ascii_uppercase() || char == '_');
        let reasons = list.split(',').filter_map(|item| item.split_whitespace().next()).filter(is_reason);
        errors.entry(http_status(*code, "").as_u16()).or_default();
        for reason in reasons {
            match http_status(*code, reason).as_u16() {
                // Clients are not told the reasons of those.
                500 => {}
                status => {
                    errors.entry(status).or_default().insert(reason.to_owned());
                }
            }
        }
    }
}

impl Contracts {
    fn read() -> Self {
        Self(FileDescriptorSet::decode(ferrite_proto::DOCUMENTED).unwrap().file)
    }

    fn rpc(&self, full_name: &str) -> Rpc {
        for file in &self.0 {
            for (at, service) in (0..).zip(&file.service) {
                for (number, method) in (0..).zip(&service.method) {
                    if full_name != format!("{}.{}/{}", file.package(), service.name(), method.name()) {
                        continue;
                    }
                    let (mut about, mut errors) = (Vec::new(), BTreeMap::new());
                    let common = paragraphs(file, &[6, at]).into_iter().filter(|text| text.starts_with("Errors"));
                    for text in paragraphs(file, &[6, at, 2, number]).into_iter().chain(common) {
                        if text.starts_with("Errors") {
                            add_errors(&text, &mut errors);
                        } else {
                            about.push(sentence(text.strip_prefix(method.name()).unwrap_or(&text)));
                        }
                    }
                    return Rpc { about, errors, request: method.input_type().to_owned() };
                }
            }
        }
        panic!("{full_name} is no RPC");
    }

    /// Returns the comment of a field of a message, which is named with a dot in front.
    fn field(&self, message_name: &str, field_name: &str) -> Option<String> {
        self.0.iter().find_map(|file| {
            let named = |name: &str| format!(".{}.{name}", file.package()) == message_name;
            let (at, message) = (0..).zip(&file.message_type).find(|(_, message)| named(message.name()))?;
            let (number, _) = (0..).zip(&message.field).find(|(_, field)| field.name() == field_name)?;
            Some(paragraphs(file, &[4, at, 2, number]).join(" "))
        })
    }
}

/// Returns a text with a capital letter at its beginning.
fn sentence(text: &str) -> String {
    let text = text.trim_start();
    let begin = text.chars().next().map(|char| char.to_ascii_uppercase());
    begin.into_iter().chain(text.chars().skip(1)).collect()
}

fn table_row(route: &Route) -> &'static Operation {
    let capacity = match route.capacity {
        Capacity::Own => ferrite_proto::Capacity::Own,
        Capacity::Organization => ferrite_proto::Capacity::Organization,
        Capacity::Administrator => ferrite_proto::Capacity::Administrator,
    };
    Operation::find(route.operation, capacity).expect("every route names an operation of the table")
}

/// Returns the scope that a token needs.
fn scope(rule: Rule) -> Option<Scope> {
    match rule {
        Rule::Service | Rule::Anyone | Rule::Password => None,
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
        Rule::Password => json!([{"password": []}]),
        Rule::Anyone | Rule::Repository { anonymous: true, .. } => json!([{}, {"token": scopes}]),
        _ => json!([{"token": scopes}]),
    }
}

fn parameters(route: &Route, id: &str, row: &Operation, about: &Description) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| {
        let name = name.trim_start_matches('*');
        let find = |operation: &str| PATH_PARAMETERS.iter().find(|row| (row.0, row.1) == (operation, name));
        let (_, _, kind, about) = find(id).or_else(|| find("")).expect("every parameter is described");
        let schema = if *kind == "integer" {
            json!({"type": "integer", "format": "int64", "minimum": 1})
        } else {
            json!({"type": kind, "minLength": 1})
        };
        json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
    });
    let in_query = about.query.iter().map(|parameter| {
        json!({"name": parameter.name, "in": "query", "description": parameter.about, "schema": parameter.schema})
    });
    let header = if row.is_write { "Idempotency-Key" } else { "If-None-Match" };
    let header = json!({"$ref": format!("#/components/parameters/{header}")});
    in_path.chain(in_query).chain([header]).collect()
}

fn content(schema: &Schema) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn success_response(success: &Success, is_read: bool, schemas: &mut Schemas) -> Value {
    let mut response = json!({"description": reason_phrase(success.status)});
    let mut headers = Vec::new();
    if let Some(schema) = success.schema {
        response["content"] = content(&schema(schemas));
        headers.extend(is_read.then_some("ETag"));
    }
    if success.is_page {
        headers.extend(["Link", "X-Total-Count"]);
    }
    if !headers.is_empty() {
        response["headers"] = header_references(&headers);
    }
    response
}

fn header_references(names: &[&str]) -> Value {
    let reference = |name: &&str| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    Value::Object(names.iter().map(reference).collect())
}

fn reason_phrase(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// Returns the response of an error, which is shared where the contract lists no reasons.
fn error_response(status: u16, reasons: &BTreeSet<String>) -> Value {
    if reasons.is_empty() {
        return json!({"$ref": format!("#/components/responses/{status}")});
    }
    let reasons: Vec<_> = reasons.iter().map(String::as_str).collect();
    described_error(status, &format!("{}: {}", reason_phrase(status), reasons.join(", ")))
}

fn described_error(status: u16, description: &str) -> Value {
    let error = content(&json!({"$ref": "#/components/schemas/Error"}));
    let mut response = json!({"description": description, "content": error});
    match status {
        301 | 307 => response["headers"] = header_references(&["Location"]),
        429 | 503 => response["headers"] = header_references(&["Retry-After"]),
        _ => {}
    }
    response
}

fn responses(route: &Route, row: &Operation, rpc: &Rpc, about: &Description, schemas: &mut Schemas) -> Value {
    let mut responses: Map<String, Value> = about
        .responses
        .iter()
        .map(|success| (success.status.to_string(), success_response(success, !row.is_write, schemas)))
        .collect();
    if !row.is_write {
        let headers = header_references(&["ETag"]);
        responses.insert("304".to_owned(), json!({"description": reason_phrase(304), "headers": headers}));
    }
    let mut errors = rpc.errors.clone();
    let mut add = |statuses: &[u16]| {
        for status in statuses {
            errors.entry(*status).or_default();
        }
    };
    add(&COMMON);
    if row.is_write {
        add(&[429]);
    }
    if about.body.is_some() {
        add(&OF_BODIES);
    }
    if row.rule != Rule::Anyone {
        add(&[403]);
    }
    if route.path.contains("{owner}/{repo}") {
        add(&[if row.is_write { 307 } else { 301 }]);
    }
    responses.extend(errors.iter().map(|(status, reasons)| (status.to_string(), error_response(*status, reasons))));
    Value::Object(responses)
}

/// Returns the name of the object that a schema of a body refers to.
fn body_name(schema: &Schema) -> String {
    let reference = schema.pointer("/anyOf/0/$ref").or_else(|| schema.get("$ref")).and_then(Value::as_str);
    reference.and_then(|text| text.rsplit('/').next()).expect("a body has a name").to_owned()
}

/// Makes the document of the routes that are described.
fn document(routes: &[Route]) -> Value {
    let (contracts, mut schemas, mut paths) = (Contracts::read(), Schemas::default(), Map::new());
    let mut requests = BTreeMap::new();
    for route in routes {
        let Some(describe) = route.describe else { continue };
        let mut about = Description::default();
        describe(&mut about);
        let (row, rpc, id) = (table_row(route), contracts.rpc(route.operation), route.operation_id());
        let mut operation = json!({
            "operationId": id,
            "summary": rpc.about.first(),
            "x-rpc": route.operation,
            "security": security(row),
            "parameters": parameters(route, &id, row, &about),
            "responses": responses(route, row, &rpc, &about, &mut schemas),
        });
        if rpc.about.len() > 1 {
            operation["description"] = rpc.about[1..].join("\n\n").into();
        }
        if let Some(body) = &about.body {
            let schema = (body.schema)(&mut schemas);
            let name = body_name(&schema);
            let object = schemas.resolve(&json!({"$ref": format!("#/components/schemas/{name}")}));
            let is_required = object.is_some_and(|object| object.get("required").is_some());
            operation["requestBody"] =
                json!({"required": is_required, "content": content(&schema), "x-max-bytes": body.max_bytes});
            requests.entry(name).or_insert(rpc.request);
        }
        let path = route.path.replace("{*", "{");
        paths.entry(path).or_insert_with(|| json!({}))[route.method.to_lowercase()] = operation;
    }
    let mut schemas = schemas.into_map();
    for (name, request) in requests {
        let properties = schemas.get_mut(&name).and_then(|schema| schema["properties"].as_object_mut());
        for (field, property) in properties.into_iter().flatten() {
            // What the service's request has by the same name, its contract describes.
            if property.get("description").is_none()
                && let Some(text) = contracts.field(&request, field)
            {
                property["description"] = text.into();
            }
        }
    }
    schemas.insert("Error".to_owned(), error_schema());
    json!({
        "openapi": "3.1.1",
        "info": {"title": "Ferrite", "version": "1"},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": shared_errors(),
            "headers": headers(),
            "parameters": {
                "Idempotency-Key": {
                    "name": "Idempotency-Key", "in": "header",
                    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
                },
                "If-None-Match": {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}},
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
    })
}

fn shared_errors() -> Value {
    let statuses = COMMON.iter().chain(&OF_BODIES).chain(&[301, 307, 403, 429]);
    Value::Object(
        statuses.map(|status| (status.to_string(), described_error(*status, reason_phrase(*status)))).collect(),
    )
}

fn headers() -> Value {
    json!({
        "ETag": {"schema": {"type": "string"}},
        "Link": {"schema": {"type": "string"}},
        "Location": {"schema": {"type": "string", "format": "uri"}, "required": true},
        "Retry-After": {"schema": {"type": "integer", "minimum": 0}, "required": true},
        "X-Total-Count": {"schema": {"type": "integer", "minimum": 0}},
    })
}

fn error_schema() -> Schema {
    let text = json!({"type": "string"});
    let field_error = json!({
        "type": "object",
        "properties": {"field": text, "code": text, "message": text},
        "required": ["field", "code", "message"],
    });
    json!({
        "type": "object",
        "properties": {"message": text, "url": text, "errors": {"type": "array", "items": field_error}},
        "required": ["message", "url"],
    })
}

/// Returns the document of the labels.
fn labels() -> Value {
    let routes: Vec<_> = operations().into_iter().filter(|route| route.path.contains("/labels")).collect();
    assert_eq!(routes.len(), 10);
    document(&routes)
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn every_described_route_has_a_name_of_its_own() {
    let routes: Vec<_> = operations().into_iter().filter(|route| route.describe.is_some()).collect();
    let ids: BTreeSet<_> = routes.iter().map(Route::operation_id).collect();
    assert_eq!(ids.len(), routes.len(), "{ids:?}");
}

#[test]
fn an_operation_is_described_by_its_signature_and_its_contract() {
    let document = labels();
    println!("{document:#}");
    let create = &document["paths"]["/api/v1/repos/{owner}/{repo}/labels"]["post"];
    assert_eq!(create["operationId"], "CreateLabel");
    assert_eq!(create["x-rpc"], "ferrite.issue.v1.LabelService/CreateLabel");
    assert_eq!(create["summary"], "Adds a label to a repository, which may have 1,000.");
    assert_eq!(create["security"], json!([{"token": ["issue"]}]));
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(create["requestBody"]["content"], content(&reference("NewLabel")));
    assert_eq!(
        (&create["requestBody"]["required"], &create["requestBody"]["x-max-bytes"]),
        (&json!(true), &json!(4 << 20))
    );
    assert_eq!(create["responses"]["201"]["content"], content(&reference("Label")));
    let statuses: BTreeSet<_> = keys(&create["responses"]).into_iter().collect();
    let expected: BTreeSet<_> = "201 307 400 401 403 404 408 413 415 422 429 500 503".split(' ').collect();
    assert_eq!(statuses, expected);
    let description = create["responses"]["422"]["description"].as_str().unwrap();
    assert!(description.ends_with(": LABEL_ALREADY_EXISTS, TOO_MANY_LABELS"), "{description}");
    let names: Vec<_> = create["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("owner"), Some("repo"), None]);
    assert_eq!(create["parameters"][2]["$ref"], "#/components/parameters/Idempotency-Key");
}

#[test]
fn routes_of_one_operation_have_names_and_bodies_of_their_own() {
    let document = labels();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
    let ids: BTreeSet<_> = operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    let expected = [
        "ListLabels",
        "GetLabel",
        "CreateLabel",
        "UpdateLabel",
        "DeleteLabel",
        "ListIssueLabels",
        "ChangeIssueLabelsAdd",
        "ChangeIssueLabelsReplace",
        "ChangeIssueLabelsClear",
        "ChangeIssueLabelsRemove",
    ];
    assert_eq!(ids, BTreeSet::from(expected));
    let of_issue = &document["paths"]["/api/v1/repos/{owner}/{repo}/issues/{index}/labels"];
    assert_eq!(keys(&of_issue["delete"]["responses"])[0], "204");
    let body = &of_issue["put"]["requestBody"];
    assert_eq!(body["required"], false);
    let schemas = &body["content"]["application/json"]["schema"]["anyOf"];
    assert_eq!(
        (&schemas[0]["$ref"], &schemas[1]["items"]["format"]),
        (&json!("#/components/schemas/IssueLabels"), &json!("int64"))
    );
}

#[test]
fn a_list_has_pages_and_a_read_has_a_tag() {
    let document = labels();
    let list = &document["paths"]["/api/v1/repos/{owner}/{repo}/labels"]["get"];
    let headers: BTreeSet<_> = keys(&list["responses"]["200"]["headers"]).into_iter().collect();
    assert_eq!(headers, BTreeSet::from(["ETag", "Link", "X-Total-Count"]));
    assert!(keys(&list["responses"]).contains(&"304") && !keys(&list["responses"]).contains(&"429"));
    let limit = list["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "limit").unwrap();
    assert_eq!((&limit["schema"]["default"], &limit["schema"]["x-maximum"]), (&json!(1000), &json!(1000)));
    let get = &document["paths"]["/api/v1/repos/{owner}/{repo}/labels/{id}"]["get"];
    assert_eq!(get["parameters"][2]["schema"]["type"], "string");
}

#[test]
fn fields_are_described_by_the_contract_unless_they_are_here() {
    let document = labels();
    let fields = |name: &str| document["components"]["schemas"][name]["properties"].clone();
    assert_eq!(
        fields("NewLabel")["name"],
        json!({
            "type": "string", "minLength": 1, "maxLength": 50, "examples": ["bug"],
            "description": "Not blank, at most 50 characters; unique in the repository without regard to case.",
        })
    );
    let changed = &fields("ChangedLabel")["name"];
    assert_eq!(changed["description"], "As of a new label. An empty name changes nothing.");
    assert_eq!(changed["type"], json!(["string", "null"]));
    assert_eq!(fields("Label")["color"]["description"], "Without `#`, which it has in requests.");
    assert_eq!(document["components"]["schemas"]["Label"]["required"], json!(["id", "name", "color", "url"]));
}
