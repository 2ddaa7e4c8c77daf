#include "client/abi_fields.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "proto/lean_part.h"
#include "proto/sampling.h"

namespace croupier::client {
namespace {

constexpr auto to_proto = [](const auto& abi, auto& plain) {
    plain = static_cast<std::remove_reference_t<decltype(plain)>>(abi);
};
constexpr auto to_abi = [](auto& abi, const auto& plain) {
    abi = static_cast<std::remove_reference_t<decltype(abi)>>(plain);
};

// A gap of the compiler's is not one of the table's: it wants a name, as `reserved` has.
static_assert(proto::bytes_of_sampling_fields<croupier_params>() + sizeof(croupier_params::size) +
                      sizeof(croupier_params::version) + sizeof(croupier_params::order) ==
                  sizeof(croupier_params),
              "croupier_params has a field that the table of parameters lacks");

template <typename Abi, typename Plain, typename Copy>
void copy_params(Abi& abi, Plain& plain, const Copy& copy) {
#define CROUPIER_COPY(name, ...) copy(abi.name, plain.name);
    CROUPIER_SAMPLING_FIELDS(CROUPIER_COPY)
#undef CROUPIER_COPY
    for (std::size_t i = 0; i < plain.order.size(); ++i) copy(abi.order[i], plain.order[i]);
}

template <typename Abi, typename Plain, typename Copy>
void copy_geometry(Abi& abi, Plain& plain, const Copy& copy) {
    copy(abi.vocab, plain.vocab);
    copy(abi.tp, plain.tp);
    copy(abi.max_batch, plain.max_batch);
    copy(abi.max_windows, plain.max_windows);
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
    copy(abi.max_support, plain.max_support);
}

void cut_shards(const croupier_open_options& options, proto::Geometry& geometry) {
    proto::fill_even_shards(geometry, options.padded_vocab);
    if (options.shard_ids == nullptr) return;
    std::uint32_t first = 0;
    for (std::uint32_t rank = 0; rank < std::min(geometry.tp, proto::kMaxTp); ++rank) {
        geometry.shards[rank] = {first, options.shard_ids[rank]};
        first += options.shard_ids[rank];
    }
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
    if (options.transport == CROUPIER_TRANSPORT_LEAN) geometry.lean_blocks = proto::kUsualLeanBlocks;
    cut_shards(options, geometry);
    return geometry;
}

void geometry_to_abi(const proto::Geometry& geometry, croupier_open_options& options) {
    copy_geometry(options, geometry, to_abi);
    options.transport = geometry.is_lean() ? CROUPIER_TRANSPORT_LEAN : CROUPIER_TRANSPORT_ROWS;
    const proto::RankShard& last = geometry.shards[geometry.tp - 1];
    options.padded_vocab = last.first_id + last.count;
}

}  // namespace croupier::client
