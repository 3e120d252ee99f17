"""What the requests find: accounts, an organization and repositories with one thing of each kind.

All of it is made by an administrator of its own, the keeper, whom no request of the run names. Making it again makes what is missing.
"""

import base64
import json
import urllib.error
import urllib.request

PASSWORD = "correct horse battery"
KEEPER, ADMINISTRATOR, USER, OTHER = "fuzz-keeper", "fuzz-admin", "fuzz-user", "fuzz-other"
ORGANIZATION = "fuzz-org"
# Each of these has a repository of this name; that of the administrator is private.
OWNERS, REPOSITORY = (USER, ORGANIZATION, ADMINISTRATOR), "fuzz-repo"
# The token of each account that the run uses, and the store that has all repositories.
TOKEN, STORE = "fuzz-token", "default"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUBmMGSXgqVOkNXOxSNzbVhyHpwBJsQcGDJhyDB0LZs"


class Site:
    """An installation and the token of the keeper."""

    def __init__(self, url, token=None):
        self.url, self.token = url, token

    def call(self, method, path, body=None, password_of=None):
        """Sends a request; returns its status and its JSON, if there is any."""
        headers = {"content-type": "application/json"}
        if password_of:
            pair = base64.b64encode(f"{password_of}:{PASSWORD}".encode()).decode()
            headers["authorization"] = f"Basic {pair}"
        else:
            headers["authorization"] = f"token {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, None

    def make(self, path, body, method="POST"):
        """Makes something. What is there already stays; any other refusal ends the run."""
        status, answer = self.call(method, path, body)
        if status >= 300 and status not in (409, 422):
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def new_token(self, user, name=TOKEN):
        """Makes a token of an account by its password; one with this name goes first."""
        tokens = f"/users/{user}/tokens"
        self.call("DELETE", f"{tokens}/{name}", password_of=user)
        status, answer = self.call("POST", tokens, {"name": name}, password_of=user)
        if status != 201:
            raise RuntimeError(f"no token for {user}: {status} {answer}")
        return answer["sha1"]


def make_accounts(site):
    """Makes the accounts and the organization."""
    for name in (ADMINISTRATOR, USER, OTHER):
        account = {"username": name, "email": f"{name}@example.com", "password": PASSWORD}
        site.make("/admin/users", account)
    site.make(f"/admin/users/{ADMINISTRATOR}", {"admin": True}, "PATCH")
    site.make(f"/admin/users/{USER}/orgs", {"username": ORGANIZATION})
    for name in (ADMINISTRATOR, USER):
        site.make(f"/orgs/{ORGANIZATION}/memberships/{name}", {"role": "admin"}, "PUT")
    site.make(f"/orgs/{ORGANIZATION}/teams", {"name": "fuzz-team", "permission": "write"})


def make_repositories(site):
    """Makes the repositories that are missing, each with what the requests ask for."""
    for owner in OWNERS:
        path = f"/repos/{owner}/{REPOSITORY}"
        if site.call("GET", path)[0] != 200:
            body = {"name": REPOSITORY, "private": owner == ADMINISTRATOR, "auto_init": True}
            site.make(f"/admin/users/{owner}/repos", body)
            fill_repository(site, path)


def fill_repository(site, path):
    """Makes one thing of each kind in a new repository."""
    text = base64.b64encode(b"A text.\n").decode()
    site.make(f"{path}/contents/docs/a.txt", {"content": text, "message": "Add a text"}, "PUT")
    topic = {"content": text, "message": "Add another", "new_branch": "topic/a"}
    site.make(f"{path}/contents/b.txt", topic, "PUT")
    site.make(f"{path}/releases", {"tag_name": "v1", "target_commitish": "main", "name": "First"})
    site.make(f"{path}/labels", {"name": "bug", "color": "#aabbcc"})
    site.make(f"{path}/milestones", {"title": "1.0"})
    for number in (1, 2):
        site.make(f"{path}/issues", {"title": f"Issue {number}", "body": "A text.", "labels": []})
        site.make(f"{path}/issues/{number}/comments", {"body": "A comment."})
    site.make(f"{path}/hooks", {"type": "ferrite", "config": {"url": "http://hooks.example.com/"}})
    site.make(f"{path}/keys", {"title": "Deploy", "key": KEY})
    site.make(f"{path}/branch_protections", {"pattern": "release/*"})
    site.make(f"{path}/topics", {"topics": ["fuzzing"]}, "PUT")
    site.make(f"{path}/collaborators/{OTHER}", {"permission": "read"}, "PUT")


def make_all(site):
    """Makes whatever is missing."""
    make_accounts(site)
    make_repositories(site)
