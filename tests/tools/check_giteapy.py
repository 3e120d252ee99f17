"""giteapy, a client in Python generated from Gitea's description of its API: a repository with a file, a
collaborator, a deploy key, labels, a milestone, issues with comments, a commit status, a hook and a release with
a file, then its git objects, a fork, a star and a search.
"""

import base64
import pathlib

import giteapy

from fixture import PASSWORD, expect, from_environment

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUBmMGSXgqVOkNXOxSNzbVhyHpwBJsQcGDJhyDB0LZs"
site = from_environment()
configuration = giteapy.Configuration()
configuration.host = f"{site.url}/api/v1"
configuration.api_key = {"Authorization": f"token {site.token}"}
client = giteapy.ApiClient(configuration)
users, organizations, issues = giteapy.UserApi(client), giteapy.OrganizationApi(client), giteapy.IssueApi(client)
repositories, service = giteapy.RepositoryApi(client), giteapy.MiscellaneousApi(client)
OWNER, NAME = path = (site.user, "giteapy")
from_environment("ADMIN").call(
    "POST", "/admin/users", {"username": "giteapy-reader", "email": "reader@example.com", "password": PASSWORD}
)

expect("version", service.get_version().version.startswith("1."), True)
expect("account", users.user_get_current().login, OWNER)
expect("Markdown", "<em>a</em>" in service.render_markdown(body=giteapy.MarkdownOption(text="*a*", mode="gfm")), True)

made = repositories.create_current_user_repo(body=giteapy.CreateRepoOption(name=NAME, auto_init=True, readme="Default"))
expect("repository", (made.full_name, made.private, made.permissions.admin), (f"{OWNER}/{NAME}", False, True))
edit = giteapy.EditRepoOption(description="A repository", website="https://example.com", has_issues=True)
expect("changed repository", repositories.repo_edit(*path, body=edit).description, "A repository")
repositories.repo_add_topc(*path, "tea")
expect("topics", repositories.repo_list_topics(*path).topics, ["tea"])
main = made.default_branch

content = base64.b64encode(b"A text.\n").decode()
file = repositories.repo_create_file(
    *path, "docs/a.txt", giteapy.CreateFileOptions(content=content, message="Add a text")
)
expect("file", (file.content.path, file.content.type), ("docs/a.txt", "file"))
content = base64.b64encode(b"Another text.\n").decode()
update = giteapy.UpdateFileOptions(content=content, message="Change it", sha=file.content.sha, branch=main)
commit = repositories.repo_update_file(*path, "docs/a.txt", update).commit.sha
expect("changed file", repositories.repo_get_contents(*path, "docs/a.txt", ref=main).content, content)
expect("contents", {entry.name for entry in repositories.repo_get_contents_list(*path)}, {"README.md", "docs"})
expect("branch", repositories.repo_get_branch(*path, main).commit.id, commit)
expect("commits", repositories.repo_get_all_commits(*path)[0].commit.message.strip(), "Change it")
expect("commit", repositories.repo_get_single_commit(*path, commit).sha, commit)
expect(
    "refs",
    {ref.ref: ref.object.sha for ref in repositories.repo_list_all_git_refs(*path)},
    {f"refs/heads/{main}": commit},
)
tree = {entry.path: entry.sha for entry in repositories.get_tree(*path, commit, recursive=1).tree}
expect("blob", base64.b64decode(repositories.get_blob(*path, tree["docs/a.txt"]).content), b"Another text.\n")

repositories.repo_add_collaborator(*path, "giteapy-reader", body=giteapy.AddCollaboratorOption(permission="read"))
expect("collaborators", [user.login for user in repositories.repo_list_collaborators(*path)], ["giteapy-reader"])
repositories.repo_check_collaborator(*path, "giteapy-reader")
repositories.repo_create_key(*path, body=giteapy.CreateKeyOption(title="deploy", key=KEY, read_only=True))
expect("keys", [(key.title, key.read_only) for key in repositories.repo_list_keys(*path)], [("deploy", True)])

for state in ("pending", "success"):
    status = giteapy.CreateStatusOption(
        state=state, context="ci/build", description="It builds", target_url="https://example.com/1"
    )
    repositories.repo_create_status(*path, commit, body=status)
expect("statuses", [status.status for status in repositories.repo_list_statuses(*path, commit)], ["success", "pending"])

label = issues.issue_create_label(
    *path, body=giteapy.CreateLabelOption(name="bug", color="#ee0701", description="It breaks")
)
milestone = issues.issue_create_milestone(
    *path, body=giteapy.CreateMilestoneOption(title="1.0", description="The first")
)
new = giteapy.CreateIssueOption(title="It breaks", body="Often.", labels=[label.id], milestone=milestone.id)
issue = issues.issue_create_issue(*path, body=new)
expect("issue", (issue.number, [label.name for label in issue.labels], issue.milestone.title), (1, ["bug"], "1.0"))
comment = issues.issue_create_comment(*path, issue.number, body=giteapy.CreateIssueCommentOption(body="Here too."))
issues.issue_edit_comment(*path, comment.id, body=giteapy.EditIssueCommentOption(body="Here as well."))
expect("comments", [comment.body for comment in issues.issue_get_comments(*path, issue.number)], ["Here as well."])
issues.issue_remove_label(*path, issue.number, label.id)
expect(
    "closed",
    issues.issue_edit_issue(*path, issue.number, body=giteapy.EditIssueOption(title="It broke", state="closed")).state,
    "closed",
)
expect("closed issues", [issue.title for issue in issues.issue_list_issues(*path, state="closed")], ["It broke"])

config = {"url": "https://example.com/hook", "content_type": "json"}
hook = repositories.repo_create_hook(
    *path, body=giteapy.CreateHookOption(type="gitea", config=config, events=["push"], active=True)
)
hook = repositories.repo_edit_hook(
    *path, hook.id, body=giteapy.EditHookOption(events=["push", "release"], active=False)
)
expect(
    "hook",
    (hook.type, hook.config["url"], set(hook.events), hook.active),
    ("gitea", config["url"], {"push", "release"}, False),
)

new = giteapy.CreateReleaseOption(tag_name="v1.0", target_commitish=main, name="First", body="Notes", draft=True)
release = repositories.repo_create_release(*path, body=new)
pathlib.Path("a.bin").write_bytes(bytes(range(256)))
file = repositories.repo_create_release_attachment(*path, release.id, "a.bin", name="a.bin")
expect("release file", (file.name, file.size), ("a.bin", 256))
repositories.repo_edit_release(*path, release.id, body=giteapy.EditReleaseOption(draft=False))
releases = [
    (release.tag_name, release.draft, [file.name for file in release.assets])
    for release in repositories.repo_list_releases(*path)
]
expect("releases", releases, [("v1.0", False, ["a.bin"])])
expect("tags", [tag.name for tag in repositories.repo_list_tags(*path)], ["v1.0"])

users.user_current_put_star(*path)
expect("starred", [repository.name for repository in users.user_current_list_starred()], [NAME])
expect(
    "found", [repository.full_name for repository in repositories.repo_search(q="giteapy").data], [f"{OWNER}/{NAME}"]
)
organizations.org_create(giteapy.CreateOrgOption(username="giteapy-org", full_name="An organization"))
expect(
    "fork",
    repositories.create_fork(*path, body=giteapy.CreateForkOption(organization="giteapy-org")).full_name,
    f"giteapy-org/{NAME}",
)
repositories.repo_delete("giteapy-org", NAME)
organizations.org_delete("giteapy-org")
print("repository, files, git objects, collaborator, key, statuses, labels, issues, hook, release with a file, fork")
