"""pyforgejo, a client in Python generated from Forgejo's description of its API, which checks the types of all
responses: an organization with a team, labels and a hook; a repository with commits of several files, branches,
tags, statuses, a comparison, releases, raw files; an issue; an import.
"""

import base64

from pyforgejo import ChangeFileOperation, PyforgejoApi

from fixture import expect, from_environment, wait_for

site = from_environment()
forgejo = PyforgejoApi(base_url=f"{site.url}/api/v1", api_key=site.token)
organizations, repositories, issues = forgejo.organization, forgejo.repository, forgejo.issue
ORGANIZATION, NAME = path = ("pyforgejo", "demo")

expect("version", forgejo.miscellaneous.get_version().version.startswith("1."), True)
expect("largest page", forgejo.settings.get_general_api_settings().max_response_items > 0, True)
expect("imports", forgejo.settings.get_general_repository_settings().migrations_disabled, False)

made = organizations.org_create(username=ORGANIZATION, full_name="An organization", visibility="limited")
expect("organization", (made.full_name, made.visibility), ("An organization", "limited"))
organizations.org_edit(ORGANIZATION, visibility="public", description="A text")
permissions = organizations.org_get_user_permissions(site.user, ORGANIZATION)
expect("permissions", (permissions.is_owner, permissions.can_create_repository), (True, True))
label = organizations.org_create_label(ORGANIZATION, name="everywhere", color="#00aabb")
expect(
    "labels of the organization", [label.name for label in organizations.org_list_labels(ORGANIZATION)], ["everywhere"]
)
hook = {"url": "https://example.com/hook", "content_type": "json"}
hook = organizations.org_create_hook(ORGANIZATION, config=hook, type="gitea", events=["push"], active=True)
expect("hook of the organization", (hook.type, hook.events), ("gitea", ["push"]))

repository = organizations.create_org_repo(
    ORGANIZATION, name=NAME, auto_init=True, default_branch="main", trust_model="default"
)
expect("repository", (repository.full_name, repository.default_branch), ("pyforgejo/demo", "main"))
expect("repository by id", repositories.repo_get_by_id(repository.id).full_name, "pyforgejo/demo")
team = organizations.org_create_team(ORGANIZATION, name="writers", permission="write")
organizations.org_add_team_repository(team.id, *path)
expect(
    "teams of the repository", sorted(team.name for team in repositories.repo_list_teams(*path)), ["Owners", "writers"]
)
expect("permission", repositories.repo_get_repo_permissions(*path, site.user).permission, "owner")

files = {"src/a.py": b"print('a')\n", "docs/read me.md": b"# Read\n"}
operations = [
    ChangeFileOperation(operation="create", path=path, content=base64.b64encode(text).decode())
    for path, text in files.items()
]
commit = repositories.repo_change_files(*path, files=operations, message="Add two files", branch="main").commit.sha
single = repositories.repo_get_single_commit(*path, commit, files=True)
expect("files of the commit", sorted(file.filename for file in single.files), sorted(files))
raw = b"".join(repositories.repo_get_raw_file(*path, "docs/read me.md", ref="main"))
expect("raw file", raw, files["docs/read me.md"])
wait_for("languages", lambda: set(repositories.repo_get_languages(*path)) == {"Python"})

branch = repositories.repo_create_branch(*path, new_branch_name="feature/x", old_ref_name="main")
expect("branch", (branch.name, branch.commit.id), ("feature/x", commit))
operation = ChangeFileOperation(operation="create", path="b.py", content=base64.b64encode(b"b = 1\n").decode())
repositories.repo_change_files(*path, files=[operation], message="Add another", branch="feature/x")
compared = repositories.repo_compare_diff(*path, "main...feature/x")
expect("comparison", [commit.commit.message.strip() for commit in compared.commits], ["Add another"])
repositories.repo_update_branch(*path, "feature/x", name="topic/x")
expect("branches", sorted(branch.name for branch in repositories.repo_list_branches(*path)), ["main", "topic/x"])
repositories.repo_delete_branch(*path, "topic/x")

tag = repositories.repo_create_tag(*path, tag_name="v1.0/rc", message="A candidate", target=commit)
expect("tag", (tag.name, tag.message.strip(), tag.commit.sha), ("v1.0/rc", "A candidate", commit))
expect("tag by name", repositories.repo_get_tag(*path, "v1.0/rc").commit.sha, commit)
annotated = repositories.get_annotated_tag(*path, repositories.repo_get_tag(*path, "v1.0/rc").id)
expect("annotated tag", (annotated.tag, annotated.object.sha), ("v1.0/rc", commit))
repositories.repo_delete_tag(*path, "v1.0/rc")
expect("tags", repositories.repo_list_tags(*path), [])

repositories.repo_create_status(*path, commit, context="ci/build", state="success", description="It builds")
repositories.repo_create_status(*path, commit, context="ci/test", state="failure", target_url="https://example.com")
combined = repositories.repo_get_combined_status_by_ref(*path, "main")
expect("combined status", (combined.state, combined.total_count, combined.sha), ("failure", 2, commit))
statuses = repositories.repo_list_statuses_by_ref(*path, "main")
expect(
    "statuses", {status.context: status.status for status in statuses}, {"ci/build": "success", "ci/test": "failure"}
)

release = repositories.repo_create_release(*path, tag_name="v1.0", name="First", body="Notes", target_commitish="main")
repositories.repo_create_release_attachment(*path, release.id, name="a.bin", request=b"abc")
latest = repositories.repo_get_latest_release(*path)
expect("latest release", (latest.tag_name, [file.name for file in latest.assets]), ("v1.0", ["a.bin"]))
expect("release by tag", repositories.repo_get_release_by_tag(*path, "v1.0").id, release.id)
repositories.repo_delete_release_by_tag(*path, "v1.0")
expect("releases", repositories.repo_list_releases(*path), [])

issue = issues.create_issue(*path, title="It breaks", body="Often.", labels=[label.id])
issues.create_comment(*path, issue.number, body="Here too.")
issues.edit_issue(*path, issue.number, state="closed")
closed = issues.list_issues(*path, state="closed", type="issues")
expect("closed issues", [(issue.title, issue.comments) for issue in closed], [("It breaks", 1)])

copy = repositories.repo_migrate(
    clone_addr=f"{site.url}/pyforgejo/demo.git",
    repo_name="copy",
    repo_owner=site.user,
    service="git",
    auth_token=site.token,
)
expect("import", (copy.full_name, copy.mirror), (f"{site.user}/copy", False))
expect("imported commit", repositories.repo_get_branch(site.user, "copy", "main").commit.id, commit)
for owner, name in (path, (site.user, "copy")):
    repositories.repo_delete(owner, name)
organizations.org_delete(ORGANIZATION)
print("organization, team, labels, hooks, repository, branches, tags, statuses, comparison, release, issue, import")
