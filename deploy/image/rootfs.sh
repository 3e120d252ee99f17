#!/bin/sh
# Assembles the root file system of the image without a container engine: the Debian packages of the
# base and of the Dockerfile, from the same release, and the program. For tests, and for machines
# that run containers in other ways.
#
#   deploy/image/rootfs.sh BINARY FOLDER [PACKAGE]...
#
# Packages are cached in target/debian (or FERRITE_DEBIAN_CACHE). Their scripts do not run; this
# script sets up what Ferrite needs of it. Needs apt and dpkg, but neither root nor installed
# packages.
set -eu

[ $# -ge 2 ] || { echo "usage: $0 BINARY FOLDER [PACKAGE]..." >&2; exit 2; }
binary=$(realpath "$1")
mkdir -p "$2"
root=$(cd "$2" && pwd)
shift 2
top=$(cd "$(dirname "$0")/../.." && pwd)
cache=${FERRITE_DEBIAN_CACHE:-$top/target/debian}

# The release of the base, and the packages that the last stage installs.
major=$(sed -n 's/^ARG DEBIAN_IMAGE=debian:\([0-9]*\)\..*/\1/p' "$top/Dockerfile")
case $major in
13) release=trixie ;;
*) echo "$0: the Dockerfile is based on a release of Debian that this script does not know: $major" >&2; exit 1 ;;
esac
packages=$(sed -n 's/.*apt-get install --yes --no-install-recommends \([a-z0-9 +.-]*[a-z0-9]\).*/\1/p' "$top/Dockerfile")

# apt with a separate state, in which nothing is installed: it resolves all dependencies.
state=$cache/$release
mkdir -p "$state/lists/partial" "$state/archives/partial"
exec 9>"$state/lock"
flock 9
: >"$state/status"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cat >"$state/sources.list" <<SOURCES
deb [signed-by=$keyring] http://deb.debian.org/debian $release main
deb [signed-by=$keyring] http://deb.debian.org/debian-security $release-security main
SOURCES
apt() {
    apt-get -qq -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state" \
        -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true -o Acquire::Languages=none \
        -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}
# Package lists are reused for a day.
if [ -z "$(find "$state/lists" -maxdepth 1 -name '*_Packages*' -mtime -1 -print -quit)" ]; then
    apt update
    find "$state/lists" -maxdepth 1 -name '*_Packages*' -exec touch {} +
fi
# shellcheck disable=SC2086 # splits into words on purpose
set -- install --yes --no-install-recommends '?essential' $packages "$@"
apt "$@" --download-only >/dev/null

# `Inst git (1:2.47.3-0+deb13u1 Debian:13.2/stable [amd64])` is the file git_1%3a2.47.3-0+deb13u1_amd64.deb.
apt "$@" --simulate | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .* \[\([a-z0-9]*\)\]).*/\1 \2 \3/p' |
    while read -r name version architecture; do
        version=$(echo "$version" | sed 's/:/%3a/')
        dpkg-deb --extract "$state/archives/${name}_${version}_$architecture.deb" "$root"
    done

# Replaces the scripts of the packages.
cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
mkdir -p "$root/etc/ssl/certs"
find "$root/usr/share/ca-certificates" -name '*.crt' -exec cat {} + >"$root/etc/ssl/certs/ca-certificates.crt"

# Like the Dockerfile.
install -D -m 755 "$binary" "$root/usr/bin/ferrite"
install -d -m 700 "$root/data"
if [ "$(id -u)" = 0 ]; then
    chown 10001:10001 "$root/data"
fi
