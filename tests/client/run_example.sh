#!/usr/bin/env bash
# A documented example, as a newcomer runs it, against a daemon of its own: it prints eight tokens; with a third argument,
# `text`, what it shows of a tokenizer's tokens, of which a stop string is the end.
set -euo pipefail
croupierd=$1
example=$2
# shellcheck source=tests/client/example_folder.sh
. "$(dirname "$0")/example_folder.sh"
"$croupierd" --config "$folder/croupierd.yaml" 2>"$folder/log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true; wait "$daemon" || true; rm -rf "$folder"' EXIT
# The client waits for the socket of a daemon that is just starting.
if [ "${3:-}" = text ]; then
    id=0
    for token in Hello , ' w' 'orld ' $'\xe2\x82' $'\xac' $'!\nUs' er: ' unseen'; do
        echo "$(printf %s "$token" | base64) $((id++))"
    done >"$folder/tokens.tiktoken"
    said=$("$example" "ipc://$folder/control.sock" "$folder/tokens.tiktoken")
    [ "$said" = $'Hello, world \u20ac!\nended by a stop string' ] || { echo "it said: $said"; cat "$folder/log"; exit 1; }
    exit
fi
lines=$("$example" "ipc://$folder/control.sock" | tee /dev/stderr | grep -cE '^[0-9]+$')
[ "$lines" -eq 8 ] || { echo "expected eight tokens, got $lines"; cat "$folder/log"; exit 1; }
