#!/bin/sh
# Splits a binary into the program without symbols and its debug symbols, which backtraces find by
# file name.
#
#   deploy/dist.sh target/release/ferrite target/dist
#
# OBJCOPY is the program for another architecture, such as aarch64-linux-gnu-objcopy.
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
# The link stores the name and a checksum of the file, which must be in this folder.
"$objcopy" --strip-all --add-gnu-debuglink=ferrite.debug "$binary" ferrite
chmod 755 ferrite
