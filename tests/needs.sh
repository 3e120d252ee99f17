#!/bin/sh
# Installs what the tests need and the machine lacks, by Debian's package manager when root; else says what to install.
set -eu

missing=""
command -v git >/dev/null || missing="$missing git"
{ command -v ssh >/dev/null && command -v ssh-keygen >/dev/null; } || missing="$missing openssh-client"
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"

# Python's gRPC, for the example in docs/grpc.md, apart from the machine's packages.
python_packages() {
    python=target/python
    "$python/bin/python3" -c 'import grpc_reflection' 2>/dev/null && return
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check 'grpcio>=1.60,<2' 'grpcio-reflection>=1.60,<2'
}
cd "$(dirname "$0")/.."
[ -n "$missing" ] || { python_packages; exit 0; }

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "the tests need packages that are not installed; as root: apt-get install -y$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# The tests start servers of their own: those that the packages would start are not wanted.
# shellcheck disable=SC2086 # a list of words on purpose
RUNLEVEL=1 apt-get install -yq --no-install-recommends $missing
python_packages
