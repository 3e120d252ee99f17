"""Keeps the accounts of the run and their tokens valid, and what was there at the beginning in place, whatever a request does."""

import os

import schemathesis

import seed

SITE = seed.Site(os.environ["FUZZ_URL"], os.environ["FUZZ_KEEPER_TOKEN"])
KEPT = (seed.KEEPER, seed.ADMINISTRATOR, seed.USER)
# Writes to an account by its name, which go to one that nobody signs in with.
OF_ACCOUNTS = ("UpdateUser", "DeleteUser", "UpdateQuota")
OF_STORES = ("SetStore", "UpdateStore", "DeleteStore")
# Writes that may take away what was made at the beginning.
ACCOUNTS_LOST = (*OF_ACCOUNTS, "RemoveMember", "RemoveMemberByMembership", "SetMembership", "DeleteOrganization", "DeleteTeam")
REPOSITORIES_LOST = ("DeleteRepository", "UpdateRepository", "AcceptTransfer", "StartTransfer")


def operation_of(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.hook
def before_call(context, case, **kwargs):
    operation, path = operation_of(case), case.path_parameters
    if operation in OF_ACCOUNTS and path.get("username") in KEPT:
        path["username"] = seed.OTHER
    elif operation in OF_STORES and path.get("name") == seed.STORE:
        path["name"] = "fuzz-store"
    elif operation == "DeleteAccessToken" and path.get("username") in KEPT and keeps(path):
        path["name"] = "fuzz-no-token"


def keeps(path):
    """Whether the token is the one of the run, which its name or its id says."""
    status, tokens = SITE.call("GET", f"/users/{path['username']}/tokens", password_of=path["username"])
    own = [token for token in tokens or [] if status == 200 and token["name"] == seed.TOKEN]
    return str(path.get("name")) in [seed.TOKEN, *(str(token.get("id")) for token in own)]


@schemathesis.hook
def after_call(context, case, response):
    if case.method == "GET" or not 200 <= response.status_code < 300:
        return
    operation = operation_of(case)
    if operation in ACCOUNTS_LOST:
        seed.make_all(SITE)
    elif operation in REPOSITORIES_LOST:
        seed.make_repositories(SITE)
    elif operation == "SetStore":
        # New repositories would go to a store that does not exist.
        SITE.call("DELETE", f"/admin/stores/{case.path_parameters['name']}")
