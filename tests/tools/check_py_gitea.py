"""py-gitea, a client in Python: as an administrator it creates an account, an organization with a team, and a
repository with a branch, files, a milestone, issues and a hook, reads them, and deletes what it made.
"""

import base64

from gitea import Gitea, Issue, NotFoundException, Organization, Repository, User
from gitea.apiobject import RepoUnits

from fixture import PASSWORD, expect, from_environment

site = from_environment("ADMIN")
gitea = Gitea(site.url, site.token)
expect("version", gitea.get_version().startswith("1."), True)
expect("administrator", gitea.get_user().login, site.user)

user = gitea.create_user("pygitea", "pygitea@example.com", PASSWORD, change_pw=False, send_notify=False)
user.full_name = "Py Gitea"
user.commit("pygitea")
expect("changed user", User.request(gitea, "pygitea").full_name, "Py Gitea")

organization = gitea.create_org(user, "pygitea-org", "An organization", full_name="An organization")
organization.description = "Another text"
organization.commit()
expect("changed organization", Organization.request(gitea, "pygitea-org").description, "Another text")
expect("organizations of the user", [one.username for one in user.get_orgs()], ["pygitea-org"])

repository = gitea.create_repo(organization, "demo", default_branch="main", description="A demo")
repository.description = "A repository"
repository.website = "https://example.com"
repository.commit()
repository = Repository.request(gitea, "pygitea-org", "demo")
expect("changed repository", (repository.description, repository.website), ("A repository", "https://example.com"))
expect("default branch", repository.default_branch, "main")
expect("owner", type(repository.owner), Organization)
expect("repositories", [repository.name for repository in organization.get_repositories()], ["demo"])

units = RepoUnits(code="write", issues="write", wiki="write", pulls="write", releases="write")
team = gitea.create_team(organization, "writers", "People who write", "write", units_map=units)
team.add_user(user)
team.add_repo(organization.username, repository)
expect("members of the team", [user.login for user in team.get_members()], ["pygitea"])
expect("repositories of the team", [repository.name for repository in team.get_repos()], ["demo"])
team.remove_team_member("pygitea")
expect("teams", sorted(team.name for team in organization.get_teams()), ["Owners", "writers"])

text = base64.b64encode(b"A text.\n").decode()
made = repository.create_file("docs/a.txt", text, {"message": "Add a text", "branch": "main"})
expect("made file", made["content"]["path"], "docs/a.txt")
folder = next(content for content in repository.get_git_content() if content.name == "docs")
file = repository.get_file_content(folder)[0]
expect("file", base64.b64decode(repository.get_file_content(file)), b"A text.\n")
commit = repository.get_commits()[0]
expect("commit", commit.inner_commit["message"].strip(), "Add a text")
repository.change_file("docs/a.txt", file.sha, base64.b64encode(b"Another.\n").decode())
file = repository.get_file_content(folder)[0]
expect("changed file", base64.b64decode(repository.get_file_content(file)), b"Another.\n")
expect("its commit", repository.get_commits()[0].inner_commit["message"].strip(), "Update docs/a.txt")
repository.delete_file("docs/a.txt", file.sha, {"message": "Delete it"})
expect("contents", [content.name for content in repository.get_git_content()], ["README.md"])

main = next(branch for branch in repository.get_branches() if branch.name == "main")
expect("made branch", repository.add_branch(main, "feature/x").name, "feature/x")
expect("branches", sorted(branch.name for branch in repository.get_branches()), ["feature/x", "main"])
repository.add_topic("tea")
expect("topics", repository.get_topics(), ["tea"])

expect("milestone", repository.create_milestone("1.0", "The first").title, "1.0")
repository.create_issue("It breaks", [], "Often.")
expect("open issues", [issue.title for issue in repository.get_issues_state(Issue.OPENED)], ["It breaks"])
expect("issue", Issue.request(gitea, "pygitea-org", "demo", 1).body, "Often.")

hook = repository.create_gitea_hook("https://example.com/hook", ["push", "create"])
expect(
    "hooks",
    [(hook["type"], sorted(hook["events"])) for hook in repository.list_hooks()],
    [("gitea", ["create", "push"])],
)
repository.delete_hook(hook["id"])
expect("collaborators", repository.get_user_permission(user).permission, "owner")
repository.transfer_ownership(user)
expect("owner after the transfer", Repository.request(gitea, "pygitea", "demo").owner.login, "pygitea")

Repository.request(gitea, "pygitea", "demo").delete()
team.delete()
organization.delete()
user.delete()
try:
    Organization.request(gitea, "pygitea-org")
    raise AssertionError("the organization is still there")
except NotFoundException:
    print("account, organization, team, repository, branch, files, milestone, issue, hook, transfer")
