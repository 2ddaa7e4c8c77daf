// The kernels of lean steps on this CPU: what they lay is what the naive formulation has.
#include <catch2/catch.hpp>
#include <random>

#include "tests/gpu_kernels/emulated_lean.h"
#include "tests/gpu_writer/lean_cases.h"
#include "tests/gpu_writer/lean_checks.h"

using namespace croupier;

TEST_CASE("kernels lay lean steps of any shape") {
    const auto side = testing::make_emulated_lean();
    std::mt19937_64 random(1);
    for (int i = 0; i < 300; ++i) testing::check_lay(*side, testing::random_case(random));
}

TEST_CASE("kernels lay lean steps of usual vocabularies") {
    const auto side = testing::make_emulated_lean();
    testing::check_lay(*side, testing::usual_case(151936, 3, 64));
    testing::check_lay(*side, testing::usual_case(128256, 2, 1024));
    // More chunks than a warp has lanes.
    testing::check_lay(*side, testing::usual_case(300000, 1, 64));
}

TEST_CASE("kernels take what columns want from their arguments and, of many columns, from memory") {
    const auto side = testing::make_emulated_lean();
    for (const std::uint32_t columns : {64U, 65U, 512U, 513U}) {
        testing::check_lay(*side, testing::usual_case(700, columns, 32));
    }
}

TEST_CASE("kernels find the last block that is wanted wherever among the bins it is") {
    const auto side = testing::make_emulated_lean();
    for (const auto dtype : {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32}) {
        for (const std::uint32_t wanted : {1U, 255U, 256U, 257U, 258U, 511U, 512U, 513U, 1000U}) {
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
