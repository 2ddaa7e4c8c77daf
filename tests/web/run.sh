#!/usr/bin/env bash
# run.sh BIN_FOLDER [PATTERN]: each program tests/web/*_test.py whose name has PATTERN in it, given the folder of croupierd. They need
# Prometheus, a browser and packages of Debian's Python, which `./dev test --web` installs. All are run, and then the exit status is 1 where one failed.
set -euo pipefail
bin=$(cd "$1" && pwd) pattern=${2:-}
cd "$(dirname "$0")"
failed=()
ran=0
for program in *"$pattern"*_test.py; do
    [ -e "$program" ] || continue
    printf '%s\n' "${program%_test.py}"
    begun=$SECONDS
    status=0
    PYTHONDONTWRITEBYTECODE=1 timeout --kill-after=10 240 /usr/bin/python3 "$program" "$bin" || status=$?
    case $status in
        0) printf '  fine, %d s\n' $((SECONDS - begun)) ;;
        124 | 137) printf '  FAILED: not ended after 240 s\n' ;;
        *) printf '  FAILED: exit status %d\n' "$status" ;;
    esac
    [ "$status" = 0 ] || failed+=("$program")
    ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || { echo "tests/web has no test with '$pattern' in its name" >&2; exit 2; }
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
