//! Tests of the document on the example of labels, and with handlers made for these tests.

#![expect(dead_code, reason = "no handler reads its request")]

use std::collections::BTreeSet;

use ferrite_api_types::{Label, Milestone};
use ferrite_proto::operation;
use serde_json::{Value, json};

use super::contracts::Contracts;
use super::document::{content, document};
use crate::Route;
use crate::http::body::TextBody;
use crate::http::describe::describe;
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, filters};
use crate::http::headers::{Headers, RangeHeaders};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Flag, Optional, RequestBody, Text, fields};
use crate::http::response::{Created, Either, File, Html, Json, Media, NoContent};
use crate::http::upload::{FileBody, Part};
use crate::operations;

fn labels() -> Value {
    let is_of_repository = |route: &Route| route.path.starts_with("/api/v1/repos/") && route.path.contains("/labels");
    let routes: Vec<_> = operations().into_iter().filter(is_of_repository).collect();
    assert_eq!(routes.len(), 10);
    document(&routes)
}

fn document_of(routes: impl Iterator<Item = Route>) -> Value {
    document(&routes.collect::<Vec<_>>())
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
    assert_eq!((&create["operationId"], &create["tags"]), (&json!("CreateLabel"), &json!(["Labels"])));
    assert_eq!(create["x-rpc"], "ferrite.issue.v1.LabelService/CreateLabel");
    assert_eq!(create["summary"], "Adds a label to a repository, which can have up to 1,000.");
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
    let kinds = &schemas[1]["items"]["anyOf"];
    assert_eq!(schemas[0]["$ref"], "#/components/schemas/IssueLabels");
    assert_eq!((&kinds[0]["format"], &kinds[1]["type"]), (&json!("int64"), &json!("string")));
}

#[test]
fn a_list_has_pages_and_a_read_has_a_tag() {
    let document = labels();
    let list = &document["paths"]["/api/v1/repos/{owner}/{repo}/labels"]["get"];
    let headers: BTreeSet<_> = keys(&list["responses"]["200"]["headers"]).into_iter().collect();
    assert_eq!(headers, BTreeSet::from(["ETag", "Link", "X-Total-Count"]));
    assert_eq!(list["responses"]["304"]["headers"], list["responses"]["200"]["headers"]);
    assert!(keys(&list["responses"]).contains(&"304") && !keys(&list["responses"]).contains(&"429"));
    let limit = list["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "limit").unwrap();
    assert_eq!((&limit["schema"]["default"], &limit["schema"]["x-maximum"]), (&json!(1000), &json!(1000)));
    let get = &document["paths"]["/api/v1/repos/{owner}/{repo}/labels/{id}"]["get"];
    assert_eq!(get["parameters"][2]["schema"]["type"], "string");
}

fn shared(operation: &Value) -> Vec<&str> {
    let references = operation["parameters"].as_array().unwrap().iter().filter_map(|one| one["$ref"].as_str());
    references.map(|reference| reference.rsplit('/').next().unwrap()).collect()
}

#[test]
fn a_write_takes_the_tag_of_the_get_of_its_path() {
    let document = labels();
    let paths = &document["paths"];
    let of_label = &paths["/api/v1/repos/{owner}/{repo}/labels/{id}"];
    assert_eq!(shared(&of_label["get"]), ["If-None-Match"]);
    for method in ["patch", "delete"] {
        assert_eq!(shared(&of_label[method]), ["Idempotency-Key", "If-Match", "If-None-Match-Write"]);
        assert_eq!(of_label[method]["responses"]["412"]["$ref"], "#/components/responses/412");
    }
    assert!(document["components"]["responses"]["412"]["headers"]["ETag"].is_object());
    // The path of one label of an issue has no GET.
    let of_issue = &paths["/api/v1/repos/{owner}/{repo}/issues/{index}/labels/{id}"]["delete"];
    assert_eq!(shared(of_issue), ["Idempotency-Key"]);
    assert_eq!(of_issue["responses"]["412"]["$ref"], "#/components/responses/412");
    let file = operations().into_iter().filter(|route| route.path.ends_with("/contents/{*file}"));
    let document = document_of(file);
    let of_file = document["paths"].as_object().unwrap().values().next().unwrap();
    for method in ["put", "delete"] {
        assert_eq!(shared(&of_file[method]), ["Idempotency-Key", "If-Match", "If-None-Match-Write"]);
    }
    assert_eq!(document["components"]["parameters"]["If-None-Match-Write"]["name"], "If-None-Match");
}

#[test]
fn operations_with_a_password_and_safe_repeats_take_no_idempotency_key() {
    let rules = document_of(operations().into_iter().filter(|route| route.path.contains("/branch_protections")));
    let rules = rules["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    assert!(rules.flat_map(shared).all(|name| name != "Idempotency-Key"));
    let tokens = operations().into_iter().filter(|route| route.path.contains("/users/{username}/tokens"));
    let document = document_of(tokens);
    let paths = document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    assert!(paths.clone().count() >= 3 && paths.flat_map(shared).all(|name| name != "Idempotency-Key"));
    let remove = &document["paths"]["/api/v1/users/{username}/tokens/{name}"]["delete"];
    assert_eq!(remove["responses"]["422"]["$ref"], "#/components/responses/422");
    let create = &document["paths"]["/api/v1/users/{username}/tokens"]["post"];
    assert!(create["responses"]["422"]["description"].as_str().unwrap().ends_with(": TOKEN_ALREADY_EXISTS"));
}

#[test]
fn fields_are_described_by_the_contract_unless_they_are_here() {
    let document = labels();
    let fields = |name: &str| document["components"]["schemas"][name]["properties"].clone();
    assert_eq!(
        fields("NewLabel")["name"],
        json!({
            "type": "string", "minLength": 1, "maxLength": 50, "examples": ["bug"],
            "description": "Not blank, at most 50 characters; unique in the repository, case-insensitive.",
        })
    );
    let changed = &fields("ChangedLabel")["name"];
    assert_eq!(changed["description"], "The name, with the rules for a new label. An empty one changes nothing.");
    assert_eq!(changed["type"], json!(["string", "null"]));
    assert_eq!(fields("Label")["color"]["description"], "Without `#`, which it has in requests.");
    assert_eq!(
        document["components"]["schemas"]["Label"]["required"],
        json!(["id", "name", "color", "description", "url"])
    );
}

#[test]
fn fields_have_the_rules_of_the_service() {
    let routes = ["/api/v1/admin/users", "/api/v1/admin/hooks", "/api/v1/admin/hooks/{id}", "/api/v1/user/emails"];
    let document = document_of(operations().into_iter().filter(|route| routes.contains(&route.path)));
    let field = |name: &str| document.pointer(&format!("/components/schemas/{name}")).unwrap().clone();
    assert_eq!(field("NewUser/properties/password/minLength"), 8);
    assert_eq!(field("NewUser/properties/email/pattern"), field("NewEmails/properties/emails/items/pattern"));
    assert_eq!(field("NewHook/properties/type/enum")[0], "native");
    let options = field("NewHook/properties/config");
    assert_eq!(options["required"], json!(["url", "content_type"]));
    assert_eq!(options["additionalProperties"]["type"], "string");
    assert!(field("ChangedHook/properties/config").get("required").is_none());
}

enum Raw {}

impl Media for Raw {
    const TYPES: &'static [&'static str] = &["text/plain"];
}

enum Attachment {}

impl Part for Attachment {
    const NAME: &'static str = "attachment";
}

filters! {
    struct Upload {
        /// The name of the file.
        name: Text<100> = "a.zip",
    }
}

fields! {
    struct Watched {
        on: Optional<Flag> = true,
    }
}

async fn raw(_: RepoPath, _: Headers<RangeHeaders>) -> ApiResult<File<Raw>> {
    Err(ApiError::internal())
}

async fn upload(
    _: RepoPath,
    _: Params,
    _: QueryOf<Upload>,
    _: Option<axum::Extension<i64>>,
    _: axum::http::Method,
    _: FileBody<Attachment>,
) -> ApiResult<Created<Label>> {
    Err(ApiError::internal())
}

async fn token(_: Params, _: RequestBody<Watched>) -> ApiResult<Either<Created<Label>, Created<Milestone>>> {
    Err(ApiError::internal())
}

async fn reject(_: axum::http::HeaderMap) -> ApiResult<Either<Json<Label>, NoContent>> {
    Err(ApiError::internal())
}

async fn render(_: TextBody<5>) -> ApiResult<Html> {
    Err(ApiError::internal())
}

/// Returns the only operation of the document of a route.
fn only(route: Route) -> Value {
    let document = document(&[route]);
    let path = document["paths"].as_object().unwrap().values().next().unwrap();
    path.as_object().unwrap().values().next().unwrap().clone()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

#[test]
fn a_file_has_ranges_and_the_headers_of_one() {
    let route = Route::new("GET", "/api/v1/repos/{owner}/{repo}/raw/{*file}", operation::RAW);
    let raw = only(route.described(|about| describe(raw, about)));
    assert_eq!(
        (&raw["operationId"], &raw["summary"]),
        (&json!("GetRawFile"), &json!("Returns the content of a file."))
    );
    let names: Vec<_> = raw["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("owner"), Some("repo"), Some("file"), Some("Range"), Some("If-Range"), None]);
    assert_eq!((&raw["parameters"][3]["in"], &raw["parameters"][2]["in"]), (&json!("header"), &json!("path")));
    assert_eq!(raw["responses"]["200"]["content"], json!({"text/plain": {"schema": {}}}));
    let headers: BTreeSet<_> = keys(&raw["responses"]["206"]["headers"]).into_iter().collect();
    let expected = ["Accept-Ranges", "Content-Disposition", "Content-Range", "Content-Transfer-Encoding", "ETag"];
    assert_eq!(headers, BTreeSet::from(expected));
    assert!(raw["responses"]["304"].is_object() && raw["responses"]["416"]["headers"].is_object());
    assert_eq!(raw["responses"]["416"]["content"], content(&reference("Error")));
}

#[test]
fn what_is_too_large_to_be_shown_is_422() {
    let routes = operations().into_iter().filter(|route| route.operation == operation::GET_BLOB);
    let document = document_of(routes);
    let blob = &document["paths"]["/api/v1/repos/{owner}/{repo}/git/blobs/{sha}"]["get"]["responses"];
    assert!(blob.get("413").is_none());
    assert_eq!(blob["422"]["description"], "Unprocessable Entity: TOO_LARGE");
}

#[test]
fn a_body_may_be_a_file_or_a_form_with_one() {
    let path = "/api/v1/repos/{owner}/{repo}/releases/{id}/assets";
    let route = Route::new("POST", path, operation::CREATE_RELEASE_ASSET);
    let upload = only(route.described(|about| describe(upload, about)));
    let body = &upload["requestBody"];
    let types: BTreeSet<_> = keys(&body["content"]).into_iter().collect();
    assert_eq!(types, BTreeSet::from(["multipart/form-data", "application/octet-stream"]));
    assert_eq!((&body["required"], body.get("x-max-bytes")), (&json!(true), None));
    let name = upload["parameters"].as_array().unwrap().iter().find(|one| one["name"] == "name").unwrap();
    let schema = json!({"type": "string", "maxLength": 100, "examples": ["a.zip"]});
    let expected = json!({"name": "name", "in": "query", "description": "The name of the file.", "schema": schema});
    assert_eq!(*name, expected);
}

#[test]
fn one_of_two_responses_has_its_status_or_a_value_of_both() {
    let route = Route::new("POST", "/api/v1/users/{username}/tokens", operation::CREATE_ACCESS_TOKEN);
    let token = only(route.described(|about| describe(token, about)));
    let either = json!({"anyOf": [reference("Label"), reference("Milestone")]});
    assert_eq!(token["responses"]["201"]["content"], content(&either));
    assert_eq!(token["requestBody"]["required"], false);
    assert_eq!(token["security"], json!([{"password": []}]));
    let route = Route::new("DELETE", "/api/v1/repos/{owner}/{repo}/transfer", operation::REJECT_TRANSFER);
    let reject = only(route.described(|about| describe(reject, about)));
    assert_eq!(reject["responses"]["200"]["content"], content(&reference("Label")));
    assert!(reject["responses"]["204"].get("content").is_none());
}

#[test]
fn an_operation_of_the_gateway_itself_is_described() {
    let route = Route::new("POST", "/api/v1/markdown/raw", operation::RENDER_MARKDOWN);
    let render = only(route.described(|about| describe(render, about)));
    assert_eq!((&render["operationId"], &render["parameters"]), (&json!("RenderMarkdown"), &json!([])));
    let body = json!({
        "required": true, "content": {"text/plain": {"schema": {"type": "string"}}}, "x-max-bytes": 5,
    });
    assert_eq!(render["requestBody"], body);
    assert_eq!(render["responses"]["200"]["content"], json!({"text/html": {"schema": {"type": "string"}}}));
    assert!(render["responses"].get("304").is_none());
}

#[test]
fn the_errors_of_another_operation_may_be_meant() {
    let contracts = Contracts::read();
    let errors = |operation: &str| contracts.rpc(operation).errors;
    let mut expected = errors(operation::LIST_ACCESS_TOKENS);
    assert!(expected[&401].contains("BAD_CREDENTIALS"));
    expected.entry(404).or_default().insert("TOKEN_NOT_FOUND".into());
    assert_eq!(errors(operation::DELETE_ACCESS_TOKEN), expected);
}
