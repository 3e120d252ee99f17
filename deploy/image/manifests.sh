#!/bin/sh
# Writes the manifests of the workspace into a folder, with empty sources: enough to build the
# dependencies.
#
#   deploy/image/manifests.sh FOLDER
set -eu

[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."

cp -r .cargo Cargo.toml Cargo.lock "$folder/"
for manifest in */Cargo.toml kit/*/Cargo.toml; do
    crate=$(dirname "$manifest")
    mkdir -p "$folder/$crate/src"
    cp "$manifest" "$folder/$crate/"
    : >"$folder/$crate/src/lib.rs"
    if [ -e "$crate/build.rs" ]; then
        echo 'fn main() {}' >"$folder/$crate/build.rs"
    fi
done
mkdir -p "$folder/src"
echo 'fn main() {}' >"$folder/src/main.rs"
# Cargo needs every bench and program in a manifest to exist.
for source in benches/benches/*/main.rs */src/bin/*.rs; do
    [ -e "$source" ] || continue
    mkdir -p "$folder/$(dirname "$source")"
    echo 'fn main() {}' >"$folder/$source"
done
