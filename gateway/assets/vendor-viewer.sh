#!/bin/sh
# Takes the viewer of the page `/docs/api` from npm: the two files that it needs, compressed, and its licences.
#
#   gateway/assets/vendor-viewer.sh [VERSION]
#
# Without a version it makes the files again that are here, byte for byte. Needs npm and network.
set -eu

cd "$(dirname "$0")"
version=${1:-$(basename swagger-ui-*/ | sed 's/^swagger-ui-//')}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "swagger-ui-dist@$version" >/dev/null && tar -xzf "swagger-ui-dist-$version.tgz")

rm -rf swagger-ui-*/
folder=swagger-ui-$version
mkdir "$folder"
for file in swagger-ui-bundle.js swagger-ui.css; do
    gzip -9n <"$work/package/$file" >"$folder/$file.gz"
done
{
    cat "$work/package/NOTICE"
    printf '\n\n'
    cat "$work/package/LICENSE"
    printf '\n\nParts of swagger-ui-bundle.js:\n\n'
    cat "$work/package/swagger-ui-bundle.js.LICENSE.txt"
} >"$folder/LICENSE.txt"
cd "$work/package"
sha256sum swagger-ui-bundle.js swagger-ui.css
