"""The data for the requests: accounts, an organization and repositories with one item of each kind.

A separate administrator, the keeper, creates it. No request of the run names the keeper. Running this again
creates what is missing.
"""

import base64
import json
import urllib.error
import urllib.request

PASSWORD = "correct horse battery"
KEEPER, ADMINISTRATOR, USER, OTHER = "fuzz-keeper", "fuzz-admin", "fuzz-user", "fuzz-other"
ORGANIZATION = "fuzz-org"
# Each of these owns a repository with either name; the administrator's are private.
OWNERS, REPOSITORY, SPARE = (USER, ORGANIZATION, ADMINISTRATOR), "fuzz-repo", "fuzz-spare"
# Name of the token of each account, and the store of all repositories.
TOKEN, STORE = "fuzz-token", "default"
HOOK = {"type": "native", "config": {"url": "http://hooks.example.com/", "content_type": "json"}}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUBmMGSXgqVOkNXOxSNzbVhyHpwBJsQcGDJhyDB0LZs"


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: a renamed repository counts as missing."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(NoRedirects)


class Site:
    """An installation and the keeper's token."""

    def __init__(self, url, token=None):
        self.url, self.token = url, token

    def call(self, method, path, body=None, password_of=None):
        """Sends a request. Returns the status and the JSON, if any."""
        is_file = isinstance(body, bytes)
        headers = {"content-type": "application/octet-stream" if is_file else "application/json"}
        if password_of:
            pair = base64.b64encode(f"{password_of}:{PASSWORD}".encode()).decode()
            headers["authorization"] = f"Basic {pair}"
        else:
            headers["authorization"] = f"token {self.token}"
        data = body if body is None or is_file else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with OPENER.open(request, timeout=60) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, None

    def make(self, path, body, method="POST"):
        """Creates something. Ignores existing items; other errors end the run."""
        status, answer = self.call(method, path, body)
        if status >= 300 and "already" not in str(answer):
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def new_token(self, user, name=TOKEN):
        """Creates a token of an account with its password. Replaces a token with the same name."""
        tokens = f"/users/{user}/tokens"
        self.call("DELETE", f"{tokens}/{name}", password_of=user)
        status, answer = self.call("POST", tokens, {"name": name}, password_of=user)
        if status != 201:
            raise RuntimeError(f"no token for {user}: {status} {answer}")
        return answer["sha1"]


def make_accounts(site):
    """Creates the accounts and the organization."""
    for name in (ADMINISTRATOR, USER, OTHER):
        account = {"username": name, "email": f"{name}@example.com", "password": PASSWORD}
        site.make("/admin/users", account)
    site.make(f"/admin/users/{ADMINISTRATOR}", {"admin": True}, "PATCH")
    site.make(f"/admin/users/{USER}/orgs", {"username": ORGANIZATION})
    make_owners(site)
    site.make(f"/orgs/{ORGANIZATION}/teams", {"name": "fuzz-team", "permission": "write"})


def make_owners(site):
    """Makes both roles owners of the organization."""
    for name in (ADMINISTRATOR, USER):
        site.make(f"/orgs/{ORGANIZATION}/memberships/{name}", {"role": "admin"}, "PUT")


def make_repository(site, owner, name):
    """Creates a missing repository with its items, or restores the settings of an existing one."""
    path, is_private = f"/repos/{owner}/{name}", owner == ADMINISTRATOR
    if site.call("GET", path)[0] == 200:
        site.make(path, {"private": is_private, "archived": False}, "PATCH")
        site.make(f"{path}/issue-tracker", {"enable_issues": True, "enable_external_tracker": False}, "PATCH")
        return
    site.make(f"/admin/users/{owner}/repos", {"name": name, "private": is_private, "auto_init": True})
    if name == REPOSITORY:
        fill_repository(site, path)


def fill_repository(site, path):
    """Creates one item of each kind in a new repository."""
    text = base64.b64encode(b"A text.\n").decode()
    site.make(f"{path}/contents/docs/a.txt", {"content": text, "message": "Add a text"}, "PUT")
    topic = {"content": text, "message": "Add another", "branch": "topic/a"}
    site.make(f"{path}/contents/b.txt", topic, "PUT")
    release = site.make(f"{path}/releases", {"tag_name": "v1", "target_commitish": "main", "name": "First"})
    site.make(f"{path}/releases/{release['id']}/assets?name=a.txt", b"A text.\n")
    site.make(f"{path}/labels", {"name": "bug", "color": "#aabbcc"})
    site.make(f"{path}/milestones", {"title": "1.0"})
    for number in (1, 2):
        site.make(f"{path}/issues", {"title": f"Issue {number}", "body": "A text.", "labels": []})
        site.make(f"{path}/issues/{number}/comments", {"body": "A comment."})
    site.make(f"{path}/hooks", HOOK)
    site.make(f"{path}/keys", {"title": "Deploy", "key": KEY})
    site.make(f"{path}/branch_protections", {"pattern": "release/*"})
    site.make(f"{path}/topics", {"topics": ["fuzzing"]}, "PUT")
    site.make(f"{path}/collaborators/{OTHER}", {"permission": "read"}, "PUT")


def make_all(site):
    """Creates what is missing."""
    make_accounts(site)
    for owner in OWNERS:
        for name in (REPOSITORY, SPARE):
            make_repository(site, owner, name)
