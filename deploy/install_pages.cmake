# Run at installation: docs/ as it stands, but for links that leave it. What those lead to is not installed, so their text stays alone.
# SOURCE: docs/; TO: where it goes, with DESTDIR.
file(GLOB_RECURSE pages RELATIVE ${SOURCE} ${SOURCE}/*.md)
foreach(page IN LISTS pages)
    string(REGEX MATCHALL "/" depth "${page}")
    list(LENGTH depth depth)
    string(REPEAT "\\.\\./" ${depth} up)
    file(READ ${SOURCE}/${page} text)
    string(REGEX REPLACE "\\[([^]\n]*)\\]\\(${up}\\.\\./[^)]*\\)" "\\1" text "${text}")
    file(WRITE ${TO}/${page} "${text}")
endforeach()
file(GLOB examples ${SOURCE}/examples/*.cpp ${SOURCE}/examples/*.h ${SOURCE}/examples/*.py)
file(COPY ${examples} DESTINATION ${TO}/examples)
file(COPY ${SOURCE}/pictures DESTINATION ${TO})
