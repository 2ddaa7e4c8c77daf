#include "sampler/instruction_set.h"

#include <catch2/catch.hpp>

#include "tests/sampler/instruction_sets.h"

using namespace croupier::sampler;

TEST_CASE("the instruction set that is told is the one that decides") {
    for (const std::int64_t target : test::instruction_sets()) {
        const test::InstructionSet chosen(target);
        CHECK(instruction_set().name == test::name_of_instruction_set(target));
        // One byte: the set without vectors.
        CHECK(instruction_set().vector_bytes >= 1);
    }
}
