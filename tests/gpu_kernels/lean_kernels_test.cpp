// The kernels of lean steps on this CPU: what they lay is what the naive formulation has.
#include <catch2/catch.hpp>
#include <random>

#include "tests/gpu_kernels/emulated_lean.h"
#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/lean_checks.h"
#include "tests/gpu_writer/naive_lean.h"

using namespace croupier;

TEST_CASE("kernels lay lean steps of any shape") {
    const auto side = testing::make_emulated_lean();
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) testing::check_lay(*side, testing::random_case(random));
}

TEST_CASE("kernels send the blocks that a host sends, no other though more sets would do") {
    const auto kernels = testing::make_emulated_lean();
    const auto host = testing::make_host_lean();
    std::mt19937_64 random(2);
    for (int i = 0; i < 150; ++i) {
        const testing::LeanCase of = testing::random_case(random);
        testing::check_same_blocks(of, kernels->lay(of), host->lay(of));
    }
}

TEST_CASE("kernels take the maxima of blocks that are there before") {
    const auto side = testing::make_emulated_lean_of_maxima();
    std::mt19937_64 random(6);
    for (int i = 0; i < 200; ++i) testing::check_lay(*side, testing::random_case(random));
    for (const std::uint32_t vocab : {1U, 65U, 700U, 32000U}) {
        testing::check_lay(*side, testing::masked_case(vocab, 5, 64));
        testing::check_lay(*side, testing::drawn_case(vocab, random));
    }
}

TEST_CASE("kernels lay lean steps of usual vocabularies") {
    const auto side = testing::make_emulated_lean();
    testing::check_lay(*side, testing::usual_case(151936, 3, 64));
    testing::check_lay(*side, testing::usual_case(128256, 2, 1024));
    // More chunks than a warp has lanes.
    testing::check_lay(*side, testing::usual_case(300000, 1, 64));
}

TEST_CASE("kernels lay lean steps under grammar masks") {
    const auto side = testing::make_emulated_lean();
    for (const std::uint32_t vocab : {1U, 63U, 65U, 700U, 32000U, 151936U})
        testing::check_lay(*side, testing::masked_case(vocab, 5, 64));
}

TEST_CASE("kernels take what columns want from their arguments and, of many columns, from memory") {
    const auto side = testing::make_emulated_lean();
    for (const std::uint32_t columns : {64U, 65U, 512U, 513U}) {
        testing::check_lay(*side, testing::usual_case(700, columns, 32));
    }
}

TEST_CASE("kernels find about as many blocks as are wanted of rows whose blocks are a step apart") {
    const auto side = testing::make_emulated_lean();
    for (const auto dtype : {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}) {
        for (const std::uint32_t wanted : {1U, 2U, 15U, 16U, 17U, 255U, 512U, 1000U}) {
            testing::check_lay(*side, testing::stairs_case(1500, wanted, dtype));
        }
    }
}

TEST_CASE("kernels draw columns of any rows as all their tokens race") {
    const auto side = testing::make_emulated_lean();
    std::mt19937_64 random(5);
    for (std::uint32_t i = 0; i < 60; ++i)
        testing::check_lay(*side, testing::drawn_case(2000 + i * 100, random));
    testing::check_lay(*side, testing::drawn_case(151936, random));
}
