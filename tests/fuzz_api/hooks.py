"""Keeps the accounts and tokens of the run valid, and the first repositories in place."""

import itertools
import os

import schemathesis

import seed

SITE = seed.Site(os.environ["FUZZ_URL"], os.environ["FUZZ_KEEPER_TOKEN"])
KEPT = (seed.KEEPER, seed.ADMINISTRATOR, seed.USER)
# Writes to an account by name are redirected to an account that does not sign in.
OF_ACCOUNTS = ("UpdateUser", "DeleteUser", "UpdateQuota")
OF_STORES = ("SetStore", "UpdateStore", "DeleteStore")
# Writes that remove a repository from its name are redirected to the spare one.
OF_SPARE = ("DeleteRepository", "StartTransfer")
# Writes after which something is created again.
MEMBERS_LOST = ("RemoveMember", "RemoveMemberByMembership", "SetMembership")
REPOSITORY_LOST = (*OF_SPARE, "AcceptTransfer", "UpdateRepository", "UpdateIssueTracker")
# The coverage phase's value for path parameters that it does not test, and existing values.
DEFAULT = "0"
KNOWN = {
    "owner": seed.USER,
    "repo": seed.REPOSITORY,
    "username": seed.USER,
    "org": seed.ORGANIZATION,
    "collaborator": seed.OTHER,
    "target": seed.ADMINISTRATOR,
    "branch": "main",
    "sha": "main",
    "tag": "v1",
    "name": "heads",
    "file": "README.md",
    "archive": "main.zip",
    "pattern": "release/*",
    "topic": "fuzzing",
    "delivery": "1",
    "id": "1",
    "email": f"{seed.USER}@example.com",
}
KNOWN_OF = {
    "GetRawFile": {"file": "main/README.md"},
    "GetAvatar": {"file": "1"},
    "DownloadReleaseAsset": {"file": "v1/a.txt"},
}
# Unique fields, and how to derive another value.
UNIQUE = {
    "username": lambda value, number: f"{value[:20]}-{number}",
    "name": lambda value, number: f"{value[:20]}-{number}",
    "repo_name": lambda value, number: f"{value[:20]}-{number}",
    "tag_name": lambda value, number: f"{value[:20]}-{number}",
    "title": lambda value, number: f"{value[:20]}-{number}",
    "email": lambda value, number: f"fuzz-{number}@example.com",
    "password": lambda value, number: f"{value[:100]}{seed.PASSWORD}",
}
NUMBERS = itertools.count(1)


def operation_of(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.hook
def before_call(context, case, **kwargs):
    operation, path, number = operation_of(case), case.path_parameters or {}, next(NUMBERS)
    if case.method.upper() != case.operation.method.upper():
        # The path does not have this method.
        return
    for name, value in path.items():
        if value == DEFAULT:
            path[name] = KNOWN_OF.get(operation, KNOWN).get(name, KNOWN.get(name, value))
    # A reused key is a 422, and most generated keys are the same.
    if number % 8 and case.headers:
        case.headers.pop("Idempotency-Key", None)
    if number % 4 and case.method == "POST" and isinstance(case.body, dict):
        for name in UNIQUE.keys() & case.body.keys():
            if isinstance(case.body[name], str) and case.body[name]:
                case.body[name] = UNIQUE[name](case.body[name], number)
    keep(operation, case, path)


def keep(operation, case, path):
    """Redirects a request from what later ones need."""
    if operation in OF_ACCOUNTS and path.get("username") in KEPT:
        path["username"] = seed.OTHER
    elif operation in OF_STORES and path.get("name") == seed.STORE:
        path["name"] = "fuzz-store"
    elif operation == "DeleteAccessToken" and path.get("username") in KEPT and is_own_token(path):
        path["name"] = "fuzz-no-token"
    elif operation == "ChangePassword" and isinstance(case.body, dict) and "password" in case.body:
        case.body["password"] = seed.PASSWORD
    elif operation in OF_SPARE and path.get("repo") == seed.REPOSITORY:
        path["repo"] = seed.SPARE
    elif operation == "UpdateRepository" and path.get("repo") == seed.REPOSITORY and isinstance(case.body, dict):
        case.body.pop("name", None)
    elif case.method == "DELETE":
        # Keeps the first of each kind.
        for name in ("id", "asset"):
            if path.get(name) == 1:
                path[name] = 2


def is_own_token(path):
    """Whether the name or id is that of the run's own token."""
    status, tokens = SITE.call("GET", f"/users/{path['username']}/tokens", password_of=path["username"])
    own = [token for token in tokens or [] if status == 200 and token["name"] == seed.TOKEN]
    return str(path.get("name")) in [seed.TOKEN, *(str(token.get("id")) for token in own)]


@schemathesis.hook
def after_call(context, case, response):
    if case.method == "GET" or not 200 <= response.status_code < 300:
        return
    operation, path = operation_of(case), case.path_parameters or {}
    if operation == "DeleteUser":
        seed.make_accounts(SITE)
    elif operation in MEMBERS_LOST:
        seed.make_owners(SITE)
    elif operation in REPOSITORY_LOST and path["owner"] in seed.OWNERS and path["repo"] in (seed.REPOSITORY, seed.SPARE):
        seed.make_repository(SITE, path["owner"], path["repo"])
    elif operation == "SetStore":
        # Otherwise new repositories would be placed on a missing store.
        SITE.call("DELETE", f"/admin/stores/{path['name']}")
