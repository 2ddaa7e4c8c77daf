#include "tools/sim/vocabulary.h"

#include <numeric>
#include <utility>

#include "proto/hotness_order.h"
#include "tools/sim/keyed_hash.h"

namespace croupier::tools::sim {
namespace {

constexpr std::uint64_t kOrderKey = 3;

std::vector<std::int32_t> shuffled_ids(const SimOptions& options) {
    std::vector<std::int32_t> ids(options.vocab);
    std::iota(ids.begin(), ids.end(), 0);
    KeyedStream random(key_of(options.seed, kOrderKey));
    for (std::uint32_t left = options.vocab; left > 1; --left)
        std::swap(ids[left - 1], ids[random.below(left)]);
    return ids;
}

proto::Geometry make_geometry(const SimOptions& options, const RequestPlan& plan) {
    proto::Geometry geometry;
    geometry.vocab = options.vocab;
    geometry.tp = options.tp;
    geometry.max_batch = options.batch;
    geometry.slots = options.steps_in_flight();
    geometry.dtype = options.dtype;
    geometry.tile = options.tile;
    geometry.max_sequences = options.batch * options.steps_in_flight();
    geometry.max_length = plan.longest() + 1;
    geometry.max_bias = kMaxBiases;
    geometry.max_stop_ids = kMaxStops;
    geometry.max_list_tokens = kMaxListWords;
    geometry.mask_rows = options.mix == SimMix::mixed ? options.batch : 0;
    geometry.has_order = options.hotness_order ? 1 : 0;
    geometry.has_summaries = options.summaries ? 1 : 0;
    proto::fill_even_shards(geometry);
    return geometry;
}

}  // namespace

Vocabulary make_vocabulary(const SimOptions& options, const RequestPlan& plan) {
    Vocabulary vocabulary;
    vocabulary.geometry = make_geometry(options, plan);
    if (!options.hotness_order) return vocabulary;
    vocabulary.hot_first = shuffled_ids(options);
    vocabulary.id_at = proto::cut_among_ranks(vocabulary.geometry, vocabulary.hot_first);
    vocabulary.place_of.resize(options.vocab);
    for (std::uint32_t place = 0; place < options.vocab; ++place) {
        vocabulary.place_of[static_cast<std::uint32_t>(vocabulary.id_at[place])] = place;
    }
    return vocabulary;
}

}  // namespace croupier::tools::sim
