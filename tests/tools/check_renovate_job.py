"""Renovate's job on a repository: it opens a pull request for a newer version and keeps it up to date, waits for the
status of the commit, and then merges.
"""

import json
import pathlib

from fixture import commit, expect, from_environment, git, run, wait_for

PATTERN = "(?<depName>\\S+) (?<currentValue>\\S+)\n"
site, keeper = from_environment(), from_environment("ADMIN")
settings = {
    "enabledManagers": ["custom.regex"],
    "customManagers": [
        {
            "customType": "regex",
            "managerFilePatterns": ["versions.txt"],
            "matchStrings": [PATTERN],
            "datasourceTemplate": "gitea-tags",
            "registryUrlTemplate": site.url,
        }
    ],
    "dependencyDashboard": True,
    "labels": ["dependencies"],
    "assignees": [site.user],
    "assignAutomerge": True,
    "automerge": True,
    "automergeType": "pr",
    "platformAutomerge": False,
    "rebaseWhen": "behind-base-branch",
}
rules = [{"matchHost": site.url, "hostType": "gitea", "token": site.token, "allowInternal": True}]


def release(number):
    """A version of the dependency."""
    commit("library", f"feat: step {number}", {"a.txt": f"{number}\n"})
    git("tag", f"v1.{number}.0", cwd="library")
    git("push", "--quiet", "origin", f"v1.{number}.0", cwd="library")


def renovate():
    """Does the job once. It warns of whatever the server refuses."""
    printed = run(
        "renovate",
        f"{site.user}/project",
        "--platform=gitea",
        f"--endpoint={site.url}/api/v1/",
        RENOVATE_TOKEN=site.token,
        RENOVATE_HOST_RULES=json.dumps(rules),
        RENOVATE_GIT_AUTHOR="Renovate <renovate@example.com>",
        RENOVATE_BASE_DIR=str(pathlib.Path("base").resolve()),
        LOG_FORMAT="json",
    )
    entries = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    expect("warnings", [entry for entry in entries if "repository" in entry and entry["level"] >= 40], [])


def pulls(state="open"):
    return site.get(f"{project}/pulls?state={state}")


library, dependency = site.new_repository("library"), f"{site.user}/library"
release(0)
release(1)
project = site.new_repository("project")
label = site.call("POST", f"{project}/labels", {"name": "dependencies", "color": "#00aabb"})
commit("project", "first", {"versions.txt": f"{dependency} v1.0.0\n", "renovate.json": json.dumps(settings)})

renovate()
[pull] = pulls()
expect("the title", pull["title"], f"Update dependency {dependency} to v1.1.0")
expect("the head", pull["head"]["ref"], f"renovate/{site.user}-library-1.x")
expect("the label", [found["id"] for found in pull["labels"]], [label["id"]])
expect("the assignee", [found["login"] for found in pull["assignees"]], [site.user])
titles = [found["title"] for found in site.get(f"{project}/issues?type=issues")]
expect("the dashboard", titles, ["Dependency Dashboard"])

# A newer version, and a base that has moved.
release(2)
commit("project", "second", {"b.txt": "b\n"})
renovate()
[updated] = pulls()
expect("the number", updated["number"], pull["number"])
expect("the new title", updated["title"], f"Update dependency {dependency} to v1.2.0")
base = site.get(f"{project}/branches/main")["commit"]["id"]
expect("the merge base", (updated["merge_base"], updated["mergeable"]), (base, True))

# Nothing is merged before the commit has a successful status.
status = f"{project}/statuses/{updated['head']['sha']}"
site.call("POST", status, {"state": "pending", "context": "build"})
renovate()
expect("still open", [found["number"] for found in pulls()], [pull["number"]])
site.call("POST", status, {"state": "success", "context": "build"})
renovate()
expect("open", pulls(), [])
[merged] = pulls("closed")
expect("merged", (merged["merged"], merged["merged_by"]["login"]), (True, site.user))
git("pull", "--quiet", "origin", "main", cwd="project")
expect("versions", pathlib.Path("project/versions.txt").read_text(), f"{dependency} v1.2.0\n")
renovate()
expect("branches", [found["name"] for found in site.get(f"{project}/branches")], ["main"])

# With a required check, the merge can be left to the server.
rule = {"rule_name": "main", "enable_push": True, "enable_status_check": True, "status_check_contexts": ["build"]}
settings |= {"platformAutomerge": True, "reviewers": [keeper.user]}
commit("project", "third", {"renovate.json": json.dumps(settings)})
site.call("POST", f"{project}/branch_protections", rule)
release(3)
renovate()
[scheduled] = pulls()
expect("the schedule", scheduled["scheduled_merge"]["user"]["login"], site.user)
expect("the reviewer", [found["login"] for found in scheduled["requested_reviewers"]], [keeper.user])
site.call("POST", f"{project}/statuses/{scheduled['head']['sha']}", {"state": "success", "context": "build"})
wait_for("the merge", lambda: site.get(f"{project}/pulls/{scheduled['number']}")["merged"])
print("opens a pull request, updates it, asks for a review, waits for a status and merges it, or lets it be merged")
