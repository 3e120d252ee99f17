use ferrite_kit::timestamp;
use ferrite_proto::id::UserId;
use ferrite_proto::repo;

use crate::access::Viewer;
use crate::model::User;
use crate::rpc::encode;
use crate::store::{Asset, Release};

/// Encodes a release with its files as `viewer` sees it.
pub(super) fn release(row: Release, assets: Vec<Asset>, viewer: &Viewer) -> repo::Release {
    let author = author(&row).map(|author| encode::user(author, viewer));
    let assets = assets.into_iter().map(|row_of_asset| asset(row_of_asset, &row)).collect();
    repo::Release {
        id: row.id,
        tag_name: row.tag_name,
        target: row.target,
        title: row.title,
        body: row.body,
        is_draft: row.is_draft,
        is_prerelease: row.is_prerelease,
        author,
        create_time: Some(timestamp(row.created_us)),
        publish_time: (row.published_us > 0).then(|| timestamp(row.published_us)),
        assets,
        is_truncated: row.is_truncated,
    }
}

fn author(row: &Release) -> Option<User> {
    Some(User {
        id: UserId(row.author_id?),
        username: row.author_name.clone()?,
        full_name: row.author_full_name.clone()?,
        email: row.author_email.clone()?,
        is_organization: false,
        is_admin: row.author_is_admin?,
    })
}

/// Encodes a file of a release.
pub(super) fn asset(row: Asset, release: &Release) -> repo::ReleaseAsset {
    repo::ReleaseAsset {
        id: row.id,
        name: row.name,
        size_bytes: row.size_bytes,
        sha256: row.sha256,
        download_count: row.download_count,
        content_type: row.content_type,
        create_time: Some(timestamp(row.created_us)),
        file_id: row.file_id,
        tag_name: release.tag_name.clone(),
    }
}
