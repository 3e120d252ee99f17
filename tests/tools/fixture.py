"""What the scripts of all programs use: the server and the accounts that `run.py` names in the environment,
repositories with history, commands.
"""

import base64
import json
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

PASSWORD = "correct horse battery"
WAIT = 60


class Failed(Exception):
    """A request or a command failed, or did something else."""


class Site:
    """A running server, and an account on it."""

    def __init__(self, url, user, token=None):
        self.url, self.user, self.token = url, user, token
        self.host = url.removeprefix("http://")

    def call(self, method, path, body=None, sign_in=None):
        """Sends a request to the API, which must succeed. Returns the JSON, if any."""
        headers = {"content-type": "application/json", "authorization": sign_in or f"token {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            raise Failed(f"{method} {path}: {error.code} {error.read()}") from None
        return json.loads(content) if content else None

    def get(self, path):
        return self.call("GET", path)

    def new_token(self):
        pair = base64.b64encode(f"{self.user}:{PASSWORD}".encode()).decode()
        return self.call("POST", f"/users/{self.user}/tokens", {"name": "tools"}, f"Basic {pair}")["sha1"]

    def new_repository(self, name):
        """Creates an empty repository and an empty clone of it in the current folder. Returns the path of its API."""
        self.call("POST", "/user/repos", {"name": name, "default_branch": "main"})
        git("init", "--quiet", "--initial-branch", "main", name)
        git("remote", "add", "origin", f"http://{self.user}:{self.token}@{self.host}/{self.user}/{name}.git", cwd=name)
        return f"/repos/{self.user}/{name}"


def from_environment(user="USER"):
    """The site that `run.py` names: with the account of a user, or of an administrator."""
    names = [os.environ[f"FERRITE_{name}"] for name in ("URL", user, f"{user}_TOKEN")]
    return Site(*names)


def run(*command, cwd=".", **environment):
    """Runs a program, which must succeed. Returns its standard output."""
    print("+", *command, flush=True)
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, text=True, stdout=subprocess.PIPE)
    print(done.stdout, flush=True)
    if done.returncode:
        raise Failed(f"{command[0]} exits with {done.returncode}")
    return done.stdout


def git(*arguments, cwd="."):
    return run("git", *arguments, cwd=cwd)


def commit(folder, message, files):
    """Writes files, by their names, commits them and pushes."""
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git("add", "--all", cwd=folder)
    git("commit", "--quiet", "--message", message, cwd=folder)
    git("push", "--quiet", "origin", "main", cwd=folder)


def wait_for(what, check):
    """Polls until `check` returns something."""
    end = time.monotonic() + WAIT
    while not (found := check()):
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {WAIT} seconds")
        time.sleep(0.1)
    return found


def expect(what, found, wanted):
    if found != wanted:
        raise Failed(f"{what}: {found!r} instead of {wanted!r}")
