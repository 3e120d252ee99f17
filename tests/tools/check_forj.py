"""forj, a command line for Gitea and Forgejo: labels, a milestone, issues with comments, a release with a file."""

import json
import os
import pathlib

from fixture import commit, expect, from_environment, run


def forj(*arguments):
    return json.loads(run("forj", "--json", *arguments))


def column(name, rows):
    return [row[name] for row in rows]


site = from_environment()
repository = site.new_repository("forj")
commit("forj", "Begin", {"a.txt": "A text.\n"})
os.environ |= {
    "FORJ_API_ROOT": f"{site.url}/api/v1",
    "FORJ_REPO": f"{site.user}/forj",
    "FORJ_TOKEN": site.token,
    "FORJ_ALLOW_DELETE": "1",
}

for name in ("bug", "docs"):
    forj("label", "create", name, "--color", "#ee0701", "--desc", "A label")
expect("labels", column("name", forj("label", "list")), ["bug", "docs"])
forj("milestone", "create", "1.0", "--description", "The first", "--due-date", "2099-12-31")
for title in ("It breaks", "It has no page"):
    forj("issue", "create", title, "Often.")
forj("issue", "label", "add", "1", "bug", "docs")
forj("issue", "label", "remove", "1", "docs")
forj("issue", "edit", "1", "--milestone", "1.0", "--state", "closed")
comment = str(forj("comment", "create", "1", "Here too.")["id"])
forj("comment", "edit", comment, "Here as well.")
issue = forj("issue", "get", "1")
expect(
    "issue", (issue["state"], column("name", issue["labels"]), issue["milestone"]["title"]), ("closed", ["bug"], "1.0")
)
expect("comments", column("body", forj("comment", "list", "1")), ["Here as well."])
expect(
    "issues with the label", column("title", forj("issue", "list", "--state", "all", "--label", "bug")), ["It breaks"]
)
expect("open issues", column("title", forj("issue", "list")), ["It has no page"])

release = str(
    forj("release", "create", "v1.0", "--name", "First", "--body", "Notes", "--target", "main", "--draft")["id"]
)
pathlib.Path("a.bin").write_bytes(b"abc")
forj("release-asset", "upload", release, "a.bin")
expect("files", column("name", forj("release-asset", "list", release)), ["a.bin"])
forj("release", "edit", release, "--body", "Better notes", "--no-draft")
expect("release", forj("release", "get-tag", "v1.0")["body"], "Better notes")
forj("release", "delete", release, "--yes")
expect("releases", forj("release", "list"), [])
print("labels, milestone, issues with comments, release with a file")
