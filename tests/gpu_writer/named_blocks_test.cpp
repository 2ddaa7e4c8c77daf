// The blocks of a rank that hold the ids that a request names.
#include "gpu_writer/named_blocks.h"

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <set>
#include <vector>

using namespace croupier;

namespace {

using Names = std::vector<std::uint16_t>;

// What the rank lists of these, where it has room for so many.
std::optional<Names> names_of(gpu_writer::NamedBlocks& blocks, const std::vector<std::int32_t>& tokens,
                              std::size_t room) {
    for (const std::int32_t token : tokens) blocks.add(token);
    Names names(room);
    const auto count = blocks.take(names);
    if (!count) return std::nullopt;
    names.resize(*count);
    return names;
}

}  // namespace

TEST_CASE("named blocks are each listed once, in order, from the rank's first one on") {
    gpu_writer::NamedBlocks blocks(100, 70);
    CHECK(names_of(blocks, {6400 + 64 * 69, 6400, 6463, 6464, 6400}, 96) == Names{0, 1, 69});
    // Nothing is left of a request for the next one.
    CHECK(names_of(blocks, {}, 96) == Names{});
    CHECK(names_of(blocks, {6400 + 64 * 65}, 96) == Names{65});
}

TEST_CASE("what is no id of the rank names nothing") {
    gpu_writer::NamedBlocks blocks(100, 70);
    CHECK(names_of(blocks,
                   {0, 6399, 6400 + 64 * 70, -1, std::numeric_limits<std::int32_t>::min(),
                    std::numeric_limits<std::int32_t>::max()},
                   96) == Names{});
    gpu_writer::NamedBlocks none(0, 0);
    CHECK(names_of(none, {0, 1, 64}, 96) == Names{});
}

TEST_CASE("more blocks than there is room for are none, and the next request's are told") {
    gpu_writer::NamedBlocks blocks(0, 2375);
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; token < 33 * 64; token += 64) tokens.push_back(token);
    CHECK(names_of(blocks, tokens, 33)->size() == 33);
    CHECK(names_of(blocks, tokens, 32) == std::nullopt);
    CHECK(names_of(blocks, {64}, 32) == Names{1});
}
