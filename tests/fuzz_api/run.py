"""Sends requests generated from docs/openapi.json to an installation, as a user, as an administrator and
anonymously, on SQLite and on PostgreSQL with Redis, and validates the responses. `make fuzz-api` runs it
under tests/servers.sh.

Exits with status 1 if a response does not match the document or is a 5xx. Prints each with its request as a
curl command.
"""

import argparse
import contextlib
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import seed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROLES = {"user": seed.USER, "administrator": seed.ADMINISTRATOR, "nobody": None}
PROFILES = ("embedded", "production")
PORTS = {"repo-svc": 7001, "issue-svc": 7002, "hook-svc": 7003, "git-svc": 7004, "gateway": 3000}
PEERS = {
    "gateway": ("repo-svc", "issue-svc", "hook-svc", "git-svc"),
    "repo-svc": ("issue-svc", "hook-svc", "git-svc"),
    "issue-svc": ("repo-svc", "hook-svc", "git-svc"),
    "hook-svc": ("repo-svc", "git-svc"),
    "git-svc": ("repo-svc", "issue-svc", "hook-svc"),
}
# Otherwise most responses would soon be a 429, and an import request would wait for an hour.
SETTINGS = {
    "FERRITE_WRITES_PER_HOUR": "0",
    "FERRITE_WRITE_BYTES_PER_HOUR": "0",
    "FERRITE_REPO_CREATIONS_PER_HOUR": "0",
    "FERRITE_REPO_ADMINISTRATOR_CREATIONS_PER_HOUR": "0",
    "FERRITE_REPO_ORGANIZATION_LIMIT": "0",
    "FERRITE_REPO_SIGN_IN_FAILURES_PAIR": "1000000",
    "FERRITE_REPO_SIGN_IN_FAILURES_ADDRESS": "1000000",
    "FERRITE_REPO_SIGN_IN_FAILURES_ACCOUNT": "1000000",
    "FERRITE_ISSUE_ISSUES_PER_HOUR": "0",
    "FERRITE_ISSUE_COMMENTS_PER_HOUR": "0",
    "FERRITE_ISSUE_TEXT_BYTES_PER_HOUR": "0",
    "FERRITE_HOOK_CREATIONS_PER_HOUR": "0",
    "FERRITE_HOOK_MANUAL_DELIVERIES_PER_HOUR": "0",
    "FERRITE_GATEWAY_MIGRATION_WAIT_SECONDS": "1",
    "FERRITE_LOG": "warn",
    "RUST_BACKTRACE": "1",
}
START_TIMEOUT = 60


class Installation:
    """The processes of one installation, stopped at the end of the `with` block."""

    def __init__(self, binary, log, profile):
        self.binary, self.profile = binary, profile
        self.processes, self.url = [], ""
        self.folder, self.log = tempfile.mkdtemp(prefix="ferrite-fuzz."), open(log, "wb")

    def __enter__(self):
        try:
            self.start_embedded() if self.profile == "embedded" else self.start_production()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, more):
        return {"PATH": os.environ["PATH"], **SETTINGS, **more}

    def start(self, arguments, more=(), **streams):
        environment = self.environment(dict(more))
        process = subprocess.Popen([self.binary, *arguments], cwd=self.folder, env=environment, stdin=subprocess.PIPE,
                                   stderr=self.log, **streams)
        self.processes.append(process)
        return process

    def start_embedded(self):
        arguments = ["up", "--stop-with-stdin", "--http", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--data", "data"]
        account = {"FERRITE_ADMIN_USERNAME": seed.KEEPER, "FERRITE_ADMIN_PASSWORD": seed.PASSWORD}
        process = self.start(arguments, account, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("ready: "):
                self.url = line.removeprefix("ready: ").strip()
                return
        raise RuntimeError(f"`ferrite up` does not start; see {self.log.name}")

    def start_production(self):
        server, redis = os.environ["FERRITE_TEST_POSTGRES_URL"], os.environ.get("FERRITE_TEST_REDIS_URL")
        number = os.getpid()
        host = f"127.2.{number // 240 % 250 + 1}.{number % 240 + 10}"
        self.url = f"http://{host}:{PORTS['gateway']}"
        databases = {role: f"fuzz_{number}_{role[:-4]}" for role in PORTS if role != "gateway"}
        for name in databases.values():
            subprocess.run([psql(), server, "--quiet", "--command", f"CREATE DATABASE {name}"], check=True)
        databases = {role: f"{server.rsplit('/', 1)[0]}/{name}" for role, name in databases.items()}
        self.run(["keys", "."])
        account = ["admin", "create-user", "--admin", "--email", "keeper@example.com", "--username", seed.KEEPER]
        self.run(account, FERRITE_USER_PASSWORD=seed.PASSWORD, FERRITE_DATABASE_URL=databases["repo-svc"])
        common = {"FERRITE_REDIS_URL": redis} if redis else {}
        for role, port in PORTS.items():
            self.start(self.role(role, host, port, databases.get(role)), common, stdout=subprocess.DEVNULL)
        end = time.monotonic() + START_TIMEOUT
        for port in PORTS.values():
            while not is_ready(f"http://{host}:{port + 2000}/readyz"):
                if time.monotonic() > end:
                    raise RuntimeError(f"a process does not become ready; see {self.log.name}")
                time.sleep(0.1)

    def role(self, role, host, port, database):
        ssh = f"{host}:2222"
        arguments = [role, "--stop-with-stdin", "--listen", f"{host}:{port}", "--admin-listen", f"{host}:{port + 2000}",
                     "--service-key-file", f"{role}.pem", "--service-public-keys", "public",
                     "--grant-public-key-file", "grant.pub.pem"]
        for peer in PEERS[role]:
            arguments += [f"--{peer.removesuffix('-svc')}-address", f"{host}:{PORTS[peer]}"]
        if database:
            arguments += ["--database-url", database]
        if role in ("hook-svc", "git-svc"):
            arguments += ["--secret-key-file", f"{role.removesuffix('-svc')}-sealing.key"]
        if role in ("gateway", "repo-svc", "hook-svc"):
            arguments += ["--public-url", self.url, "--ssh", ssh]
        own = {"gateway": ["--ssh-listen", ssh, "--ssh-host-key-folder", "host-keys"],
               "repo-svc": ["--grant-key-file", "grant.pem"], "git-svc": ["--store-path", "git"]}
        return arguments + own.get(role, [])

    def run(self, arguments, **more):
        subprocess.run([self.binary, *arguments], cwd=self.folder, env=self.environment(more), check=True,
                       stdout=self.log, stderr=self.log)

    def has_ended(self):
        return any(process.poll() is not None for process in self.processes)


def psql():
    found = shutil.which("psql") or next(iter(glob.glob("/usr/lib/postgresql/*/bin/psql")), None)
    return found or sys.exit("psql is not installed")


def is_ready(url):
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:
        return response.status == 200
    return False


def fuzz(site, folder, role, options):
    """Runs Schemathesis with one role. Returns its exit status."""
    user, config = ROLES[role], (HERE / "schemathesis.toml").read_text()
    if user:
        token = site.new_token(user)
        config += f'\n[auth.openapi.token]\nbearer = "{token}"\n'
        config += f'\n[auth.openapi.password]\nusername = "{user}"\npassword = "{seed.PASSWORD}"\n'
    folder.mkdir()
    (folder / "schemathesis.toml").write_text(config)
    program = pathlib.Path(sys.executable).parent / "schemathesis"
    command = [program, "--config-file", folder / "schemathesis.toml", "run", ROOT / "docs/openapi.json",
               "--url", site.url, "--max-time", str(options.seconds), "--report", "ndjson", "--report-ndjson-path", folder / "events.ndjson",
               "--no-color"]
    command += ["--phases", options.phases] if options.phases else []
    command += ["--seed", str(options.seed)] if options.seed is not None else []
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1",
                   "FUZZ_URL": site.url, "FUZZ_KEEPER_TOKEN": site.token}
    with open(folder / "output.txt", "wb") as output:
        return subprocess.run(command, cwd=folder, env=environment, stdout=output, stderr=output).returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=int, default=1200, help="in all, an equal part for each profile and role")
    parser.add_argument("--seed", type=int, help="makes the same requests again, as far as time permits")
    parser.add_argument("--phases", help="some of examples, coverage, fuzzing and stateful, with commas between them")
    parser.add_argument("--profiles", nargs="*", choices=PROFILES, default=[])
    parser.add_argument("--roles", nargs="*", choices=ROLES, default=[])
    options = parser.parse_args()
    options.profiles, options.roles = options.profiles or PROFILES, options.roles or list(ROLES)
    options.seconds = max(options.seconds // (len(options.profiles) * len(options.roles)), 1)
    reports, binary, summary = ROOT / "target/fuzz-api", options.binary.resolve(), []
    shutil.rmtree(reports, ignore_errors=True)
    for profile in options.profiles:
        (reports / profile).mkdir(parents=True)
        with Installation(binary, reports / profile / "server.log", profile) as installation:
            site = seed.Site(installation.url)
            site.token = site.new_token(seed.KEEPER)
            for role in options.roles:
                seed.make_all(site)
                folder = reports / profile / role
                status = fuzz(site, folder, role, options)
                print((folder / "output.txt").read_text(errors="replace"), flush=True)
                if installation.has_ended():
                    status = status or 1
                    print(f"a process of {profile} exited; see {installation.log.name}", flush=True)
                summary.append((profile, role, status, folder))
    for profile, role, status, folder in summary:
        result = "ok" if status == 0 else f"failed ({status})"
        print(f"{profile:<12}{role:<15}{result:<12}{folder.relative_to(ROOT)}/output.txt")
    return 1 if any(status for _, _, status, _ in summary) else 0


if __name__ == "__main__":
    sys.exit(main())
