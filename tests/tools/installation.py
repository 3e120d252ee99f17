"""Installs the programs below target/tools, in sets that share their packages."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / "target/tools"


def lock_file(kind):
    return HERE / "requirements.txt" if kind == "python" else HERE / kind / "package-lock.json"


def install(kind):
    """Installs a set, unless it is there with these versions."""
    folder, lock = FOLDER / kind, lock_file(kind)
    # Written last: an interrupted installation has none.
    installed = folder / "installed.lock"
    if installed.is_file() and installed.read_bytes() == lock.read_bytes():
        return
    shutil.rmtree(folder, ignore_errors=True)
    if kind == "python":
        run(sys.executable, "-m", "venv", folder)
        run(
            folder / "bin/pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-compile",
            "--require-hashes",
            "--requirement",
            lock,
        )
    else:
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(lock.parent / name, folder)
        run("npm", "ci", "--prefix", folder, "--silent", "--ignore-scripts", "--no-audit", "--no-fund")
    shutil.copy(lock, installed)


def run(*command):
    subprocess.run(command, check=True)


def commands(kind):
    """The folder with the commands of a set."""
    return FOLDER / kind / ("bin" if kind == "python" else "node_modules/.bin")


def version(kind, package):
    """The version of a package that the files here pin."""
    if kind == "python":
        return re.search(rf"^{package}==(\S+)$", (HERE / "requirements.in").read_text(), re.MULTILINE)[1]
    return json.loads((HERE / kind / "package.json").read_text())["dependencies"][package]
