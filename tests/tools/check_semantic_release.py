"""semantic-release with @saithodev/semantic-release-gitea decides on a version from the commits, pushes its tag,
and publishes a release with notes and a file, which is a draft until the file is uploaded.
"""

import json
import urllib.request

from fixture import commit, expect, from_environment, git, run

FOLDER = "semantic-release"
site = from_environment()
repository = site.new_repository(FOLDER)
settings = {
    "repositoryUrl": f"{site.url}/{site.user}/{FOLDER}.git",
    "branches": ["main"],
    "plugins": [
        "@semantic-release/commit-analyzer",
        "@semantic-release/release-notes-generator",
        ["@saithodev/semantic-release-gitea", {"giteaUrl": site.url, "assets": ["*.txt"]}],
    ],
}
package = {"name": "demo", "version": "0.0.0", "private": True, "type": "module"}
files = {"package.json": json.dumps(package), ".releaserc.json": json.dumps(settings), "a b.txt": "A text.\n"}
commit(FOLDER, "feat: begin", files)
credentials = {"GITEA_TOKEN": site.token, "GIT_CREDENTIALS": f"{site.user}:{site.token}"}
run("semantic-release", "--no-ci", cwd=FOLDER, **credentials)
commit(FOLDER, "fix: mend a thing", {"b.txt": "B.\n"})
run("semantic-release", "--no-ci", cwd=FOLDER, **credentials)

releases = {release["tag_name"]: release for release in site.get(f"{repository}/releases")}
expect("releases", sorted(releases), ["v1.0.0", "v1.0.1"])
latest = releases["v1.0.1"]
expect("state", (latest["draft"], latest["prerelease"]), (False, False))
expect("notes name the commit", "mend a thing" in latest["body"], True)
expect("files", sorted(file["name"] for file in latest["assets"]), ["a b.txt", "b.txt"])
with urllib.request.urlopen(
    next(file["browser_download_url"] for file in latest["assets"] if file["name"] == "b.txt")
) as response:
    expect("content of a file", response.read(), b"B.\n")
head = git("rev-parse", "HEAD", cwd=FOLDER).strip()
expect("tag", site.get(f"{repository}/git/refs/tags/v1.0.1")[0]["object"]["sha"], head)
print("releases 1.0.0 and 1.0.1 from commits, with notes and files")
