//! Reads operations and fields from the contracts: the comments of RPCs and messages, and the
//! errors listed there.

use std::collections::{BTreeMap, BTreeSet};

use ferrite_proto::operation;
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto};
use tonic::Code;

use crate::http::error::http_status;

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
/// Operations that are not RPCs, each with its summary.
const OTHER_OPERATIONS: [(&str, &str); 6] = [
    (operation::RAW, "Returns the content of a file."),
    (operation::ARCHIVE, "Returns a revision as a zip or tar.gz archive."),
    (operation::ASSET, "Returns the content of a release file."),
    (operation::RENDER_MARKDOWN, "Renders Markdown as HTML."),
    (operation::GET_SETTINGS, "Returns facts about this server. Credentials are ignored."),
    (operation::GET_VERSION, "Returns the version of this server. Credentials are ignored."),
];

pub(super) struct Contracts(Vec<FileDescriptorProto>);

pub(super) struct Rpc {
    /// The paragraphs of its comment and of its service's comment, without those that list errors.
    pub(super) about: Vec<String>,
    pub(super) errors: BTreeMap<u16, BTreeSet<String>>,
    /// The full name of its request with a leading dot; empty for an operation that is not an RPC.
    pub(super) request: String,
}

/// Returns the paragraphs of the comment of the item at `path` (see
/// `SourceCodeInfo.Location.path`).
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
                // Clients never see these reasons.
                500 => {}
                status => {
                    errors.entry(status).or_default().insert(reason.to_owned());
                }
            }
        }
    }
}

/// Returns the operations of a service whose errors a paragraph includes with `as`.
fn operations_after_as<'a>(paragraph: &str, service: &'a ServiceDescriptorProto, name: &str) -> Vec<&'a str> {
    let words: Vec<_> = paragraph.split([' ', ',', '.']).collect();
    let is_named = |other: &&str| *other != name && words.windows(2).any(|pair| pair == ["as", *other]);
    service.method.iter().map(MethodDescriptorProto::name).filter(is_named).collect()
}

impl Contracts {
    pub(super) fn read() -> Self {
        Self(FileDescriptorSet::decode(ferrite_proto::DOCUMENTED).unwrap().file)
    }

    pub(super) fn rpc(&self, full_name: &str) -> Rpc {
        if let Some((_, about)) = OTHER_OPERATIONS.iter().find(|row| row.0 == full_name) {
            return Rpc { about: vec![(*about).to_owned()], errors: BTreeMap::new(), request: String::new() };
        }
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
                            for other in operations_after_as(&text, service, method.name()) {
                                let other = self.rpc(&format!("{}.{}/{other}", file.package(), service.name()));
                                for (status, reasons) in other.errors {
                                    errors.entry(status).or_default().extend(reasons);
                                }
                            }
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

    /// Returns the comment of a field. `message_name` has a leading dot.
    pub(super) fn field(&self, message_name: &str, field_name: &str) -> Option<String> {
        self.0.iter().find_map(|file| {
            let named = |name: &str| format!(".{}.{name}", file.package()) == message_name;
            let (at, message) = (0..).zip(&file.message_type).find(|(_, message)| named(message.name()))?;
            let (number, _) = (0..).zip(&message.field).find(|(_, field)| field.name() == field_name)?;
            Some(paragraphs(file, &[4, at, 2, number]).join(" "))
        })
    }
}

/// Capitalizes the first letter.
fn sentence(text: &str) -> String {
    let text = text.trim_start();
    let begin = text.chars().next().map(|char| char.to_ascii_uppercase());
    begin.into_iter().chain(text.chars().skip(1)).collect()
}
