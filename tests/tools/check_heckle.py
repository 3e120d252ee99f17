"""heckle reads the settings of an organization to write them as Terraform's: members, teams, repositories, their
labels, keys, hooks and protections.
"""

import json
import pathlib

from fixture import expect, from_environment, run

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUBmMGSXgqVOkNXOxSNzbVhyHpwBJsQcGDJhyDB0LZs"
ORGANIZATION = "heckle"
site = from_environment()
site.call("POST", "/user/orgs", {"username": ORGANIZATION})
repository = f"/repos/{ORGANIZATION}/demo"
site.call("POST", f"/orgs/{ORGANIZATION}/repos", {"name": "demo", "auto_init": True, "private": True})
team = site.call("POST", f"/orgs/{ORGANIZATION}/teams", {"name": "writers", "permission": "write"})
site.call("PUT", f"/teams/{team['id']}/repos/demo")
site.call("POST", f"{repository}/labels", {"name": "bug", "color": "#ee0701"})
site.call("POST", f"{repository}/keys", {"title": "deploy", "key": KEY})
site.call("POST", f"{repository}/branch_protections", {"pattern": "release/*"})

for forge in ("gitea", "forgejo"):
    command = ("heckle", "inventory", forge, "--org", ORGANIZATION, "--url", site.url, "--allow-http", "--out", forge)
    run(*command, **{f"{forge.upper()}_TOKEN": site.token})
    entities = json.loads(pathlib.Path(forge, "inventory.json").read_text())["entities"]
    found = {entity["native_kind"] for entity in entities}
    expect(
        "kinds",
        found,
        {
            "organization",
            "organization_member",
            "team",
            "team_member",
            "team_repository",
            "repository",
            "repository_label",
            "deploy_key",
            "branch_protection",
        },
    )
    expect(
        "teams",
        {entity["key"] for entity in entities if entity["native_kind"] == "team"},
        {f"{ORGANIZATION}/Owners", f"{ORGANIZATION}/writers"},
    )
print("inventory of an organization, its teams and repositories, as of Gitea and of Forgejo")
