#!/usr/bin/env bash
# Starts `ferrite up` on an empty folder and prints the memory of its idle processes as proportional
# set size, which counts shared pages once. Usage: tests/idle.sh PATH-TO-FERRITE
set -euo pipefail
ferrite=$(realpath "$1")
folder=$(mktemp -d)
trap 'kill "$launcher" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$folder"' EXIT

"$ferrite" up --data "$folder/data" --http 127.0.0.1:0 --ssh 127.0.0.1:0 >"$folder/out" 2>"$folder/err" &
launcher=$!
for _ in $(seq 100); do
    grep -q '^ready:' "$folder/out" && break
    sleep 0.1
done
grep '^ready:' "$folder/out"
sleep 3

total=0
for pid in $launcher $(pgrep -P "$launcher"); do
    role=$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -d' ' -f2)
    pss=$(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup")
    private=$(awk '/^Private_(Clean|Dirty):/ { sum += $2 } END { print sum }' "/proc/$pid/smaps_rollup")
    printf '%-10s %6d KiB proportional %6d KiB private\n' "$role" "$pss" "$private"
    [ "$pid" = "$launcher" ] || total=$((total + pss))
done
echo "five processes together: $((total / 1024)) MiB"
