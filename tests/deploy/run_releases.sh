#!/usr/bin/env bash
# run_releases.sh BUILD: run_packages.sh in a bare system of each Debian release that the packages are for. What mmdebstrap makes
# lies in BUILD/releases. Exit status 77 where it cannot make one.
set -euo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
command -v mmdebstrap >/dev/null || { echo "no mmdebstrap"; exit 77; }
mkdir -p "$build/releases"
for release in bookworm trixie; do
    root=$build/releases/$release
    rm -rf "$root"
    mmdebstrap --quiet --variant=minbase --include=systemd "$release" "$root" 2>"$root.log" || { cat "$root.log"; exit 1; }
    echo "$release:"
    "$here/run_packages.sh" "$build" "$root"
done
