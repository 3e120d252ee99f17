#!/bin/sh
# Builds the Debian packages of a binary that `deploy/dist.sh` has split: `ferrite`, and
# `ferrite-dbgsym` with the debug symbols.
#
#   deploy/deb/build.sh target/dist target/deb
#
# DEB_ARCH is the architecture of the binary if it is not this machine's, DEB_COMPRESSION a
# compression other than xz.
set -eu

[ $# = 2 ] || { echo "usage: $0 FOLDER-WITH-BINARY FOLDER" >&2; exit 2; }
dist=$(cd "$1" && pwd)
mkdir -p "$2"
target=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."

version=$(awk -F'"' '/^\[workspace\.package\]/ { found = 1 } found && /^version/ { print $2; exit }' Cargo.toml)-1
architecture=${DEB_ARCH:-$(dpkg --print-architecture)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The packages of the shared libraries, with the C library in the version that the binary needs.
libraries() {
    glibc=$(objdump -T "$dist/ferrite" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1)
    objdump -p "$dist/ferrite" | awk '$1 == "NEEDED" { print $2 }' | while read -r library; do
        case $library in
        libc.so.6) printf 'libc6 (>= %s), ' "$glibc" ;;
        libgcc_s.so.1) printf 'libgcc-s1, ' ;;
        libz.so.1) printf 'zlib1g, ' ;;
        libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux*) ;;
        *) echo "$0: unknown package for $library" >&2; exit 1 ;;
        esac
    done
}

# control PACKAGE DEPENDS DESCRIPTION: prints the file `control`.
control() {
    size=$(du -sk --apparent-size "$work/$1" | cut -f1)
    cat <<CONTROL
Package: $1
Version: $version
Architecture: $architecture
Maintainer: The Ferrite authors <ferrite@localhost>
Installed-Size: $size
Depends: $2
Section: vcs
Priority: optional
Description: $3
CONTROL
}

# pack PACKAGE: builds the package of a folder. All files are owned by root, whoever runs this.
pack() {
    dpkg-deb --root-owner-group "-Z${DEB_COMPRESSION:-xz}" --build "$work/$1" "$target" >/dev/null
    echo "$target/$1_${version}_$architecture.deb"
}

depends="$(libraries)"
root="$work/ferrite"
install -D -m 755 "$dist/ferrite" "$root/usr/bin/ferrite"
install -D -m 644 deploy/systemd/ferrite.service "$root/usr/lib/systemd/system/ferrite.service"
install -D -m 644 deploy/systemd/ferrite.sysusers "$root/usr/lib/sysusers.d/ferrite.conf"
install -D -m 600 deploy/systemd/ferrite.env "$root/etc/ferrite/ferrite.env"
install -D -m 644 deploy/deb/copyright "$root/usr/share/doc/ferrite/copyright"
for page in docs/*.md; do
    install -D -m 644 "$page" "$root/usr/share/doc/ferrite/$(basename "$page")"
done
mkdir -p "$root/DEBIAN"
echo /etc/ferrite/ferrite.env >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "deploy/deb/$script" "$root/DEBIAN/$script"
done
control ferrite "${depends}git (>= 1:2.39), ca-certificates, systemd | systemd-standalone-sysusers" \
    "self-hosted git hosting service
 REST, git over HTTP and SSH, issues and webhooks, in one binary. The service is
 neither enabled nor started by the installation: look at
 /etc/ferrite/ferrite.env first, then systemctl enable --now ferrite." >"$root/DEBIAN/control"
pack ferrite

symbols="$work/ferrite-dbgsym"
install -D -m 644 "$dist/ferrite.debug" "$symbols/usr/lib/debug/usr/bin/ferrite.debug"
install -D -m 644 deploy/deb/copyright "$symbols/usr/share/doc/ferrite-dbgsym/copyright"
mkdir -p "$symbols/DEBIAN"
control ferrite-dbgsym "ferrite (= $version)" "line tables of ferrite
 With them, backtraces name files and lines." >"$symbols/DEBIAN/control"
pack ferrite-dbgsym
