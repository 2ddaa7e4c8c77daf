#include "client/abi_fields.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace croupier;

namespace {

// Every field with a value of its own.
croupier_params distinct_params() {
    croupier_params params;
    croupier_params_init(&params);
    double next = 0.5;
    for (double* field :
         {&params.temperature, &params.top_p, &params.min_p, &params.repetition_penalty,
          &params.frequency_penalty, &params.presence_penalty, &params.dynatemp_range,
          &params.dynatemp_exponent, &params.top_n_sigma, &params.typical_p, &params.xtc_probability,
          &params.xtc_threshold, &params.dry_multiplier, &params.dry_base, &params.mirostat_tau,
          &params.mirostat_eta, &params.adaptive_target, &params.adaptive_decay}) {
        *field = next++;
    }
    params.seed = 20;
    params.top_k = 21;
    params.eos_token_id = 22;
    params.min_tokens = 23;
    params.max_tokens = 24;
    params.flags = 25;
    params.child = 29;
    params.penalty_last_n = 26;
    params.dry_penalty_last_n = 27;
    params.dry_allowed_length = 28;
    params.mirostat = 1;
    params.rng = 2;
    params.logprob_mode = 3;
    params.logprobs = 30;
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
    const proto::SamplingParams plain = client::params_from_abi(distinct_params());
    CHECK(plain.seed == 20);
    CHECK(plain.temperature == 0.5);
    CHECK(plain.top_p == 1.5);
    CHECK(plain.min_p == 2.5);
    CHECK(plain.repetition_penalty == 3.5);
    CHECK(plain.frequency_penalty == 4.5);
    CHECK(plain.presence_penalty == 5.5);
    CHECK(plain.dynatemp_range == 6.5);
    CHECK(plain.dynatemp_exponent == 7.5);
    CHECK(plain.top_n_sigma == 8.5);
    CHECK(plain.typical_p == 9.5);
    CHECK(plain.xtc_probability == 10.5);
    CHECK(plain.xtc_threshold == 11.5);
    CHECK(plain.dry_multiplier == 12.5);
    CHECK(plain.dry_base == 13.5);
    CHECK(plain.mirostat_tau == 14.5);
    CHECK(plain.mirostat_eta == 15.5);
    CHECK(plain.adaptive_target == 16.5);
    CHECK(plain.adaptive_decay == 17.5);
    CHECK(plain.top_k == 21);
    CHECK(plain.eos_token_id == 22);
    CHECK(plain.min_tokens == 23);
    CHECK(plain.max_tokens == 24);
    CHECK(plain.flags == 25);
    CHECK(plain.child == 29);
    CHECK(plain.penalty_last_n == 26);
    CHECK(plain.dry_penalty_last_n == 27);
    CHECK(plain.dry_allowed_length == 28);
    CHECK(plain.logprobs == 30);
    CHECK(plain.mirostat == 1);
    CHECK(static_cast<int>(plain.rng) == 2);
    CHECK(static_cast<int>(plain.logprob_mode) == 3);
    for (std::size_t i = 0; i < plain.order.size(); ++i)
        CHECK(static_cast<std::size_t>(plain.order[i]) == i + 1);
}

TEST_CASE("parameters come back from the protocol as they went") {
    const croupier_params params = distinct_params();
    const croupier_params back = client::params_to_abi(client::params_from_abi(params));
    CHECK(std::memcmp(&back, &params, sizeof(params)) == 0);
}

TEST_CASE("a session has whole rows unless lean is asked for, which comes back as it went") {
    croupier_open_options options{};
    croupier_open_options_init(&options);
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
    CHECK(client::geometry_from_abi(options).has_summaries == 0);
    options.summaries = 1;
    const proto::Geometry geometry = client::geometry_from_abi(options);
    CHECK(geometry.has_summaries == 1);
    croupier_open_options back{};
    client::geometry_to_abi(geometry, back);
    CHECK(back.summaries == 1);
}
