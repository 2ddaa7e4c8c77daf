#include "sim/vocabulary.h"

#include <numeric>
#include <utility>

#include "proto/hotness_order.h"
#include "proto/lean_part.h"
#include "sim/keyed_hash.h"

namespace croupier::sim {
namespace {

constexpr std::uint64_t kOrderKey = 3;

std::vector<std::uint32_t> shuffled_blocks(const SimOptions& options) {
    std::vector<std::uint32_t> blocks(proto::blocks_of(options.vocab));
    std::iota(blocks.begin(), blocks.end(), 0U);
    KeyedStream random(key_of(options.seed, kOrderKey));
    for (auto left = static_cast<std::uint32_t>(blocks.size()); left > 1; --left)
        std::swap(blocks[left - 1], blocks[random.below(left)]);
    return blocks;
}

proto::Geometry make_geometry(const SimOptions& options, const RequestPlan& plan) {
    proto::Geometry geometry;
    geometry.vocab = options.vocab;
    geometry.tp = options.tp;
    geometry.max_batch = options.rows_at_most();
    geometry.max_windows = options.batch;
    geometry.slots = options.steps_in_flight();
    // As in the vLLM plugin: the tokens of a step may still be read when the next one is submitted.
    constexpr std::uint32_t kLeastOnGpu = 3;
    if (options.on_gpu) geometry.slots = std::max(geometry.slots, kLeastOnGpu);
    geometry.dtype = options.dtype;
    geometry.tile = options.tile;
    // Ended sequences keep their slots until their steps in flight are finished.
    geometry.max_sequences = (options.ahead > 1 ? 2 : 1) * options.batch * options.microbatches();
    geometry.max_length = plan.longest() + 1;
    geometry.max_bias = kMaxBiases;
    geometry.max_stop_ids = kMaxStops;
    geometry.max_list_tokens = kMaxListWords + (options.stops ? kMaxStopWords : 0);
    geometry.mask_rows = options.mix == SimMix::mixed || options.masked ? options.rows_at_most() : 0;
    geometry.has_order = options.hotness_order ? 1 : 0;
    geometry.has_summaries = options.summaries ? 1 : 0;
    geometry.lean_blocks = options.transport == Transport::lean ? proto::kUsualLeanBlocks : 0;
    proto::fill_even_shards(geometry);
    return geometry;
}

}  // namespace

Vocabulary make_vocabulary(const SimOptions& options, const RequestPlan& plan) {
    Vocabulary vocabulary;
    vocabulary.geometry = make_geometry(options, plan);
    if (!options.hotness_order) return vocabulary;
    vocabulary.order = shuffled_blocks(options);
    vocabulary.places = proto::places_of(vocabulary.order, 0);
    return vocabulary;
}

}  // namespace croupier::sim
