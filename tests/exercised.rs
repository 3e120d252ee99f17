//! The black-box tests exercise every operation of the OpenAPI document, with at least one success
//! and one refusal. Their client records each validated response in the file that `make test`
//! names. Cargo runs this test after them. Other runs may skip tests, so only `make test` checks
//! this.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

/// Operations that cannot succeed: a file needs a path.
const WITHOUT_SUCCESS: [&str; 2] = ["DeleteContentsOfRoot", "PutContentsOfRoot"];

/// Operations that refuse nobody: they take no input and look at no credentials.
const WITHOUT_REFUSAL: [&str; 5] =
    ["GetSettingsOfApi", "GetSettingsOfAttachments", "GetSettingsOfRepositories", "GetSettingsOfUi", "GetVersion"];

/// Response counts by operation and first digit of the status.
type Counts = BTreeMap<String, BTreeMap<char, usize>>;

fn counts(record: &str) -> Counts {
    let mut counts = Counts::new();
    for line in record.lines() {
        let (operation, status) = line.split_once(' ').expect("a line has two words");
        let class = status.chars().next().expect("a status has three digits");
        *counts.entry(operation.to_owned()).or_default().entry(class).or_default() += 1;
    }
    counts
}

/// Operations without a success or without a refusal.
fn missing(operations: &[String], counts: &Counts) -> Vec<String> {
    let has = |operation: &str, class: char| counts.get(operation).is_some_and(|classes| classes.contains_key(&class));
    let lacks = |operation: &String| {
        let is_without_success = WITHOUT_SUCCESS.contains(&operation.as_str());
        let success = (has(operation, '2') == is_without_success).then_some("2xx");
        let is_without_refusal = WITHOUT_REFUSAL.contains(&operation.as_str());
        let refusal = (has(operation, '4') == is_without_refusal).then_some("4xx");
        success.into_iter().chain(refusal).map(|class| format!("{operation} {class}")).collect::<Vec<_>>()
    };
    operations.iter().flat_map(lacks).collect()
}

fn operations() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.json");
    let text = std::fs::read_to_string(path).expect("the document can be read");
    let document: Value = serde_json::from_str(&text).expect("the document is JSON");
    let items = document["paths"].as_object().expect("it has paths").values();
    let operations = items.flat_map(|item| item.as_object().expect("it has operations").values());
    operations.map(|operation| operation["operationId"].as_str().expect("it has a name").to_owned()).collect()
}

#[test]
fn every_operation_is_exercised() {
    let Some(path) = std::env::var_os("FERRITE_TEST_RESPONSES") else { return };
    let record = std::fs::read_to_string(path).expect("the black-box tests ran before");
    let (operations, counts) = (operations(), counts(&record));
    let text = format!(
        "{} responses of {} operations are as docs/openapi.json has them, of {} operations in all\n",
        record.lines().count(),
        counts.len(),
        operations.len()
    );
    // Visible even if the test passes.
    let mut terminal = std::io::stderr();
    terminal.write_all(text.as_bytes()).expect("the terminal can be written to");
    let missing = missing(&operations, &counts);
    assert!(missing.is_empty(), "not exercised by the black-box tests, or unexpectedly: {}", missing.join(", "));
}

#[test]
fn a_response_that_is_missing_is_found() {
    let [complete, refused, unknown] = ["GetUser", "GetLabel", "GetTeam"].map(str::to_owned);
    let counts = counts("GetUser 200\nGetLabel 404\nGetUser 404\nGetUser 401\n");
    assert_eq!(counts["GetUser"], BTreeMap::from([('2', 1), ('4', 2)]));
    assert!(missing(&[complete], &counts).is_empty());
    assert_eq!(missing(&[refused, unknown], &counts), ["GetLabel 2xx", "GetTeam 2xx", "GetTeam 4xx"]);
    assert_eq!(missing(&["PutContentsOfRoot".to_owned()], &counts), ["PutContentsOfRoot 4xx"]);
    assert_eq!(missing(&["GetVersion".to_owned()], &counts), ["GetVersion 2xx"]);
}
