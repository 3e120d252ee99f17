"""Buildbot with buildbot-gitea: a push calls its hook, a worker clones the commit and builds it, and the result
becomes a status of the commit.
"""

import functools
import pathlib
import re
import secrets
import subprocess

from fixture import Failed, commit, expect, from_environment, git, run, wait_for

CONFIG = """\
from buildbot.plugins import reporters, schedulers, steps, util, worker

build = util.BuildFactory([
    steps.Git(repourl={clone!r}, mode="full"),
    steps.ShellCommand(command=["sh", "build.sh"]),
])
BuildmasterConfig = {{
    "title": "Demo", "buildbotNetUsageData": None, "buildbotURL": "http://127.0.0.1/",
    "protocols": {{"pb": {{"port": "tcp:0:interface=127.0.0.1"}}}},
    "workers": [worker.LocalWorker("local")],
    "builders": [util.BuilderConfig(name="demo", workernames=["local"], factory=build)],
    "schedulers": [schedulers.AnyBranchScheduler(name="all", builderNames=["demo"])],
    "services": [reporters.GiteaStatusPush({site.url!r}, util.Interpolate({site.token!r}))],
    "www": {{"port": "tcp:0:interface=127.0.0.1", "change_hook_dialects": {{"gitea": {{"secret": {secret!r}}}}}}},
}}
"""
FOLDER = "buildbot"
site = from_environment()
repository = site.new_repository(FOLDER)
commit(FOLDER, "Begin", {"build.sh": "exit 0\n"})
secret, log = secrets.token_hex(), pathlib.Path("master/twistd.log")
clone = f"{site.url}/{site.user}/{FOLDER}.git"
run("buildbot", "create-master", "--log-count=1", "master")
pathlib.Path("master/master.cfg").write_text(CONFIG.format(clone=clone, site=site, secret=secret))
master = subprocess.Popen(["twistd", "--nodaemon", "--logfile", "twistd.log", "--python", "buildbot.tac"], cwd="master")


def port():
    """The port of the hook, once Buildbot listens."""
    if master.poll() is not None:
        raise Failed(f"Buildbot exits with {master.returncode}")
    found = log.is_file() and re.search(r"Site starting on (\d+)", log.read_text())
    return found and found[1]


def combined(state):
    """The combined status of the last commit, once it has that state."""
    found = site.get(f"{repository}/commits/main/status")
    return found if found["statuses"] and found["state"] == state else None


try:
    url = f"http://127.0.0.1:{wait_for('Buildbot', port)}/change_hook/gitea"
    hook = {"type": "gitea", "active": True, "events": ["push", "create"]}
    hook["config"] = {"url": url, "content_type": "json", "secret": secret}
    site.call("POST", f"{repository}/hooks", hook)
    for script, state in (("echo built\n", "success"), ("exit 1\n", "failure")):
        commit(FOLDER, "Change the build", {"build.sh": script})
        found = wait_for(f"status {state}", functools.partial(combined, state))
        expect("commit", found["sha"], git("rev-parse", "HEAD", cwd=FOLDER).strip())
        expect("context", [status["context"] for status in found["statuses"]], ["buildbot/demo"])
finally:
    master.terminate()
    master.wait()
    print(log.read_text())
print("a push by webhook builds a clone, its result is a status: success, failure")
