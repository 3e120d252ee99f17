//! Rules of the contracts that the compiler does not check: comments, names of messages, first
//! values of enums.

use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::DOCUMENTED;

fn files() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(DOCUMENTED).unwrap();
    set.file.into_iter().filter(|file| file.package().starts_with("ferrite.")).collect()
}

/// Returns the comment before the item at `path` (see `SourceCodeInfo.Location.path`).
fn comment(file: &FileDescriptorProto, path: &[i32]) -> String {
    let info = file.source_code_info.as_ref().expect("the compiler keeps comments");
    let found = info.location.iter().find(|location| location.path == path);
    found.map(|location| location.leading_comments().trim().to_owned()).unwrap_or_default()
}

#[test]
fn every_service_and_call_is_documented() {
    let mut calls = 0;
    for file in files() {
        for (index, service) in (0..).zip(&file.service) {
            let common = comment(&file, &[6, index]);
            assert!(!common.is_empty(), "{}", service.name());
            for (number, method) in (0..).zip(&service.method) {
                calls += 1;
                let text = comment(&file, &[6, index, 2, number]);
                assert!(text.starts_with(method.name()), "{}.{}: {text:?}", service.name(), method.name());
                let errors = text.contains("Errors:") || common.contains("Errors of every call:");
                assert!(errors, "{}.{} lists no errors", service.name(), method.name());
            }
        }
    }
    assert!(calls > 20, "{calls}");
}

#[test]
fn every_message_and_field_is_documented() {
    for file in files() {
        for (index, message) in (0..).zip(&file.message_type) {
            assert!(!comment(&file, &[4, index]).is_empty(), "{}", message.name());
            for (number, field) in (0..).zip(&message.field) {
                assert!(!comment(&file, &[4, index, 2, number]).is_empty(), "{}.{}", message.name(), field.name());
            }
        }
        for (index, kind) in (0..).zip(&file.enum_type) {
            assert!(!comment(&file, &[5, index]).is_empty(), "{}", kind.name());
        }
    }
}

#[test]
fn every_call_has_a_request_and_a_response_of_its_own() {
    let mut seen = std::collections::HashSet::new();
    for file in files() {
        for method in file.service.iter().flat_map(|service| &service.method) {
            for (kind, suffix) in [(method.input_type(), "Request"), (method.output_type(), "Response")] {
                assert!(seen.insert(kind.to_owned()), "{kind} is used twice");
                assert!(kind.ends_with(&format!(".{}{suffix}", method.name())), "{}: {kind}", method.name());
            }
        }
    }
}

#[test]
fn the_first_value_of_every_enum_is_unspecified() {
    for file in files() {
        for kind in &file.enum_type {
            assert!(kind.value[0].name().ends_with("_UNSPECIFIED") && kind.value[0].number() == 0, "{}", kind.name());
        }
    }
}
