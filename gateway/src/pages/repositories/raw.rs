//! Raw files, archives and files of releases, as the API sends them, but pictures as pictures. Browsers
//! treat each file as of a site of its own, without scripts.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, IF_NONE_MATCH, IF_RANGE, RANGE,
    VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};

use serde::Deserialize;

use super::revision::Kind;
use crate::http::caching::IMMUTABLE;
use crate::pages::error::{PageError, PageResult};
use crate::pages::visit::Visit;

const TRANSFER_ENCODING: HeaderName = HeaderName::from_static("content-transfer-encoding");
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-cache");
/// Drawings have styles, but nothing that runs or loads.
const DRAWING_POLICY: HeaderValue =
    HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox");
const DRAWING: &str = "image/svg+xml";
/// Types of pictures that all browsers show, by the ends of names.
const PICTURES: [(&str, &str); 9] = [
    (".avif", "image/avif"),
    (".bmp", "image/bmp"),
    (".gif", "image/gif"),
    (".ico", "image/x-icon"),
    (".jpeg", "image/jpeg"),
    (".jpg", "image/jpeg"),
    (".png", "image/png"),
    (".svg", DRAWING),
    (".webp", "image/webp"),
];
const ID_DIGITS: usize = 40;

fn picture_type(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    PICTURES.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, media)| *media)
}

pub(super) fn is_picture(name: &str) -> bool {
    picture_type(name).is_some()
}

/// Returns whether a file is a picture that is written as text.
pub(super) fn is_drawing(name: &str) -> bool {
    picture_type(name) == Some(DRAWING)
}

/// The path of a page below a repository, encoded.
struct RepositoryPath<'a> {
    repository: &'a str,
    rest: &'a str,
}

impl<'a> RepositoryPath<'a> {
    /// Splits `/{owner}/{repo}/{page}/{rest}`.
    fn of(here: &'a str) -> Self {
        let path = here.split('?').next().unwrap_or_default().trim_start_matches('/');
        let slash = |count: usize| path.match_indices('/').nth(count - 1).map_or(path.len(), |(place, _)| place);
        Self { repository: &path[..slash(2)], rest: path.get(slash(3) + 1..).unwrap_or_default() }
    }
}

/// Returns the path of a raw file in the API, which is relative to that of raw files. Ids and names
/// without their kind are Gogs'.
fn raw_path(rest: &str) -> String {
    match Kind::split(rest) {
        Some((Kind::Branch, rest)) => format!("refs/heads/{rest}"),
        Some((Kind::Tag, rest)) => format!("refs/tags/{rest}"),
        Some((Kind::Commit, rest)) => rest.to_owned(),
        None => rest.to_owned(),
    }
}

/// Returns whether a path names a commit by its full id, so that the file never changes.
fn is_permanent(rest: &str) -> bool {
    let id = rest.strip_prefix("commit/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    id.len() == ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn conditions(headers: &HeaderMap) -> HeaderMap {
    let names = [IF_NONE_MATCH, IF_RANGE, RANGE];
    names.into_iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

pub(super) async fn raw(visit: Visit) -> PageResult {
    let path = RepositoryPath::of(&visit.shell.here);
    let file = format!("repos/{}/raw/{}", path.repository, raw_path(path.rest));
    send(&visit, &path, &file, is_permanent(path.rest)).await
}

/// A file of the wiki: `/wiki/raw/{path}`.
pub(super) async fn of_wiki(visit: Visit) -> PageResult {
    let path = RepositoryPath::of(&visit.shell.here);
    let file = format!("repos/{}/wiki/{}", path.repository, path.rest);
    send(&visit, &path, &file, false).await
}

/// A file of a release as the API describes it.
#[derive(Deserialize)]
struct Asset {
    browser_download_url: String,
}

/// A file of a release, for the session: the API's own path, which is in links of releases, takes none.
/// `/releases/files/{release}/{file}/{name}`
pub(super) async fn of_release(visit: Visit) -> PageResult {
    let path = RepositoryPath::of(&visit.shell.here);
    let mut ids = path.rest.split('/').skip(1);
    let (release, file) = (ids.next().unwrap_or_default(), ids.next().unwrap_or_default());
    let asset = format!("repos/{}/releases/{release}/assets/{file}", path.repository);
    let Asset { browser_download_url: url } = visit.api.get(&asset).await?;
    let site = &visit.shell.site;
    let content = url.strip_prefix(&site.origin).and_then(|path| path.strip_prefix(&site.root));
    let content = content.ok_or_else(PageError::not_found)?;
    let mut response = visit.api.pass_of_site(content, &conditions(&visit.headers)).await?;
    keep(&mut response, false);
    Ok(response)
}

/// Sends a file that the API has at `file`.
async fn send(visit: &Visit, path: &RepositoryPath<'_>, file: &str, is_permanent: bool) -> PageResult {
    let mut response = visit.api.pass(file, &conditions(&visit.headers)).await?;
    let name = path.rest.rsplit('/').next().unwrap_or_default();
    if response.status().is_success()
        && let Some(media) = picture_type(name)
    {
        show_picture(response.headers_mut(), media);
    }
    keep(&mut response, is_permanent);
    Ok(response)
}

/// Git LFS is not supported, so media are files as others are.
pub(super) async fn media(visit: Visit) -> PageResult {
    let path = RepositoryPath::of(&visit.shell.here);
    let raw = format!("{}/{}/raw/{}", visit.shell.site.root, path.repository, path.rest);
    Ok(Redirect::temporary(&raw).into_response())
}

/// `/archive/{revision}.{format}`
pub(super) async fn archive(visit: Visit) -> PageResult {
    let path = RepositoryPath::of(&visit.shell.here);
    let archive = format!("repos/{}/archive/{}", path.repository, path.rest);
    let mut response = visit.api.pass(&archive, &conditions(&visit.headers)).await?;
    keep(&mut response, false);
    Ok(response)
}

fn show_picture(headers: &mut HeaderMap, media: &'static str) {
    headers.remove(CONTENT_DISPOSITION);
    headers.remove(TRANSFER_ENCODING);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    if media == DRAWING {
        headers.insert(CONTENT_SECURITY_POLICY, DRAWING_POLICY);
    }
}

/// Lets the browser keep a file for the visitor.
fn keep(response: &mut Response, is_permanent: bool) {
    let headers = response.headers_mut();
    if is_permanent {
        headers.insert(CACHE_CONTROL, IMMUTABLE);
    } else {
        headers.entry(CACHE_CONTROL).or_insert(PRIVATE);
    }
    headers.append(VARY, HeaderValue::from(COOKIE));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_repository_and_a_rest() {
        let path = RepositoryPath::of("/bob/demo/raw/branch/main/a%20b.rs?x=/y");
        assert_eq!((path.repository, path.rest), ("bob/demo", "branch/main/a%20b.rs"));
        let path = RepositoryPath::of("/bob/demo/raw");
        assert_eq!((path.repository, path.rest), ("bob/demo", ""));
    }

    #[test]
    fn a_raw_file_is_found_by_the_kind_of_its_revision() {
        assert_eq!(raw_path("branch/main/x"), "refs/heads/main/x");
        assert_eq!(raw_path("tag/v1/x"), "refs/tags/v1/x");
        assert_eq!(raw_path("commit/abc/x"), "abc/x");
        assert_eq!(raw_path("main/x"), "main/x");
        let id = "a".repeat(40);
        assert!(is_permanent(&format!("commit/{id}/x")));
        assert!(!is_permanent(&format!("branch/{id}/x")) && !is_permanent("commit/aaaaaaa/x"));
    }

    #[test]
    fn pictures_are_shown_and_drawings_run_nothing() {
        let sent = || {
            let disposition = HeaderValue::from_static("attachment");
            let policy = HeaderValue::from_static("default-src 'none'; sandbox");
            HeaderMap::from_iter([(CONTENT_DISPOSITION, disposition), (CONTENT_SECURITY_POLICY, policy)])
        };
        let mut headers = sent();
        show_picture(&mut headers, picture_type("A.PNG").unwrap());
        assert_eq!((headers[CONTENT_TYPE].to_str().unwrap(), headers.len()), ("image/png", 2));
        assert_eq!(headers[CONTENT_SECURITY_POLICY], "default-src 'none'; sandbox");
        let mut headers = sent();
        show_picture(&mut headers, picture_type("a.svg").unwrap());
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.contains("sandbox") && !policy.contains("script"));
        assert!(!is_picture("a.html") && !is_picture("svg") && is_drawing("x.svg") && !is_drawing("x.png"));
    }
}
