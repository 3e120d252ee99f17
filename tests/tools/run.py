"""Runs programs that are written for Gitea on a Ferrite server: `make test-tools`.

Installs the versions that the lock files here pin, starts `ferrite up` in a temporary folder, runs the script of
each program, and prints what each did. Exits with status 1 if one failed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import installation
from server import Server

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LOGS = ROOT / "target/tools/logs"
# Each program with its set and its package.
PROGRAMS = {
    "buildbot": ("python", "buildbot-gitea"),
    "forj": ("python", "forj"),
    "giteapy": ("python", "giteapy"),
    "heckle": ("python", "heckle"),
    "py-gitea": ("python", "py-gitea"),
    "pyforgejo": ("python", "pyforgejo"),
    "python-semantic-release": ("python", "python-semantic-release"),
    "release-plz": ("python", "astral-dev-toolchain-release-plz"),
    "gitea-js": ("node", "gitea-js"),
    "semantic-release": ("node", "@saithodev/semantic-release-gitea"),
    "renovate": ("renovate", "renovate"),
    "renovate-job": ("renovate", "renovate"),
}
SETS = tuple(dict.fromkeys(kind for kind, _ in PROGRAMS.values()))
# Programs that run side by side, and the seconds that each has.
AT_ONCE, TIMEOUT = 4, 180
GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
GIT |= {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
}
# For release-plz, which runs cargo.
CARGO = ("HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")


def command(name):
    """The script of a program, with its interpreter."""
    kind, script = PROGRAMS[name][0], HERE / f"check_{name.replace('-', '_')}.py"
    if script.exists():
        return [installation.FOLDER / "python/bin/python3" if kind == "python" else sys.executable, "-B", script]
    # Below the packages, where Node looks for them.
    return ["node", shutil.copy(script.with_suffix(".mjs"), installation.FOLDER / kind)]


def check(name, folder, variables):
    """Runs the script of a program. Returns whether it succeeded, its last line and the seconds."""
    folder.mkdir()
    environment = {key: os.environ[key] for key in CARGO if key in os.environ}
    path = f"{installation.commands(PROGRAMS[name][0])}{os.pathsep}{os.environ['PATH']}"
    environment |= {**GIT, **variables, "PATH": path, "TMPDIR": str(folder), "LANG": "C.UTF-8"}
    log, start = LOGS / f"{name}.txt", time.monotonic()
    with open(log, "wb") as output:
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
        process = subprocess.Popen(command(name), cwd=folder, env=environment, start_new_session=True, **streams)
        try:
            done = process.wait(TIMEOUT) == 0
        except subprocess.TimeoutExpired:
            done = False
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    printed = log.read_text(errors="replace").strip().splitlines()
    return done, printed[-1] if done else f"see {log}", time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("tools", nargs="*", help=f"programs, or sets of them: {', '.join(SETS)}; all by default")
    options = parser.parse_args()
    chosen = [name for name, (kind, _) in PROGRAMS.items() if not options.tools or {name, kind} & set(options.tools)]
    if unknown := set(options.tools) - set(PROGRAMS) - set(SETS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    versions = {name: installation.version(*PROGRAMS[name]) for name in chosen}
    page = (ROOT / "docs/migrating.md").read_text()
    if old := [name for name, version in versions.items() if version not in page]:
        parser.error(f"docs/migrating.md names other versions of {', '.join(old)}")
    for kind in SETS:
        if any(PROGRAMS[name][0] == kind for name in chosen):
            installation.install(kind)
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    with Server(options.binary.resolve(), LOGS / "server.txt") as server:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            variables = server.variables()
            results = dict(zip(chosen, pool.map(lambda name: check(name, server.folder / name, variables), chosen)))
    for name, (done, _, _) in results.items():
        if not done:
            print(f"--- {name}", (LOGS / f"{name}.txt").read_text(errors="replace")[-6000:], sep="\n")
    for name, (done, what, seconds) in results.items():
        print(f"{name:<25}{versions[name]:<12}{'ok' if done else 'FAILED':<8}{seconds:>5.1f} s  {what}")
    passed = sum(done for done, _, _ in results.values())
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
