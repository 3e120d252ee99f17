//! Renders the OpenAPI document as HTML without scripts, with an anchor for every operation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::schema::{code, entries, escape, fields, items, kind, prose, reference, row, size, table, text};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// The page up to the operations. Links are relative because the site may be served below a path.
const BEGINNING: &str = "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>API of Ferrite</title>
<link rel=\"icon\" href=\"data:,\">
<link rel=\"stylesheet\" href=\"api/api.css\">
<script src=\"api/api.js\" defer data-document=\"../api/v1/openapi.json\"
 data-script=\"api/swagger-ui-5.35.0/swagger-ui-bundle.js\" data-style=\"api/swagger-ui-5.35.0/swagger-ui.css\"></script>
</head>
<body>
<header>
<h1>API of Ferrite</h1>
<p>Every operation of the REST API, from its <a href=\"../api/v1/openapi.json\">OpenAPI document</a>. Conventions and examples are in
the <a href=\"api/guide\">guide</a>. <span class=\"try-note\">“Try it” sends requests to this site as you: paste a token there.</span></p>
</header>
";
const END: &str = "<footer>
<p class=\"quiet\">Requests are sent by Swagger UI (<a href=\"api/swagger-ui-5.35.0/LICENSE.txt\">licences</a>).</p>
</footer>
</body>
</html>
";

struct Operation<'a> {
    method: &'static str,
    path: &'a str,
    object: &'a Value,
}

impl Operation<'_> {
    fn id(&self) -> &str {
        text(self.object, "operationId")
    }
}

pub(super) fn render(document: &Value) -> String {
    let groups = groups(document);
    let mut page = BEGINNING.to_owned();
    page.push_str("<nav aria-label=\"Operations\">\n");
    for (group, operations) in &groups {
        let link = |operation: &Operation<'_>| format!("<li><a href=\"#{0}\">{0}</a></li>\n", escape(operation.id()));
        let links: String = operations.iter().map(link).collect();
        page.push_str(&format!(
            "<details open>\n<summary>{}</summary>\n<ul>\n{links}</ul>\n</details>\n",
            escape(group)
        ));
    }
    page.push_str("</nav>\n<main>\n");
    for (group, operations) in &groups {
        let operations: String = operations.iter().map(|one| operation(document, one)).collect();
        page.push_str(&format!("<section>\n<h2>{}</h2>\n{operations}</section>\n", escape(group)));
    }
    page.push_str(&shared_responses(document));
    page.push_str(&schemas(document));
    page.push_str("</main>\n");
    page.push_str(END);
    page
}

fn groups(document: &Value) -> BTreeMap<&str, Vec<Operation<'_>>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (path, item) in entries(&document["paths"]) {
        for method in METHODS.into_iter().filter(|method| item[*method].is_object()) {
            let operation = Operation { method, path, object: &item[method] };
            groups.entry(group(operation.object)).or_default().push(operation);
        }
    }
    groups
}

/// Returns the group of an operation: its tag, or else its service.
fn group(operation: &Value) -> &str {
    let service = || text(operation, "x-rpc").split('/').next()?.rsplit('.').next()?.strip_suffix("Service");
    operation["tags"][0].as_str().or_else(service).unwrap_or("Others")
}

fn operation(document: &Value, operation: &Operation<'_>) -> String {
    let (object, id) = (operation.object, escape(operation.id()));
    let paragraphs = [text(object, "summary")].into_iter().chain(text(object, "description").split("\n\n"));
    let about: String =
        paragraphs.filter(|text| !text.is_empty()).map(|text| format!("<p>{}</p>\n", prose(text))).collect();
    let parts = [
        format!(
            "<article class=\"operation\" id=\"{id}\">\n<h3><a href=\"#{id}\"><code class=\"method\">{}</code> {}</a></h3>\n",
            operation.method.to_uppercase(),
            code(operation.path)
        ),
        about,
        format!("<p class=\"quiet\">{}</p>\n", access(object)),
        section("Parameters", &parameters(document, object)),
        section("Body", &body(document, &object["requestBody"])),
        section("Responses", &responses(document, &object["responses"])),
        format!("<a class=\"try\" href=\"#{id}\">Try it</a>\n</article>\n"),
    ];
    parts.concat()
}

fn section(name: &str, content: &str) -> String {
    if content.is_empty() { String::new() } else { format!("<h4>{name}</h4>\n{content}") }
}

fn access(operation: &Value) -> String {
    let ways = items(&operation["security"]).map(|way| {
        let way: Vec<_> = entries(way).map(|(scheme, scopes)| credential(scheme, scopes)).collect();
        if way.is_empty() { "no credential".to_owned() } else { way.join(" and ") }
    });
    let ways: Vec<_> = ways.collect();
    let ways = if ways.is_empty() { "no credential".to_owned() } else { ways.join(", or ") };
    match text(operation, "x-rpc") {
        // Names without a dot are HTTP bodies of git-svc, or work of the gateway itself.
        name if name.contains('.') => format!("Needs {ways}. gRPC: {}.", code(name)),
        _ => format!("Needs {ways}."),
    }
}

fn credential(scheme: &str, scopes: &Value) -> String {
    let scopes: Vec<_> = items(scopes).filter_map(Value::as_str).map(code).collect();
    match (scheme, scopes.as_slice()) {
        ("password", _) => "user name and password".to_owned(),
        ("token", []) => "a token".to_owned(),
        ("token", [scope]) => format!("a token with the scope {scope}"),
        ("token", scopes) => format!("a token with the scopes {}", scopes.join(" and ")),
        _ => escape(scheme),
    }
}

/// Follows the reference, if the value is one.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().and_then(|path| document.pointer(path.strip_prefix('#')?));
    target.unwrap_or(value)
}

fn parameters(document: &Value, operation: &Value) -> String {
    let parameters = items(&operation["parameters"]).map(|parameter| resolve(document, parameter));
    let rows: String = parameters
        .map(|parameter| {
            let is_required = parameter["required"] == true;
            let note = format!("{}{}", escape(text(parameter, "in")), if is_required { ", required" } else { "" });
            row(text(parameter, "name"), &note, &parameter["schema"], text(parameter, "description"))
        })
        .collect();
    table(&rows)
}

fn body(document: &Value, body: &Value) -> String {
    let mut html = String::new();
    for (media_type, content) in entries(&body["content"]) {
        let schema = &content["schema"];
        let needed = if body["required"] == true { "required" } else { "optional" };
        let bound = body["x-max-bytes"].as_u64().map(|bytes| format!(", at most {}", size(bytes))).unwrap_or_default();
        html.push_str(&format!("<p>{}: {}; {needed}{bound}</p>\n", code(media_type), kind(schema)));
        let alternatives = [schema].into_iter().chain(items(&schema["anyOf"])).chain(items(&schema["oneOf"]));
        html.extend(alternatives.map(|schema| fields(resolve(document, schema))));
    }
    html
}

fn responses(document: &Value, responses: &Value) -> String {
    let (shared, own): (Vec<_>, Vec<_>) = entries(responses).partition(|(_, response)| reference(response).is_some());
    let rows: String = own.iter().map(|(status, one)| response_row(document, status, one)).collect();
    let shared: Vec<_> = shared.into_iter().map(|(status, _)| escape(status)).collect();
    let line = match shared.as_slice() {
        [] => String::new(),
        statuses => {
            format!(
                "<p class=\"quiet\">Also the <a href=\"#responses\">common responses</a> {}.</p>\n",
                statuses.join(", ")
            )
        }
    };
    table(&rows) + &line
}

fn response_row(document: &Value, status: &str, response: &Value) -> String {
    let kinds: Vec<_> = entries(&response["content"])
        .map(|(media_type, content)| match media_type {
            "application/json" => kind(&content["schema"]),
            media_type => code(media_type),
        })
        .collect();
    let headers: Vec<_> = entries(&response["headers"]).map(|(name, _)| code(name)).collect();
    let headers = if headers.is_empty() {
        String::new()
    } else {
        format!("<br><span class=\"quiet\">{}</span>", headers.join(", "))
    };
    let about = prose(text(resolve(document, response), "description"));
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}{headers}</td><td>{about}</td></tr>\n",
        escape(status),
        kinds.join(" or ")
    )
}

fn shared_responses(document: &Value) -> String {
    let responses = entries(&document["components"]["responses"]);
    let rows: String = responses.map(|(status, response)| response_row(document, status, response)).collect();
    format!("<section id=\"responses\">\n<h2>Common responses</h2>\n{}</section>\n", table(&rows))
}

fn schemas(document: &Value) -> String {
    let schemas = entries(&document["components"]["schemas"]).map(|(name, schema)| {
        let (name, about, fields) = (escape(name), prose(text(schema, "description")), fields(schema));
        format!(
            "<article class=\"schema\" id=\"schema-{name}\">\n<h3>{name}</h3>\n<p>{about}</p>\n{fields}</article>\n"
        )
    });
    format!("<section>\n<h2>Objects</h2>\n{}</section>\n", schemas.collect::<String>())
}
