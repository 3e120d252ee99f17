"""Starts the server that the programs run on."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from fixture import PASSWORD, Site

ADMINISTRATOR, USER = "keeper", "ada"
# Buildbot's webhook is on loopback, and pyforgejo imports from this server.
SETTINGS = {"FERRITE_OUTBOUND_ALLOW": "127.0.0.0/8", "FERRITE_LOG": "warn", "RUST_BACKTRACE": "1"}
SETTINGS |= {"FERRITE_ADMIN_USERNAME": ADMINISTRATOR, "FERRITE_ADMIN_PASSWORD": PASSWORD}


class Server:
    """`ferrite up` in a temporary folder, with an administrator and a user, until the end of the `with` block."""

    def __init__(self, binary, log):
        self.binary, self.log, self.url = binary, open(log, "wb"), ""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ferrite-tools."))

    def __enter__(self):
        command = [self.binary, "up", "--stop-with-stdin", "--http", "127.0.0.1:0", "--ssh", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, "--data", "data"],
            cwd=self.folder,
            text=True,
            stderr=self.log,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **SETTINGS},
        )
        for line in self.process.stdout:
            if line.startswith("ready: "):
                self.url = line.removeprefix("ready: ").strip()
                return self
        self.__exit__()
        raise RuntimeError(f"`ferrite up` does not start; see {self.log.name}")

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def variables(self):
        """Creates the accounts. Returns what `fixture.from_environment` reads."""
        administrator, user = Site(self.url, ADMINISTRATOR), Site(self.url, USER)
        administrator.token = administrator.new_token()
        account = {"username": USER, "email": f"{USER}@example.com", "password": PASSWORD}
        administrator.call("POST", "/admin/users", account)
        return {
            "FERRITE_URL": self.url,
            "FERRITE_ADMIN": ADMINISTRATOR,
            "FERRITE_ADMIN_TOKEN": administrator.token,
            "FERRITE_USER": USER,
            "FERRITE_USER_TOKEN": user.new_token(),
        }
