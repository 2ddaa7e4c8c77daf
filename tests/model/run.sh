#!/bin/sh
# Checks a model exhaustively: run.sh MODEL.pml [none|MUTANT]. A mutant must fail, or the model proves nothing.
set -eu
model=$(realpath "$1")
mutant=${2:-none}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

if [ "$mutant" = none ]; then
    spin -a "$model" >spin.log || { cat spin.log; exit 2; }
else
    grep -q "$mutant" "$model" || { echo "$model knows no mutant $mutant"; exit 2; }
    spin -D"$mutant" -a "$model" >spin.log || { cat spin.log; exit 2; }
fi
gcc -O2 -w -DVECTORSZ=2048 -DNFAIR=3 -o pan pan.c
# -a: acceptance cycles, for the LTL claims; -f: weakly fair schedules only; -m: depth.
./pan -a -f -m2000000 >pan.log 2>&1 || true
grep -E 'errors:|error:|states, stored|max search depth|out of memory' pan.log || true

if grep -qE 'max search depth too small|out of memory' pan.log && [ "$mutant" = none ]; then
    echo "INCOMPLETE: $model was not searched exhaustively"
    exit 1
fi
if grep -q 'errors: 0' pan.log; then found=no; else found=yes; fi
case "$mutant/$found" in
    none/no) echo "PASS: no schedule breaks $(basename "$model")" ;;
    none/yes) cat pan.log; echo "FAIL: $(basename "$model") is broken"; exit 1 ;;
    */yes) echo "PASS: the model shows the bug of $mutant" ;;
    */no) echo "FAIL: the model does not see the bug of $mutant"; exit 1 ;;
esac
