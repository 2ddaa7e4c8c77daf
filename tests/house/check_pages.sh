#!/usr/bin/env bash
# Pages stay short, and bench/results/ holds what they cite: every file that git has there is cited by a page,
# and every file that a page cites is there. tests/house/check_names.py checks links, which needs a build.
set -euo pipefail
cd "$(dirname "$0")/../.."

MAX_PAGE_WORDS=1800
MAX_DECISION_WORDS=600
MAX_ALL_WORDS=30000

failures=0
fail() {
    echo "$1"
    failures=$((failures + 1))
}

# A word has a letter or a digit: the bars and dashes of tables are none.
words_of() {
    tr -s ' \n' '\n' <"$1" | grep -c '[[:alnum:]]'
}

all=0
while IFS= read -r page; do
    words=$(words_of "$page")
    all=$((all + words))
    allowed=$MAX_PAGE_WORDS
    [[ "$page" != docs/decisions/* ]] || allowed=$MAX_DECISION_WORDS
    [ "$words" -le "$allowed" ] || fail "$page: it has $words words, $allowed are allowed"
done < <(find docs -name '*.md' | sort)
[ "$all" -le "$MAX_ALL_WORDS" ] || fail "docs/: its pages have $all words, $MAX_ALL_WORDS are allowed together"

# A result is cited by its whole name, with or without its folder: NAME-20YYMMDD-MACHINE.json, or .txt.
CITED='(bench/results/[A-Za-z0-9_.-]+|[A-Za-z0-9_][A-Za-z0-9_.-]*-20[0-9]{6}[A-Za-z0-9_-]*)\.(json|txt)\b'
declare -A cited
while IFS=: read -r page line name; do
    name=${name#bench/results/}
    cited[$name]=1
    [ -f "bench/results/$name" ] || fail "$page:$line: bench/results/ has no $name"
done < <(grep -rnoE --include='*.md' "$CITED" README.md CONTRIBUTING.md docs | sort)
while IFS= read -r file; do
    [ -n "${cited[${file#bench/results/}]:-}" ] || fail "$file: no page cites it; cite it in docs/performance.md or remove it"
done < <(git ls-files bench/results)

if [ "$failures" -gt 0 ]; then
    echo "$failures fault(s) in the pages or in bench/results/"
    exit 1
fi
echo "docs/ has $all words, and bench/results/ what its pages cite"
