#!/usr/bin/env bash
# run_abi.sh BUILD SOURCE CROUPIERD: structs grow at their end. A caller that was compiled against later headers, whose structs are
# larger, runs with the libraries of today, which refuse a field that they do not know once it is set; and the tool that freezes
# the headers names a field that was put into the middle of a struct.
set -euo pipefail
build=$1 source=$2 croupierd=$3
here=$source/tests/abi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
libraries=("$build"/client/libcroupier.so "$build"/gpu_writer/libcroupier_writer.so "$build"/in_process/libcroupier_decide.so)

# compile NAME HEADERS FLAGS...: a caller with those headers and the libraries of today.
compile() {
    local paths=("${libraries[@]%/*}")
    cc -std=c11 -Wall -Wextra -Werror -I "$2" "${@:3}" "$here/caller.c" "${libraries[@]}" "${paths[@]/#/-Wl,-rpath,}" -lm -o "$folder/$1.engine"
}
is_as_now() { "$source/tests/frozen/headers.py" "$1" "$source/include" >"$folder/why"; }

# Later headers: each struct that may grow has one field more.
cp -r "$source/include" "$folder/later"
sed -i -E 's/^(\} croupier_(params|sequence|open_options|column|step|decision|writer_options|writer_info|writer_state|rows|head|decider_options|row|answer|fan_out_options|record_channel|beams_options|beam_next|hypothesis);)/    uint64_t grown_later;\n\1/; s/CROUPIER_ABI_MINOR = [0-9]+/CROUPIER_ABI_MINOR = 999/' \
    "$folder"/later/croupier/*.h
[ "$(cat "$folder"/later/croupier/*.h | grep -c grown_later)" -eq 19 ] || { echo "not every struct was grown"; exit 1; }
is_as_now "$folder/later" || { cat "$folder/why"; echo "a field at the end should move nothing"; exit 1; }
compile later "$folder/later"
"$source/tests/client/run_example.sh" "$croupierd" "$folder/later.engine"
echo "a caller with larger structs runs"
compile sets "$folder/later" -DSET_GROWN
"$source/tests/client/run_example.sh" "$croupierd" "$folder/sets.engine" >"$folder/said" 2>&1 && { echo "an unknown field that is set was ignored"; exit 1; }
# The field that is set stands behind those that the library knows.
grep -qE 'croupier_params: byte ([0-9]+) is set, which this library \(ABI 1\.[0-9]+, \1 bytes\) does not know; the caller has ABI 1\.999' "$folder/said" ||
    { cat "$folder/said"; exit 1; }
echo "a field that the library does not know is refused once it is set, with both versions"

cp -r "$source/include" "$folder/moved"
sed -i -E 's/^    double temperature;/    uint64_t in_the_middle;\n    double temperature;/' "$folder/moved/croupier/types.h"
grep -q in_the_middle "$folder/moved/croupier/types.h"
is_as_now "$folder/moved" && { echo "a field in the middle was not found out"; exit 1; }
grep -q 'field croupier_params.temperature was double at byte 16, 8 long and is double at byte 24' "$folder/why" || { cat "$folder/why"; exit 1; }
echo "a field in the middle is named"
