"""python-semantic-release decides on a version from the commits, commits and tags it, pushes both, and makes a
release with notes and a file. Later it changes the notes.
"""

import pathlib

from fixture import commit, expect, from_environment, run

PROJECT = """\
[project]
name = "demo"
version = "0.1.0"

[tool.semantic_release]
version_toml = ["pyproject.toml:project.version"]
build_command = "mkdir -p dist && echo wheel > dist/demo.whl"

[tool.semantic_release.remote]
type = "gitea"
domain = "{site.url}"
insecure = true
token = {{ env = "FERRITE_USER_TOKEN" }}

[tool.semantic_release.publish]
dist_glob_patterns = ["dist/*"]
"""

site = from_environment()
repository = site.new_repository("python-semantic-release")
folder = pathlib.Path("python-semantic-release")
commit(folder, "feat: begin", {"pyproject.toml": PROJECT.format(site=site), ".gitignore": "dist\n"})
run("python-semantic-release", "version", cwd=folder)
commit(folder, "fix: mend a thing", {"a.txt": "a\n"})
run("python-semantic-release", "version", cwd=folder)
run("python-semantic-release", "publish", cwd=folder)

releases = {release["tag_name"]: release for release in site.get(f"{repository}/releases")}
expect("releases", sorted(releases), ["v1.0.0", "v1.0.1"])
latest = releases["v1.0.1"]
expect("name and state", (latest["name"], latest["draft"]), ("v1.0.1", False))
expect("notes name the commit", "Mend a thing" in latest["body"], True)
expect("files", [file["name"] for file in latest["assets"]], ["demo.whl"])
head = site.get(f"{repository}/commits?limit=1")[0]
expect("last commit", head["commit"]["message"].splitlines()[0], "1.0.1")
expect("tag", [tag["name"] for tag in site.get(f"{repository}/tags") if tag["commit"]["id"] == head["sha"]], ["v1.0.1"])

(folder / "CHANGELOG.md").unlink()
run("python-semantic-release", "changelog", "--post-to-release-tag", "v1.0.1", cwd=folder)
expect("changed notes", "Mend a thing" in site.get(f"{repository}/releases/tags/v1.0.1")["body"], True)
print("pushes versions 1.0.0 and 1.0.1, releases both with notes and a file, changes the notes")
