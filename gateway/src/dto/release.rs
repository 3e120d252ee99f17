//! Releases and their files.

use ferrite_proto::repo;
use serde::Serialize;
use sha2::{Digest, Sha256};

use ferrite_api_types::convert::{MissingField, optional_time, time};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, LongTexts, User};

/// A release.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Release {
    id: i64,
    tag_name: String,
    target_commitish: String,
    name: String,
    body: String,
    /// True if `body` is the beginning only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    url: String,
    html_url: String,
    tarball_url: String,
    zipball_url: String,
    draft: bool,
    prerelease: bool,
    created_at: String,
    published_at: Option<String>,
    author: User,
    assets: Vec<ReleaseAsset>,
}

impl Release {
    /// Converts a release. The author of a deleted account is a placeholder.
    pub(crate) fn new(release: repo::Release, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let nobody = || Accounts::default().by_id(0, urls.site());
        let assets = release.assets.into_iter().map(|asset| ReleaseAsset::new(asset, urls));
        Ok(Self {
            id: release.id,
            url: urls.release(release.id),
            html_url: urls.release_html(&release.tag_name),
            tarball_url: urls.archive(&release.tag_name, "tar.gz"),
            zipball_url: urls.archive(&release.tag_name, "zip"),
            tag_name: release.tag_name,
            target_commitish: release.target,
            name: release.title,
            body: release.body,
            truncated: release.is_truncated,
            draft: release.is_draft,
            prerelease: release.is_prerelease,
            created_at: time(release.create_time, "create_time")?,
            published_at: optional_time(release.publish_time, "publish_time")?,
            author: release.author.map_or_else(nobody, |author| User::new(author, urls.site())),
            assets: assets.collect::<Result<_, _>>()?,
        })
    }
}

impl LongTexts for Release {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
    }
}

/// A file of a release.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReleaseAsset {
    id: i64,
    name: String,
    size: i64,
    download_count: i64,
    created_at: String,
    uuid: String,
    browser_download_url: String,
    sha256: String,
}

impl ReleaseAsset {
    /// Converts a file.
    pub(crate) fn new(asset: repo::ReleaseAsset, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            id: asset.id,
            browser_download_url: urls.release_download(&asset.tag_name, &asset.name),
            name: asset.name,
            size: asset.size_bytes,
            download_count: asset.download_count,
            created_at: time(asset.create_time, "create_time")?,
            uuid: uuid_of(&asset.file_id),
            sha256: asset.sha256,
        })
    }
}

/// Returns a UUID that is always the same for a file and does not tell its name on the store.
fn uuid_of(file_id: &str) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&Sha256::digest(file_id.as_bytes())[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use ferrite_core::timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_of_a_release_encode_its_tag_and_names() {
        let urls = Links::new("http://git.example.com", "h:22").repository("bob", "demo");
        let asset = repo::ReleaseAsset {
            id: 4,
            name: "a b.zip".into(),
            size_bytes: 3,
            sha256: "ff".into(),
            download_count: 2,
            create_time: Some(timestamp(0)),
            file_id: "0".repeat(32),
            tag_name: "v1/rc#1".into(),
            ..repo::ReleaseAsset::default()
        };
        let release = repo::Release {
            id: 9,
            tag_name: "v1/rc#1".into(),
            target: "main".into(),
            create_time: Some(timestamp(0)),
            is_draft: true,
            assets: vec![asset],
            ..repo::Release::default()
        };
        let shown = serde_json::to_value(Release::new(release, &urls).unwrap()).unwrap();
        let expected = json!({
            "id": 9, "tag_name": "v1/rc#1", "target_commitish": "main", "name": "", "body": "", "draft": true,
            "prerelease": false, "created_at": "1970-01-01T00:00:00Z", "published_at": null,
            "url": "http://git.example.com/api/v1/repos/bob/demo/releases/9",
            "html_url": "http://git.example.com/bob/demo/releases/tag/v1%2Frc%231",
            "tarball_url": "http://git.example.com/api/v1/repos/bob/demo/archive/v1/rc%231.tar.gz",
            "zipball_url": "http://git.example.com/api/v1/repos/bob/demo/archive/v1/rc%231.zip",
            "author": {
                "id": 0, "username": "ghost", "login": "ghost", "full_name": "", "email": "",
                "avatar_url": "http://git.example.com/avatars/0",
            },
            "assets": [{
                "id": 4, "name": "a b.zip", "size": 3, "download_count": 2, "created_at": "1970-01-01T00:00:00Z",
                "uuid": shown["assets"][0]["uuid"], "sha256": "ff",
                "browser_download_url": "http://git.example.com/bob/demo/releases/download/v1%2Frc%231/a%20b.zip",
            }],
        });
        assert_eq!(shown, expected);
        assert_eq!(shown["assets"][0]["uuid"].as_str().unwrap().len(), 36);
    }
}
