#!/bin/sh
# Splits a built binary in two: the program without symbols, and beside it its line tables, which backtraces find by its name.
#
#   deploy/dist.sh target/release/ferrite target/dist
#
# OBJCOPY names the program for another architecture, such as aarch64-linux-gnu-objcopy.
set -eu

[ $# = 2 ] || { echo "usage: $0 BINARY FOLDER" >&2; exit 2; }
objcopy=${OBJCOPY:-objcopy}
command -v "$objcopy" >/dev/null || { echo "$0: $objcopy is not installed (package binutils)" >&2; exit 1; }
binary=$(realpath "$1")
mkdir -p "$2"
cd "$2"

rm -f ferrite ferrite.debug
"$objcopy" --only-keep-debug "$binary" ferrite.debug
chmod 644 ferrite.debug
# The link holds the name and a checksum of the file, which has to be in this folder.
"$objcopy" --strip-all --add-gnu-debuglink=ferrite.debug "$binary" ferrite
chmod 755 ferrite
