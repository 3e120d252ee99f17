"""Renovate looks up newer versions of dependencies, and the commits of their tags. Its datasources for Gitea and
Forgejo read the API, the one for git reads refs.
"""

import json
import pathlib

from fixture import commit, expect, from_environment, git, run

PATTERN = "(?<datasource>\\S+) (?<packageName>\\S+) (?<registryUrl>\\S+) (?<currentValue>\\S+) (?<currentDigest>\\S+)\n"
DATASOURCES = ("gitea-tags", "gitea-releases", "forgejo-tags", "forgejo-releases", "git-tags")
site = from_environment()
settings = {
    "enabledManagers": ["custom.regex"],
    "customManagers": [
        {
            "customType": "regex",
            "managerFilePatterns": ["versions.txt"],
            "matchStrings": [PATTERN],
            "depNameTemplate": "{{datasource}}",
        }
    ],
}
rules = [
    {"matchHost": site.url, "hostType": kind, "token": site.token, "allowInternal": True}
    for kind in ("gitea", "forgejo")
]
repository, name = site.new_repository("renovate"), f"{site.user}/renovate"
for number in range(3):
    commit("renovate", f"feat: step {number}", {"a.txt": f"{number}\n"})
    git("tag", "--annotate", "--message", "A version", f"v1.{number}.0", cwd="renovate")
    git("push", "--quiet", "origin", f"v1.{number}.0", cwd="renovate")
    site.call("POST", f"{repository}/releases", {"tag_name": f"v1.{number}.0", "name": f"1.{number}"})
commits = git("rev-list", "main", cwd="renovate").split()

folder = pathlib.Path("project")
folder.mkdir()
packages = {source: name for source in DATASOURCES} | {"git-tags": f"{site.url}/{name}.git"}
lines = [f"{source} {package} {site.url} v1.0.0 {commits[-1]}\n" for source, package in packages.items()]
(folder / "versions.txt").write_text("".join(lines))
(folder / "renovate.json").write_text(json.dumps(settings))
run(
    "renovate",
    "--platform=local",
    "--report-type=file",
    "--report-path=../report.json",
    cwd=folder,
    RENOVATE_HOST_RULES=json.dumps(rules),
    RENOVATE_BASE_DIR=str(pathlib.Path("base").resolve()),
)

[files] = json.loads(pathlib.Path("report.json").read_text())["repositories"]["local"]["packageFiles"]["regex"]
found = {
    dependency["datasource"]: [(update["newValue"], update["newDigest"]) for update in dependency["updates"]]
    for dependency in files["deps"]
}
expect("newer versions", found, {source: [("v1.2.0", commits[0])] for source in DATASOURCES})
print("newer versions and their commits from", ", ".join(DATASOURCES))
