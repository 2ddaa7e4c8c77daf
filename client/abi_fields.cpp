#include "client/abi_fields.h"

#include <cstddef>
#include <type_traits>

namespace croupier::client {
namespace {

constexpr auto to_proto = [](const auto& abi, auto& plain) {
    plain = static_cast<std::remove_reference_t<decltype(plain)>>(abi);
};
constexpr auto to_abi = [](auto& abi, const auto& plain) {
    abi = static_cast<std::remove_reference_t<decltype(abi)>>(plain);
};

template <typename Abi, typename Plain, typename Copy>
void copy_params(Abi& abi, Plain& plain, const Copy& copy) {
    copy(abi.seed, plain.seed);
    copy(abi.temperature, plain.temperature);
    copy(abi.top_p, plain.top_p);
    copy(abi.min_p, plain.min_p);
    copy(abi.repetition_penalty, plain.repetition_penalty);
    copy(abi.frequency_penalty, plain.frequency_penalty);
    copy(abi.presence_penalty, plain.presence_penalty);
    copy(abi.dynatemp_range, plain.dynatemp_range);
    copy(abi.dynatemp_exponent, plain.dynatemp_exponent);
    copy(abi.top_n_sigma, plain.top_n_sigma);
    copy(abi.typical_p, plain.typical_p);
    copy(abi.xtc_probability, plain.xtc_probability);
    copy(abi.xtc_threshold, plain.xtc_threshold);
    copy(abi.dry_multiplier, plain.dry_multiplier);
    copy(abi.dry_base, plain.dry_base);
    copy(abi.mirostat_tau, plain.mirostat_tau);
    copy(abi.mirostat_eta, plain.mirostat_eta);
    copy(abi.adaptive_target, plain.adaptive_target);
    copy(abi.adaptive_decay, plain.adaptive_decay);
    copy(abi.top_k, plain.top_k);
    copy(abi.eos_token_id, plain.eos_token_id);
    copy(abi.min_tokens, plain.min_tokens);
    copy(abi.max_tokens, plain.max_tokens);
    copy(abi.flags, plain.flags);
    copy(abi.child, plain.child);
    copy(abi.penalty_last_n, plain.penalty_last_n);
    copy(abi.dry_penalty_last_n, plain.dry_penalty_last_n);
    copy(abi.dry_allowed_length, plain.dry_allowed_length);
    copy(abi.mirostat, plain.mirostat);
    copy(abi.rng, plain.rng);
    copy(abi.logprob_mode, plain.logprob_mode);
    copy(abi.logprobs, plain.logprobs);
    for (std::size_t i = 0; i < plain.order.size(); ++i) copy(abi.order[i], plain.order[i]);
}

template <typename Abi, typename Plain, typename Copy>
void copy_geometry(Abi& abi, Plain& plain, const Copy& copy) {
    copy(abi.vocab, plain.vocab);
    copy(abi.tp, plain.tp);
    copy(abi.max_batch, plain.max_batch);
    copy(abi.steps_in_flight, plain.slots);
    copy(abi.dtype, plain.dtype);
    copy(abi.tile, plain.tile);
    copy(abi.max_sequences, plain.max_sequences);
    copy(abi.max_length, plain.max_length);
    copy(abi.max_bias, plain.max_bias);
    copy(abi.max_stop_ids, plain.max_stop_ids);
    copy(abi.max_list_tokens, plain.max_list_tokens);
    copy(abi.mask_rows, plain.mask_rows);
    copy(abi.summaries, plain.has_summaries);
    copy(abi.max_logprobs, plain.max_logprobs);
}

}  // namespace

proto::SamplingParams params_from_abi(const croupier_params& params) {
    proto::SamplingParams plain;
    copy_params(params, plain, to_proto);
    return plain;
}

croupier_params params_to_abi(const proto::SamplingParams& params) {
    croupier_params abi;
    croupier_params_init(&abi);
    copy_params(abi, params, to_abi);
    return abi;
}

proto::Geometry geometry_from_abi(const croupier_open_options& options) {
    proto::Geometry geometry;
    copy_geometry(options, geometry, to_proto);
    geometry.has_order = options.order != nullptr || options.hotness_file != nullptr ? 1 : 0;
    proto::fill_even_shards(geometry, options.padded_vocab);
    return geometry;
}

void geometry_to_abi(const proto::Geometry& geometry, croupier_open_options& options) {
    copy_geometry(options, geometry, to_abi);
    const proto::RankShard& last = geometry.shards[geometry.tp - 1];
    options.padded_vocab = last.first_id + last.count;
}

}  // namespace croupier::client
