#!/bin/sh
# Pins every image in the Dockerfile, the Compose file and the overlay `dev`: adds or replaces the
# digest that the registry has for the tag now. Needs docker with buildx (`DOCKER=…` for another
# path) and network. Commit the changes.
set -eu
cd "${1:-$(dirname "$0")/..}"
docker=${DOCKER:-docker}
names='rust|debian|postgres|redis|otel/opentelemetry-collector|jaegertracing/jaeger|prom/prometheus|grafana/grafana'
files='Dockerfile docker-compose.yml .env.example k8s/overlays/dev/postgres.yaml k8s/overlays/dev/redis.yaml'

# shellcheck disable=SC2086 # splits into file names on purpose
images=$(grep -ohE "(=|:-|image: )($names):v?[0-9][A-Za-z0-9._-]*" $files | sed -E 's/^(=|:-|image: )//' | sort -u)
for image in $images; do
    digest=$("$docker" buildx imagetools inspect --format '{{.Manifest.Digest}}' "$image")
    echo "$digest" | grep -qxE 'sha256:[0-9a-f]{64}' || { echo "$0: no digest of $image: $digest" >&2; exit 1; }
    pattern=$(echo "$image" | sed 's/\./\\./g')
    for file in $files; do
        sed -E "s#(=|:-|image: )$pattern(@sha256:[0-9a-f]*)?([^A-Za-z0-9._@-]|\$)#\\1$image@$digest\\3#g" "$file" > "$file.pinned"
        # Keeps the file mode.
        cat "$file.pinned" > "$file"
        rm "$file.pinned"
    done
    echo "$image@$digest"
done
