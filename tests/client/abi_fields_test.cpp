#include "client/abi_fields.h"

#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>

#include "proto/sampling.h"

using namespace croupier;

namespace {

// Every field with a value of its own.
croupier_params distinct_params() {
    croupier_params params;
    croupier_params_init(&params);
    double next = 0.5;
#define CROUPIER_SET(name, ...) params.name = static_cast<decltype(params.name)>(++next);
    CROUPIER_SAMPLING_FIELDS(CROUPIER_SET)
#undef CROUPIER_SET
    for (std::uint8_t i = 0; i < CROUPIER_MAX_ORDER; ++i) params.order[i] = static_cast<std::uint8_t>(i + 1);
    return params;
}

}  // namespace

TEST_CASE("the ABI's defaults are those of the protocol, bit for bit") {
    croupier_params params;
    croupier_params_init(&params);
    const proto::SamplingParams plain = client::params_from_abi(params);
    const proto::SamplingParams wanted;
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): no padding, and NaN is no default.
    CHECK(std::memcmp(&plain, &wanted, sizeof(plain)) == 0);
}

TEST_CASE("every parameter of the ABI stands for the one of its name") {
    const croupier_params params = distinct_params();
    const proto::SamplingParams plain = client::params_from_abi(params);
    const auto check = [](const char* name, auto found, auto wanted) {
        INFO(name);
        CHECK(static_cast<double>(found) == static_cast<double>(wanted));
    };
#define CROUPIER_CHECK(name, ...) check(#name, plain.name, params.name);
    CROUPIER_SAMPLING_FIELDS(CROUPIER_CHECK)
#undef CROUPIER_CHECK
    for (std::size_t i = 0; i < plain.order.size(); ++i)
        CHECK(static_cast<std::size_t>(plain.order[i]) == i + 1);
}

TEST_CASE("parameters come back from the protocol as they went") {
    const croupier_params params = distinct_params();
    const croupier_params back = client::params_to_abi(client::params_from_abi(params));
    using Bytes = std::array<std::byte, sizeof(params)>;
    CHECK(std::bit_cast<Bytes>(back) == std::bit_cast<Bytes>(params));
}

TEST_CASE("a session has whole rows unless lean is asked for, which comes back as it went") {
    croupier_open_options options{};
    croupier_open_options_init(&options);
    options.dtype = CROUPIER_BF16;
    options.vocab = 151936;
    CHECK(options.transport == CROUPIER_TRANSPORT_ROWS);
    const auto transport =
        GENERATE(std::uint32_t{CROUPIER_TRANSPORT_ROWS}, std::uint32_t{CROUPIER_TRANSPORT_LEAN});
    options.transport = transport;
    const proto::Geometry geometry = client::geometry_from_abi(options);
    CHECK(geometry.is_lean() == (transport == CROUPIER_TRANSPORT_LEAN));
    CHECK_FALSE(proto::geometry_fault(geometry));
    croupier_open_options back{};
    client::geometry_to_abi(geometry, back);
    CHECK(back.transport == transport);
}

TEST_CASE("summaries are off unless they are asked for, and come back from the geometry as they went") {
    croupier_open_options options{};
    croupier_open_options_init(&options);
    options.dtype = CROUPIER_BF16;
    CHECK(client::geometry_from_abi(options).has_summaries == 0);
    options.summaries = 1;
    const proto::Geometry geometry = client::geometry_from_abi(options);
    CHECK(geometry.has_summaries == 1);
    croupier_open_options back{};
    client::geometry_to_abi(geometry, back);
    CHECK(back.summaries == 1);
}
