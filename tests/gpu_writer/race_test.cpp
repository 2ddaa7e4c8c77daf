// The race on a GPU: its bits are the CPU's, arrival for arrival and winner for winner.
#include "proto/race.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "sampler/blocked_row.h"
#include "sampler/race_arrivals.h"
#include "tests/gpu_writer/race_kernel.h"
#include "tests/gpu_writer/writer_under_test.h"

using namespace croupier;
using gpu_writer::RaceColumn;
using gpu_writer::RaceWinner;
using proto::Dtype;
using proto::race::kBlockTokens;
using proto::race::Key;

namespace {

constexpr float kNotRacing = -std::numeric_limits<float>::infinity();

void need_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

// Of CUDA device 0.
template <typename T>
class GpuArray {
  public:
    explicit GpuArray(std::size_t count) {
        need_cuda(cudaSetDevice(0), "choose device 0");
        need_cuda(cudaMalloc(&memory_, count * sizeof(T)), "allocate GPU memory");
    }
    explicit GpuArray(const std::vector<T>& of) : GpuArray(of.size()) {
        need_cuda(cudaMemcpy(memory_, of.data(), of.size() * sizeof(T), cudaMemcpyHostToDevice),
                  "copy to the GPU");
    }
    GpuArray(const GpuArray&) = delete;
    GpuArray& operator=(const GpuArray&) = delete;
    ~GpuArray() { (void)cudaFree(memory_); }

    T* get() { return static_cast<T*>(memory_); }
    // Behind the kernels that the default stream holds.
    void fetch(std::vector<T>& to) const {
        need_cuda(cudaMemcpy(to.data(), memory_, to.size() * sizeof(T), cudaMemcpyDeviceToHost),
                  "copy from the GPU");
    }

  private:
    void* memory_ = nullptr;
};

Key random_key(std::mt19937_64& generator) {
    const std::uint64_t words = generator();
    // Positions and children as they come, and now and then the largest that there may be.
    const auto position = static_cast<std::uint32_t>(words) >> (words >> 59U);
    const auto child = static_cast<std::uint32_t>(words >> 32U) % (proto::kMostChildren + 1);
    return {generator(), position, child};
}

std::size_t count_different(const std::vector<float>& one, const std::vector<float>& other) {
    return std::inner_product(one.begin(), one.end(), other.begin(), std::size_t{0}, std::plus<>(),
                              [](float a, float b) {
                                  return static_cast<std::size_t>(std::bit_cast<std::uint32_t>(a) !=
                                                                  std::bit_cast<std::uint32_t>(b));
                              });
}

// Of ids from 0 on, in whole blocks: the first of each is the least of its members.
std::size_t count_wrong_firsts(const Key& key, const std::vector<float>& ln_arrivals) {
    const std::size_t blocks = ln_arrivals.size() / kBlockTokens;
    std::vector<float> ln_first(blocks);
    sampler::make_first_arrivals(key, ln_first);
    std::vector<float> least(blocks);
    for (std::size_t b = 0; b < blocks; ++b) {
        const float* members = ln_arrivals.data() + b * kBlockTokens;
        least[b] = *std::min_element(members, members + kBlockTokens);
    }
    return count_different(least, ln_first);
}

struct Rows {
    Dtype dtype;
    std::uint32_t vocab;
    std::uint64_t stride;
    std::vector<std::uint32_t> codes;  // [columns][stride]

    std::vector<std::byte> bytes() const {
        const std::size_t each = proto::element_bytes(dtype);
        std::vector<std::byte> packed(codes.size() * each);
        // The lower bytes are the narrower types' (the hosts are little-endian).
        for (std::size_t i = 0; i < codes.size(); ++i) std::memcpy(packed.data() + i * each, &codes[i], each);
        return packed;
    }
    RaceWinner winner(std::uint32_t column, const RaceColumn& with) const {
        RaceWinner best{kNotRacing, gpu_writer::kNoRaceWinner};
        for (std::uint32_t token = 0; token < vocab; ++token) {
            const float logit = sampler::value_of_code(dtype, codes[column * stride + token]);
            if (logit == kNotRacing) continue;
            const float ln_arrival = proto::race::ln(proto::race::arrival(with.key, token));
            const float score = proto::race::score(proto::race::entered(logit), with.temperature, ln_arrival);
            if (score > best.score) best = {score, token};
        }
        return best;
    }
};

// Near each other, so that the arrivals decide; one in fifty does not race.
std::uint32_t random_code(Dtype dtype, std::mt19937_64& generator) {
    const auto bits = static_cast<std::uint32_t>(generator());
    if (generator() % 50 == 0) return sampler::negative_infinity_code(dtype);
    if (dtype == Dtype::fp16) return bits & 0xBFFFU;  // below 2, of either sign, subnormals too
    const float value = static_cast<float>(static_cast<std::int32_t>(bits)) * 0x1p-29F;
    return std::bit_cast<std::uint32_t>(value) >> (dtype == Dtype::bf16 ? 16U : 0U);
}

void check_winners(const Rows& rows, const std::vector<RaceColumn>& columns) {
    GpuArray<std::byte> logits(rows.bytes());
    GpuArray<RaceColumn> on_gpu(columns);
    std::vector<RaceWinner> winners(columns.size());
    GpuArray<RaceWinner> made(winners.size());
    need_cuda(gpu_writer::launch_races({logits.get(), rows.stride, rows.dtype, rows.vocab}, on_gpu.get(),
                                       static_cast<std::uint32_t>(columns.size()), made.get(), nullptr),
              "race");
    made.fetch(winners);
    for (std::uint32_t column = 0; column < columns.size(); ++column) {
        const RaceWinner expected = rows.winner(column, columns[column]);
        INFO("dtype " << static_cast<int>(rows.dtype) << ", " << rows.vocab << " ids, column " << column);
        CHECK(winners[column].token == expected.token);
        CHECK(std::bit_cast<std::uint32_t>(winners[column].score) ==
              std::bit_cast<std::uint32_t>(expected.score));
    }
}

Rows random_rows(Dtype dtype, std::uint32_t vocab, std::size_t columns, std::mt19937_64& generator) {
    Rows rows{dtype, vocab, vocab + generator() % 9, {}};
    rows.codes.resize(columns * rows.stride);
    std::generate(rows.codes.begin(), rows.codes.end(), [&] { return random_code(dtype, generator); });
    return rows;
}

std::vector<RaceColumn> random_columns(std::size_t count, std::mt19937_64& generator) {
    constexpr float kTemperatures[] = {0.01F, 0.3F, 0.7F, 1.0F, 1.7F};
    std::vector<RaceColumn> columns(count);
    for (RaceColumn& each : columns) {
        each = {random_key(generator), kTemperatures[generator() % std::size(kTemperatures)]};
    }
    return columns;
}

}  // namespace

TEST_CASE("of 10^8 arrivals that a GPU makes none differs from the CPU's in a bit", "[race]") {
    if (!testing::can_run(testing::Way::store)) return;
    constexpr std::uint32_t kKeys = 2000;
    constexpr std::uint32_t kIds = 50048;  // whole blocks
    STATIC_REQUIRE(std::uint64_t{kKeys} * kIds >= 100000000);
    std::mt19937_64 generator(1);
    GpuArray<float> made(kIds);
    std::vector<float> from_gpu(kIds);
    std::vector<float> from_cpu(kIds);
    std::vector<std::uint32_t> tokens(kIds);
    std::size_t different = 0;
    for (std::uint32_t i = 0; i < kKeys; ++i) {
        const Key key = random_key(generator);
        // Every fourth key has ids from 0 on, whose blocks' first arrivals are compared too; one has the
        // last ids.
        std::uint32_t first = i % 4 == 0 ? 0 : static_cast<std::uint32_t>(generator()) >> (i % 16U);
        first = i == 1 ? 0U - kIds : std::min(first, 0U - kIds);
        std::iota(tokens.begin(), tokens.end(), first);
        need_cuda(gpu_writer::launch_race_arrivals(key, first, kIds, made.get(), nullptr), "make arrivals");
        // The other half of the comparison is made meanwhile.
        sampler::make_arrivals(key, tokens, from_cpu);
        made.fetch(from_gpu);
        different += count_different(from_gpu, from_cpu);
        if (i % 4 == 0) different += count_wrong_firsts(key, from_gpu);
        if (i % 10 != 0) continue;
        std::transform(tokens.begin(), tokens.end(), from_cpu.begin(), [&](std::uint32_t token) {
            return proto::race::ln(proto::race::arrival(key, token));
        });
        different += count_different(from_gpu, from_cpu);
    }
    CHECK(different == 0);
}

TEST_CASE("a GPU's winners of random rows are the CPU's", "[race]") {
    if (!testing::can_run(testing::Way::store)) return;
    std::mt19937_64 generator(2);
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
        for (const std::uint32_t vocab : {1U, 63U, 64U, 65U, 1000U, 1024U, 32000U, 151936U}) {
            const auto columns = random_columns(16, generator);
            check_winners(random_rows(dtype, vocab, columns.size(), generator), columns);
        }
    }
}

TEST_CASE("a GPU's winners of a few rows, for a sanitizer of the kernels", "[race][sanitized]") {
    if (!testing::can_run(testing::Way::store)) return;
    std::mt19937_64 generator(3);
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
        const auto columns = random_columns(2, generator);
        check_winners(random_rows(dtype, 2500, columns.size(), generator), columns);
    }
}

TEST_CASE("a GPU's winners are the CPU's at the ends of the formats' ranges too", "[race]") {
    if (!testing::can_run(testing::Way::store)) return;
    constexpr std::uint32_t kVocab = 300;
    std::mt19937_64 generator(4);
    Rows rows{Dtype::fp32, kVocab, kVocab, std::vector<std::uint32_t>(kVocab)};
    std::vector<RaceColumn> columns = random_columns(1, generator);
    const auto fill = [&](float value) {
        std::fill(rows.codes.begin(), rows.codes.end(), std::bit_cast<std::uint32_t>(value));
    };
    SECTION("scores that all end at the least one: the smallest id wins") {
        fill(std::numeric_limits<float>::lowest());
        std::fill_n(rows.codes.begin(), 70, std::bit_cast<std::uint32_t>(kNotRacing));
        columns[0].temperature = 0.5F;
    }
    SECTION("a row in which nothing races") {
        fill(kNotRacing);
    }
    SECTION("subnormal logits over a subnormal temperature, which a flush to zero would level") {
        std::generate(rows.codes.begin(), rows.codes.end(), [&] { return generator() % 0x7FFFFFU; });
        columns[0].temperature = std::bit_cast<float>(0x00100000U);
    }
    SECTION("NaN among them, which never wins") {
        fill(1.0F);
        std::fill_n(rows.codes.begin(), 150, 0x7FC00000U);
    }
    check_winners(rows, columns);
}
