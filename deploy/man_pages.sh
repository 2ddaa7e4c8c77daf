#!/bin/sh
# man_pages.sh PROGRAM SECTION "WHAT IT IS" VERSION: its manual page, of what its --help and those of its commands say.
set -e
program=$1 section=$2 what=$3 version=$4
name=$(basename "$program")
# As it is to be seen: no line is filled, and no first character is taken for a request.
verbatim() { printf '.nf\n'; sed 's/\\/\\e/g; s/-/\\-/g; s/^\([.'"'"']\)/\\\&\1/'; printf '.fi\n'; }
help_of() { "$program" "$@" --help | sed "s|$program|$name|"; }
help=$(help_of)
cat <<END
.TH $(echo "$name" | tr a-z A-Z) $section "" "Croupier $version"
.SH NAME
$name \\- $what
.SH SYNOPSIS
$(echo "$help" | sed -n 's/^Usage: \(.*\)/\1/p' | sed 's/-/\\-/g')
.SH DESCRIPTION
$(echo "$help" | verbatim)
END
for command in $(echo "$help" | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    # Of programs of their own, which another package has.
    case $command in sim | bench) continue ;; esac
    printf '.SH "%s"\n' "$(echo "$name $command" | tr a-z A-Z)"
    help_of "$command" | verbatim
done
cat <<END
.SH SEE ALSO
The pages in /usr/share/doc/croupier, from README.md on.
END
