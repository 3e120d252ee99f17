"""release-plz writes the version and the changelog of a crate from its commits, and tags and releases it through
the API.
"""

from fixture import commit, expect, from_environment, run

MANIFEST = """\
[package]
name = "demo"
version = "0.1.0"
edition = "2021"
publish = false
"""
LOCK = """\
version = 4

[[package]]
name = "demo"
version = "0.1.0"
"""
SETTINGS = """\
[workspace]
git_only = true
git_tag_name = "v{{ version }}"
"""
FOLDER = "release-plz"


def release():
    run("git", "fetch", "--quiet", "--tags", cwd=FOLDER)
    run("release-plz", "release", "--forge", "gitea", "--git-token", site.token, cwd=FOLDER)


site = from_environment()
repository = site.new_repository(FOLDER)
files = {
    "Cargo.toml": MANIFEST,
    "Cargo.lock": LOCK,
    "release-plz.toml": SETTINGS,
    ".gitignore": "target\n",
    "src/lib.rs": "",
}
commit(FOLDER, "feat: begin", files)
release()
commit(FOLDER, "fix: mend a thing", {"src/lib.rs": "//! A crate.\n"})
run("git", "fetch", "--quiet", "--tags", cwd=FOLDER)
run("release-plz", "update", cwd=FOLDER)
commit(FOLDER, "chore: release", {})
release()

releases = {release["tag_name"]: release for release in site.get(f"{repository}/releases")}
expect("releases", sorted(releases), ["v0.1.0", "v0.1.1"])
expect("notes name the commit", "mend a thing" in releases["v0.1.1"]["body"], True)
head = site.get(f"{repository}/branches/main")["commit"]["id"]
expect("tag", [tag["name"] for tag in site.get(f"{repository}/tags") if tag["commit"]["id"] == head], ["v0.1.1"])
release()
expect("releases after a repeated run", len(site.get(f"{repository}/releases")), 2)
print("versions 0.1.0 and 0.1.1 with a changelog, tags and releases")
