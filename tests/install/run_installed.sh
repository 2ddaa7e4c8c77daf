#!/usr/bin/env bash
# What is installed is enough: the documented example compiles outside of this tree, by find_package and by
# pkg-config, and runs; an older C++ is refused by name; and the libraries configure where none of the daemon's packages is.
set -euo pipefail
build=$1 source=$2 croupierd=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for component in library development; do
    cmake --install "$build" --prefix "$folder/prefix" --component "$component" >/dev/null
done

mkdir "$folder/project"
cp "$source"/tests/install/{CMakeLists.txt,headers.c} "$source/docs/examples/minimal_engine.cpp" "$folder/project"
cmake -S "$folder/project" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/prefix" >"$folder/log" || { cat "$folder/log"; exit 1; }
cmake --build "$folder/build" >"$folder/log" || { cat "$folder/log"; exit 1; }
echo "by find_package:"
"$source/tests/client/run_example.sh" "$croupierd" "$folder/build/engine"

configured() { cmake -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$folder/prefix" >"$folder/log" 2>&1 && cmake --build "$2" >>"$folder/log" 2>&1; }
mkdir "$folder/project/c_only"
cp "$source/tests/install/c_only/CMakeLists.txt" "$folder/project/c_only"
configured "$folder/project/c_only" "$folder/c_only" || { cat "$folder/log"; exit 1; }
echo "a project in C alone: compiled"

sed -i 's/client writer/cleint writer/' "$folder/project/c_only/CMakeLists.txt"
configured "$folder/project/c_only" "$folder/misspelt" && { echo "a component that does not exist is found"; exit 1; }
grep -q "no component cleint; it has client, writer" <<<"$(tr -s ' \n' ' ' <"$folder/log")" || { cat "$folder/log"; exit 1; }
echo "a component that does not exist: refused by name"

modules=$(find "$folder/prefix" -name pkgconfig)
flags=$(PKG_CONFIG_PATH=$modules pkg-config --cflags --libs croupier croupier-writer croupier-fan-out)
libraries=$(PKG_CONFIG_PATH=$modules pkg-config --variable=libdir croupier)
# shellcheck disable=SC2086  # flags are several words
c++ -std=c++20 "$folder/project/minimal_engine.cpp" $flags -Wl,-rpath,"$libraries" -o "$folder/engine"
echo "by pkg-config:"
"$source/tests/client/run_example.sh" "$croupierd" "$folder/engine"

# refused STANDARD HEADER NEEDED: in the first line that the compiler says, with the flag to give.
refused() {
    local said
    # shellcheck disable=SC2086  # flags are several words
    said=$(echo "#include <croupier/$2>" | c++ -std="$1" $flags -fsyntax-only -x c++ - 2>&1) && { echo "$2 compiles with -std=$1"; exit 1; }
    grep -q "error.*croupier/$2 needs C++${3#c++}: compile with -std=$3" <<<"$said" || { echo "$said"; exit 1; }
    echo "$2 with -std=$1: $(grep -o 'croupier/.* needs.*' <<<"$said" | head -n 1)"
}
refused c++17 client.hpp c++20
refused c++14 writer.hpp c++17

cmake --install "$build" --prefix "$folder/daemon" --component daemon >/dev/null
[ -f "$folder/daemon/etc/croupier/croupierd.yaml" ] || { echo "the configuration is not below the prefix"; exit 1; }
echo "the daemon below another prefix: with its configuration"

# A caller of all three libraries, in C.
flags=$(PKG_CONFIG_PATH=$modules pkg-config --cflags --libs croupier croupier-writer croupier-decide)
# shellcheck disable=SC2086  # flags are several words
cc -std=c11 "$source/tests/abi/caller.c" $flags -Wl,-rpath,"$libraries" -lm -o "$folder/caller"
echo "decisions in-process beside the daemon's:"
"$source/tests/client/run_example.sh" "$croupierd" "$folder/caller"

for found in "$folder/prefix/include"/*; do
    [ "$(basename "$found")" = croupier ] || { echo "$found is installed, beside include/croupier"; exit 1; }
done
missing=()
for package in TBB spdlog yaml-cpp CLI11 prometheus-cpp; do missing+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
cmake -S "$source" -B "$folder/libraries" -DCROUPIER_DAEMON=OFF "${missing[@]}" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
echo "without the daemon's packages: configured"
