//! Fields of releases and their files. git-svc checks that a tag and its target exist.

use ferrite_core::text::check_line;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::{CreateReleaseAssetRequest, CreateReleaseRequest, UpdateReleaseRequest};

use super::text::{check_length, refuse_nul};
use super::violations::Violations;
use crate::error::RepoError;

/// The file system allows 255 bytes for each part of a ref name, and git appends `.lock`.
const MAX_TAG_NAME_BYTES: usize = 250;
/// The length of the longest branch name.
const MAX_TARGET_BYTES: usize = 1_000;
const MAX_TITLE_CHARS: usize = 255;
const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_ASSET_NAME_BYTES: usize = 255;
const MAX_CONTENT_TYPE_BYTES: usize = 100;
/// For a file whose media type is not known.
const UNKNOWN_CONTENT_TYPE: &str = "application/octet-stream";

/// Accepts tag names that git accepts, by the rules of `git check-ref-format`, except those that
/// look like an option, a full ref name or an object id.
fn tag_name(text: &str) -> Result<String, FieldViolation> {
    let refuse = |code, message: &str| Err(FieldViolation::new("tag_name", code, message));
    if text.is_empty() {
        return refuse("required", "is required");
    }
    if text.len() > MAX_TAG_NAME_BYTES {
        return refuse("too_long", "must have at most 250 bytes");
    }
    check_line(text, "tag_name")?;
    let is_bad_char = |char: char| " ~^:?*[\\".contains(char);
    let is_bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let has_bad_pair = text.contains("..") || text.contains("@{") || text.ends_with('.') || text == "@";
    if text.contains(is_bad_char) || has_bad_pair || text.split('/').any(is_bad_part) {
        return refuse("invalid", "is not a valid tag name");
    }
    let is_id = text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id || text.starts_with('-') || text.starts_with("refs/") || text == "refs" || text == "HEAD" {
        return refuse("invalid", "looks like an option, a ref or an object id");
    }
    Ok(text.to_owned())
}

fn target(text: &str) -> Result<String, FieldViolation> {
    if text.len() > MAX_TARGET_BYTES {
        return Err(FieldViolation::new("target_commitish", "too_long", "must have at most 1,000 bytes"));
    }
    check_line(text, "target_commitish")?;
    Ok(text.to_owned())
}

fn title(text: &str) -> Result<String, FieldViolation> {
    check_length(text, MAX_TITLE_CHARS, "name")?;
    check_line(text, "name")?;
    Ok(text.to_owned())
}

fn body(text: &str) -> Result<String, FieldViolation> {
    if text.len() > MAX_BODY_BYTES {
        return Err(FieldViolation::new("body", "too_long", "must be at most 1 MiB"));
    }
    refuse_nul(text, "body")?;
    Ok(text.to_owned())
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseFields {
    /// Without `refs/tags/`.
    pub(crate) tag_name: String,
    /// The branch or commit to tag.
    pub(crate) target: String,
    /// May be empty.
    pub(crate) title: String,
    /// The release notes, may be empty.
    pub(crate) body: String,
    pub(crate) is_draft: bool,
    pub(crate) is_prerelease: bool,
}

impl ReleaseFields {
    /// An empty target becomes `default_branch`.
    pub(crate) fn check(request: &CreateReleaseRequest, default_branch: &str) -> Result<Self, RepoError> {
        let change = UpdateReleaseRequest {
            tag_name: Some(request.tag_name.clone()),
            target: Some(request.target.clone()).filter(|target| !target.is_empty()),
            title: Some(request.title.clone()),
            body: Some(request.body.clone()),
            is_draft: Some(request.is_draft),
            is_prerelease: Some(request.is_prerelease),
            ..UpdateReleaseRequest::default()
        };
        let nothing = Self { target: default_branch.to_owned(), ..Self::default() };
        Ok(ReleaseChange::check(&change)?.apply(&nothing))
    }
}

/// `None` keeps a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseChange {
    tag_name: Option<String>,
    target: Option<String>,
    title: Option<String>,
    body: Option<String>,
    is_draft: Option<bool>,
    is_prerelease: Option<bool>,
}

impl ReleaseChange {
    pub(crate) fn check(request: &UpdateReleaseRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let tag_name = violations.take(request.tag_name.as_deref().map(tag_name).transpose());
        let target = violations.take(request.target.as_deref().map(target).transpose());
        let title = violations.take(request.title.as_deref().map(title).transpose());
        let body = violations.take(request.body.as_deref().map(body).transpose());
        match (tag_name, target, title, body) {
            (Some(tag_name), Some(target), Some(title), Some(body)) => Ok(Self {
                tag_name,
                target,
                title,
                body,
                is_draft: request.is_draft,
                is_prerelease: request.is_prerelease,
            }),
            _ => Err(violations.into_error()),
        }
    }

    /// The target of a published release whose tag stays does not change: the tag stays on its
    /// commit. That is no error, because clients send a commit with every edit.
    pub(crate) fn apply(&self, before: &ReleaseFields) -> ReleaseFields {
        let text = |new: &Option<String>, old: &String| new.as_ref().unwrap_or(old).clone();
        let tag_name = text(&self.tag_name, &before.tag_name);
        let is_draft = self.is_draft.unwrap_or(before.is_draft);
        let keeps_tag = !before.is_draft && !is_draft && tag_name == before.tag_name;
        ReleaseFields {
            target: if keeps_tag { before.target.clone() } else { text(&self.target, &before.target) },
            tag_name,
            title: text(&self.title, &before.title),
            body: text(&self.body, &before.body),
            is_draft,
            is_prerelease: self.is_prerelease.unwrap_or(before.is_prerelease),
        }
    }
}

/// The name of a release file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssetName(String);

checked_text!(AssetName);

impl AssetName {
    /// Accepts 1 to 255 bytes without slashes, control or bidirectional characters.
    pub(crate) fn parse(text: &str) -> Result<Self, FieldViolation> {
        let refuse = |code, message: &str| Err(FieldViolation::new("name", code, message));
        if text.is_empty() {
            return refuse("required", "is required");
        }
        if text.len() > MAX_ASSET_NAME_BYTES {
            return refuse("too_long", "must have at most 255 bytes");
        }
        check_line(text, "name")?;
        // `.` and `..` would be directories in a URL.
        if text.contains('/') || text == "." || text == ".." {
            return refuse("invalid", "must be a file name without slashes");
        }
        Ok(Self(text.to_owned()))
    }
}

/// A release file whose content is already on the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewAsset {
    /// Unique in the release.
    pub(crate) name: AssetName,
    /// The name of the file on the store.
    pub(crate) file_id: String,
    pub(crate) size_bytes: i64,
    /// 64 hexadecimal digits.
    pub(crate) sha256: String,
    pub(crate) content_type: String,
}

impl NewAsset {
    pub(crate) fn check(request: &CreateReleaseAssetRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let name = violations.take(AssetName::parse(&request.name));
        let file_id = violations.take(digits(&request.file_id, 32, "file_id"));
        let sha256 = violations.take(digits(&request.sha256, 64, "sha256"));
        let size_bytes = violations.take(match request.size_bytes {
            0.. => Ok(request.size_bytes),
            _ => Err(FieldViolation::new("size_bytes", "invalid", "must not be negative")),
        });
        match (name, file_id, sha256, size_bytes) {
            (Some(name), Some(file_id), Some(sha256), Some(size_bytes)) => {
                let content_type = content_type(&request.content_type).to_owned();
                Ok(Self { name, file_id, size_bytes, sha256, content_type })
            }
            _ => Err(violations.into_error()),
        }
    }
}

fn digits(text: &str, count: usize, field: &str) -> Result<String, FieldViolation> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() == count && text.bytes().all(is_digit) {
        return Ok(text.to_owned());
    }
    Err(FieldViolation::new(field, "invalid", format!("must be {count} lower-case hexadecimal digits")))
}

/// Returns the media type without parameters, or [`UNKNOWN_CONTENT_TYPE`] if it is not valid.
fn content_type(text: &str) -> &str {
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let is_type = essence.split_once('/').is_some_and(|(kind, name)| is_token(kind) && is_token(name));
    if is_type && essence.len() <= MAX_CONTENT_TYPE_BYTES { essence } else { UNKNOWN_CONTENT_TYPE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_names_are_those_of_git() {
        for good in ["v1.0", "release/2", "a-b", "ünï", "1234567", "a@b", "heads/x", &"x".repeat(250)] {
            assert!(tag_name(good).is_ok(), "{good}");
        }
        for (bad, code) in [
            ("", "required"),
            ("a b", "invalid"),
            ("a..b", "invalid"),
            ("a.lock", "invalid"),
            ("a//b", "invalid"),
            ("/a", "invalid"),
            (".a", "invalid"),
            ("a.", "invalid"),
            ("@", "invalid"),
            ("a@{b", "invalid"),
            ("a~1", "invalid"),
            ("a\tb", "invalid"),
            ("a\u{202e}b", "invalid"),
            ("a\u{85}b", "invalid"),
            ("-v1", "invalid"),
            ("HEAD", "invalid"),
            ("refs/tags/v1", "invalid"),
            ("a".repeat(40).as_str(), "invalid"),
            ("x".repeat(251).as_str(), "too_long"),
        ] {
            assert_eq!(tag_name(bad).unwrap_err().code, code, "{bad}");
        }
    }

    #[test]
    fn every_wrong_field_of_a_release_is_named() {
        let request = CreateReleaseRequest {
            tag_name: "a b".into(),
            target: "x\n".into(),
            title: "x".repeat(256),
            body: "\0".into(),
            ..CreateReleaseRequest::default()
        };
        let Err(RepoError::Invalid(violations)) = ReleaseFields::check(&request, "main") else { panic!("refused") };
        let fields: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["tag_name", "target_commitish", "name", "body"]);
        let request = CreateReleaseRequest { tag_name: "v1".into(), ..CreateReleaseRequest::default() };
        assert_eq!(ReleaseFields::check(&request, "main").unwrap().target, "main");
        let branch = CreateReleaseRequest { target: "dev".into(), ..request.clone() };
        assert_eq!(ReleaseFields::check(&branch, "main").unwrap().target, "dev");
    }

    #[test]
    fn no_name_of_a_release_changes_the_direction_of_text() {
        let text = "a\u{202e}b";
        for refused in [tag_name(text), target(text), AssetName::parse(text).map(|name| name.as_str().to_owned())] {
            assert_eq!(refused.unwrap_err().message, "must not contain control or bidirectional characters");
        }
    }

    #[test]
    fn a_published_release_keeps_its_target_with_its_tag() {
        let target = |is_draft, change: UpdateReleaseRequest| {
            let before = ReleaseFields { tag_name: "v1".into(), target: "main".into(), is_draft, ..Default::default() };
            let change = UpdateReleaseRequest { target: Some("dev".into()), ..change };
            ReleaseChange::check(&change).unwrap().apply(&before).target
        };
        let renamed = |tag: &str| UpdateReleaseRequest { tag_name: Some(tag.into()), ..Default::default() };
        let drafted = |is_draft| UpdateReleaseRequest { is_draft: Some(is_draft), ..Default::default() };
        for (was_draft, change, expected) in [
            (false, UpdateReleaseRequest::default(), "main"),
            (false, renamed("v1"), "main"),
            (false, drafted(false), "main"),
            (false, renamed("v2"), "dev"),
            (false, drafted(true), "dev"),
            (true, UpdateReleaseRequest::default(), "dev"),
            (true, drafted(false), "dev"),
        ] {
            assert_eq!(target(was_draft, change.clone()), expected, "{was_draft} {change:?}");
        }
    }

    #[test]
    fn absent_fields_of_a_change_stay() {
        let before = ReleaseFields { tag_name: "v1".into(), body: "x".into(), is_draft: true, ..Default::default() };
        let request = UpdateReleaseRequest { body: Some(String::new()), ..UpdateReleaseRequest::default() };
        let after = ReleaseChange::check(&request).unwrap().apply(&before);
        assert_eq!(after, ReleaseFields { body: String::new(), ..before });
    }

    #[test]
    fn names_of_files_have_no_folder() {
        for good in ["a.tar.gz", "ä ö", "..a", "-x", &"x".repeat(255)] {
            assert!(AssetName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a\nb", "a\0", &"x".repeat(256)] {
            assert!(AssetName::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_content_type_is_plain_or_unknown() {
        assert_eq!(content_type("text/plain; charset=utf-8"), "text/plain");
        assert_eq!(content_type("application/vnd.x+json"), "application/vnd.x+json");
        for wrong in ["", "text", "a/b/c", "text/<x>", "text/plain\r\nx: y", "é/x", &format!("a/{}", "x".repeat(100))]
        {
            assert_eq!(content_type(wrong), UNKNOWN_CONTENT_TYPE, "{wrong}");
        }
    }
}
