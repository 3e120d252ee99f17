use super::Row;

const RELEASE: &str = "The id of the release.";

pub(super) const ROWS: &[Row] = &[
    ("", "tag", "string", "The name of the tag. It can contain slashes."),
    ("", "asset", "integer", "The id of the file."),
    ("GetRelease", "id", "integer", RELEASE),
    ("UpdateRelease", "id", "integer", RELEASE),
    ("DeleteRelease", "id", "integer", RELEASE),
    ("ListReleaseAssets", "id", "integer", RELEASE),
    ("CreateReleaseAsset", "id", "integer", RELEASE),
    ("GetReleaseAsset", "id", "integer", RELEASE),
    ("UpdateReleaseAsset", "id", "integer", RELEASE),
    ("DeleteReleaseAsset", "id", "integer", RELEASE),
    ("DownloadReleaseAsset", "file", "string", "The tag and the file name, separated by a slash."),
];
