#include "testing/file_text.h"

#include <catch2/catch.hpp>
#include <string>

#include "testing/workplace.h"

namespace croupier::testing {

TEST_CASE("text_of returns all bytes of a file, or nothing if it cannot be read") {
    const Workplace place;
    const std::string bytes("one\r\n\0two\n\n", 11);
    place.write("file", bytes);
    place.write("empty", "");
    CHECK(text_of((place.path() / "file").string()) == bytes);
    CHECK(text_of((place.path() / "empty").string()) == "");
    CHECK_FALSE(text_of((place.path() / "absent").string()));
    CHECK_FALSE(text_of(place.path().string()));
}

}  // namespace croupier::testing
