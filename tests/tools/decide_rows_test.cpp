#include <unistd.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "tests/tools/asker.h"

namespace croupier::tools {

using namespace explain;
namespace {

using Catch::Matchers::Contains;
using proto::Dtype;

constexpr std::uint32_t infinity_of(Dtype dtype) {
    return dtype == Dtype::bf16 ? 0x7F80U : 0x7C00U;
}

class RowFile {
  public:
    explicit RowFile(const std::vector<std::uint16_t>& elements)
        : path_(std::filesystem::temp_directory_path() / ("croupier-rows-" + std::to_string(::getpid()))) {
        write(elements);
    }
    RowFile(const RowFile&) = delete;
    RowFile& operator=(const RowFile&) = delete;
    ~RowFile() { std::filesystem::remove(path_); }

    void write(const std::vector<std::uint16_t>& elements) const {
        std::ofstream file(path_, std::ios::binary);
        file.write(reinterpret_cast<const char*>(elements.data()),
                   static_cast<std::streamsize>(elements.size() * sizeof(std::uint16_t)));
    }
    Json request(std::uint32_t vocab, std::uint64_t index) const {
        return {{"row", {{"file", path_}, {"dtype", "bf16"}, {"vocab", vocab}, {"index", index}}},
                {"support", true},
                {"params", {{"temperature", 0.9}}}};
    }

  private:
    std::filesystem::path path_;
};

std::vector<std::uint16_t> random_bf16(std::size_t count) {
    std::mt19937 random(5);
    std::normal_distribution<double> logit(0.0, 3.0);
    std::vector<std::uint16_t> elements(count);
    for (auto& each : elements) each = static_cast<std::uint16_t>(encode(logit(random), Dtype::bf16));
    return elements;
}

Json logits_of(const std::vector<std::uint16_t>& elements, std::size_t from, std::size_t count) {
    Json logits = Json::array();
    for (std::size_t i = from; i < from + count; ++i) logits.push_back(decode(elements[i], Dtype::bf16));
    return logits;
}

}  // namespace

TEST_CASE("decide: every 16-bit element survives a round trip") {
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
        for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
            const double value = decode(bits, dtype);
            if ((bits & 0x7FFFU) > infinity_of(dtype)) {
                REQUIRE(std::isnan(value));
            } else {
                REQUIRE(encode(value, dtype) == bits);
            }
        }
        CHECK(std::isnan(decode(encode(std::nan(""), dtype), dtype)));
    }
}

TEST_CASE("decide: numbers are rounded to the nearest element, ties to even") {
    for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
        for (std::uint32_t below = 0; below + 1 < infinity_of(dtype); ++below) {
            const double middle = (decode(below, dtype) + decode(below + 1, dtype)) / 2;
            REQUIRE(encode(middle, dtype) == below + (below & 1U));
            REQUIRE(encode(std::nextafter(middle, 0.0), dtype) == below);
            REQUIRE(encode(std::nextafter(middle, 1e300), dtype) == below + 1);
            REQUIRE(encode(-middle, dtype) == (0x8000U | (below + (below & 1U))));
        }
        CHECK(encode(1e300, dtype) == infinity_of(dtype));
    }
    CHECK(encode(65519.9, Dtype::fp16) == 0x7BFFU);
    CHECK(encode(65520.0, Dtype::fp16) == 0x7C00U);
}

TEST_CASE("decide: 32-bit elements are rounded like the processor's floats") {
    std::mt19937 random(11);
    for (int i = 0; i < 200'000; ++i) {
        const auto bits = static_cast<std::uint32_t>(random());
        const auto value = std::bit_cast<float>(bits);
        if (std::isnan(value)) continue;
        REQUIRE(encode(value, Dtype::fp32) == bits);
        REQUIRE(decode(bits, Dtype::fp32) == static_cast<double>(value));
        const double between = value * 1.00000003;
        if (std::isfinite(static_cast<float>(between))) {
            REQUIRE(encode(between, Dtype::fp32) ==
                    std::bit_cast<std::uint32_t>(static_cast<float>(between)));
        }
    }
}

TEST_CASE("decide: a row from a file gives the same decision as its numbers") {
    constexpr std::uint32_t kVocab = 777;
    const auto elements = random_bf16(std::size_t{kVocab} * 3);
    const RowFile file(elements);
    Asker ask;
    for (std::uint64_t index = 0; index < 3; ++index) {
        const Json by_file = ask(file.request(kVocab, index));
        Json by_numbers = {{"logits", logits_of(elements, index * kVocab, kVocab)},
                           {"dtype", "bf16"},
                           {"support", true},
                           {"params", {{"temperature", 0.9}}}};
        CHECK(by_file.at("support").size() == kVocab);
        CHECK(by_file == ask(by_numbers));
    }
}

TEST_CASE("decide: the error for a missing row says what the file contains") {
    const RowFile file(random_bf16(30));
    Asker ask;
    CHECK_THAT(ask.error(file.request(10, 3).dump()),
               Contains("has 3 rows; row.index is 3; allowed: 0 to 2"));
    CHECK_THAT(ask.error(file.request(7, 0).dump()),
               Contains("has 60 bytes, which is not a whole number of rows"));
    Json missing = file.request(10, 0);
    missing["row"]["file"] = "/nowhere/rows";
    CHECK_THAT(ask.error(missing.dump()), Contains("'/nowhere/rows': No such file"));
    missing["row"]["file"] = "/";
    CHECK_THAT(ask.error(missing.dump()), Contains("not a regular file"));
    missing["row"].erase("vocab");
    CHECK_THAT(ask.error(missing.dump()), Contains("row.vocab is missing"));
    CHECK_THAT(ask.error(with(file.request(10, 0), "dtype", "bf16").dump()), Contains("row.dtype"));
}

TEST_CASE("decide: a file that was truncated between two requests is mapped again") {
    const RowFile file(random_bf16(30'000));
    Asker ask;
    REQUIRE(ask(file.request(10'000, 2)).contains("tokens"));
    file.write(random_bf16(10'000));
    CHECK_THAT(ask.error(file.request(10'000, 2).dump()), Contains("has 1 rows"));
    CHECK(ask(file.request(10'000, 0)).contains("tokens"));
}

// The total of raw log-probs is summed rank by rank, in float (docs/decisions/0005).
Json without_last_bits(Json answer) {
    for (Json& entry : answer.at("logprobs")) entry[1] = std::round(entry[1].get<double>() * 1e4);
    return answer;
}

// Ranks of whole blocks, because unfiltered draws make proposals by blocks (docs/decisions/0006).
TEST_CASE("decide: tiles and ranks do not change an answer") {
    const auto elements = random_bf16(std::size_t{64} * 3 * 8);
    const Json logits = logits_of(elements, 0, elements.size());
    Asker ask;
    for (const char* impl : {"fast", "reference"}) {
        for (const Json& params :
             {Json{{"temperature", 1.2}}, Json{{"top_p", 0.9}}, Json{{"rng", "sglang"}}}) {
            const Json plain = {{"logits", logits}, {"dtype", "bf16"}, {"params", params}, {"impl", impl},
                                {"draws", 20},      {"support", true}, {"logprobs", 5}};
            const Json expected = ask(plain);
            REQUIRE(expected.at("tokens").size() == 20);
            for (const int tile : {1, 64}) {
                for (const int ranks : {1, 2, 3, 24}) {
                    INFO(impl << " " << params.dump() << " tile " << tile << " ranks " << ranks);
                    CHECK(without_last_bits(ask(with(with(plain, "tile", tile), "ranks", ranks))) ==
                          without_last_bits(expected));
                }
            }
        }
    }
}

}  // namespace croupier::tools
