#include "proto/hotness_order.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numeric>
#include <utility>

namespace croupier::proto {
namespace {

// As short as reads back to the same number: an error must show what tells two counts apart.
std::string shortest(double value) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// The bytes of the character at the text's begin, or 0 where it is no valid UTF-8: a stray or missing
// continuation, a longer form than needed, half of a surrogate pair, or beyond U+10FFFF.
std::size_t character_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return 0;
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) return 0;
    }
    const unsigned char second = byte(1);
    const bool longer_than_needed = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool surrogate = lead == 0xED && second >= 0xA0;
    const bool beyond = lead == 0xF4 && second >= 0x90;
    return longer_than_needed || surrogate || beyond ? 0 : bytes;
}

// Of what should be the numbers from `first` on, each once.
struct PermutationFault {
    std::size_t at;
    bool repeated;  // else it is none of them
};

template <class Number>
std::optional<PermutationFault> permutation_fault(std::span<const Number> numbers, std::uint32_t first) {
    std::vector<bool> seen(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::uint32_t number = static_cast<std::uint32_t>(numbers[i]) - first;
        const bool inside = number < numbers.size();
        if (!inside || seen[number]) return PermutationFault{i, inside};
        seen[number] = true;
    }
    return std::nullopt;
}

std::optional<std::string> ids_fault(std::span<const std::int32_t> ids) {
    const auto fault = permutation_fault(ids, 0);
    if (!fault) return std::nullopt;
    return "ids are no permutation of the vocabulary: ids[" + std::to_string(fault->at) + "] is " +
           std::to_string(ids[fault->at]) +
           (fault->repeated ? ", which came before; each id should stand there once"
                            : ", should be 0 to " + std::to_string(ids.size() - 1));
}

enum class CountFault { none, no_count, grows, tie_out_of_order };

CountFault judge_count(const HotnessOrder& order, std::size_t i) {
    const double count = order.counts[i];
    if (!std::isfinite(count) || std::signbit(count)) return CountFault::no_count;
    if (i == 0 || count < order.counts[i - 1]) return CountFault::none;
    if (count > order.counts[i - 1]) return CountFault::grows;
    return order.ids[i] > order.ids[i - 1] ? CountFault::none : CountFault::tie_out_of_order;
}

std::string describe(CountFault fault, const HotnessOrder& order, std::size_t i) {
    const std::string place = "[" + std::to_string(i) + "] is ";
    switch (fault) {
        case CountFault::grows:
            return "counts" + place + shortest(order.counts[i]) + ", more than the " +
                   shortest(order.counts[i - 1]) + " before it; counts should fall along the order";
        case CountFault::tie_out_of_order:
            return "ids" + place + std::to_string(order.ids[i]) + ", after " +
                   std::to_string(order.ids[i - 1]) + " with the same count; such ids should ascend";
        default:
            return "counts" + place + shortest(order.counts[i]) + ", should be a finite number of at least 0";
    }
}

std::optional<std::string> counts_fault(const HotnessOrder& order) {
    for (std::size_t i = 0; i < order.counts.size(); ++i) {
        const CountFault fault = judge_count(order, i);
        if (fault != CountFault::none) return describe(fault, order, i);
    }
    if (std::isfinite(order.counted())) return std::nullopt;
    return "counts add up to more than a float64 holds; they should be scaled down";
}

}  // namespace

double HotnessOrder::counted() const {
    // From the cold end, and so the same sum on every machine; the rare ones are not lost among the hot.
    return std::accumulate(counts.rbegin(), counts.rend(), 0.0);
}

std::optional<std::string> model_name_fault(std::string_view name) {
    const std::string allowed =
        ", should be 1 to " + std::to_string(kMaxModelName) + " bytes of UTF-8 without control characters";
    if (name.empty()) return "model is empty" + allowed;
    if (name.size() > kMaxModelName) return "model has " + std::to_string(name.size()) + " bytes" + allowed;
    for (std::size_t at = 0; at < name.size();) {
        const std::size_t bytes = character_bytes(name.substr(at));
        const auto first = static_cast<unsigned char>(name[at]);
        if (bytes == 0 || first < ' ' || first == 0x7F) {
            return "model has the byte " + std::to_string(first) + " at offset " + std::to_string(at) +
                   allowed;
        }
        at += bytes;
    }
    return std::nullopt;
}

std::optional<std::string> smoothing_fault(double smoothing) {
    if (smoothing >= 0.0 && smoothing <= kMaxSmoothing && !std::signbit(smoothing)) return std::nullopt;
    return "smoothing is " + shortest(smoothing) + ", should be 0 to " + shortest(kMaxSmoothing);
}

std::optional<std::string> order_fault(const HotnessOrder& order) {
    if (auto fault = model_name_fault(order.model)) return fault;
    if (auto fault = smoothing_fault(order.smoothing)) return fault;
    if (order.ids.empty() || order.ids.size() > kMaxVocab || order.counts.size() != order.ids.size()) {
        return "ids are " + std::to_string(order.ids.size()) + " and counts " +
               std::to_string(order.counts.size()) + ", should be as many of both, 1 to " +
               std::to_string(kMaxVocab);
    }
    if (auto fault = ids_fault(order.ids)) return fault;
    return counts_fault(order);
}

std::optional<std::string> counted_fault(const HotnessOrder& order, double counted) {
    // Bit for bit, so that NaN and -0 are refused and an order has one file only.
    if (std::bit_cast<std::uint64_t>(counted) == std::bit_cast<std::uint64_t>(order.counted())) {
        return std::nullopt;
    }
    return "counted is " + shortest(counted) + ", should be " + shortest(order.counted()) +
           ", the sum of the counts";
}

std::vector<std::uint32_t> rank_blocks(const HotnessOrder& order) {
    const auto vocab = static_cast<std::uint32_t>(order.ids.size());
    std::vector<double> count_of_id(vocab);
    for (std::uint32_t i = 0; i < vocab; ++i) {
        count_of_id[static_cast<std::size_t>(order.ids[i])] = order.counts[i];
    }
    // Summed by ascending ids: the same sums, and so the same order, on every machine.
    std::vector<double> count(blocks_of(vocab));
    for (std::uint32_t id = 0; id < vocab; ++id) count[id / kBlockIds] += count_of_id[id];
    std::vector<std::uint32_t> blocks(count.size());
    std::iota(blocks.begin(), blocks.end(), 0U);
    std::stable_sort(blocks.begin(), blocks.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return count[a] > count[b]; });
    return blocks;
}

std::optional<std::string> block_order_fault(std::span<const std::uint32_t> blocks, std::uint32_t first) {
    const auto fault = permutation_fault(blocks, first);
    if (!fault) return std::nullopt;
    return "it is no permutation of its blocks: entry " + std::to_string(fault->at) + " is " +
           std::to_string(blocks[fault->at]) +
           (fault->repeated ? ", which came before"
                            : ", its blocks are " + std::to_string(first) + " to " +
                                  std::to_string(first + blocks.size() - 1));
}

std::vector<std::uint32_t> places_of(std::span<const std::uint32_t> blocks, std::uint32_t first) {
    std::vector<std::uint32_t> places(blocks.size());
    for (std::uint32_t place = 0; place < blocks.size(); ++place) places[blocks[place] - first] = place;
    return places;
}

std::vector<std::uint32_t> blocks_of_rank(const Geometry& geometry, std::uint32_t rank,
                                          std::span<const std::uint32_t> model_order) {
    const RankShard& shard = geometry.shards[rank];
    std::vector<std::uint32_t> own;
    for (const std::uint32_t block : model_order) {
        if (block - shard.first_block() < shard.blocks()) own.push_back(block);
    }
    const std::uint32_t end = shard.first_block() + shard.blocks();
    for (std::uint32_t block = std::max(shard.first_block(), geometry.blocks()); block < end; ++block) {
        own.push_back(block);
    }
    return own;
}

std::vector<std::uint32_t> hot_prefixes(const Geometry& geometry, std::span<const std::uint32_t> model_order,
                                        std::uint32_t hot) {
    const auto hot_blocks = model_order.first(std::min<std::size_t>(blocks_of(hot), model_order.size()));
    std::vector<std::uint32_t> prefixes;
    for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
        const RankShard& shard = geometry.shards[rank];
        prefixes.push_back(static_cast<std::uint32_t>(std::count_if(
            hot_blocks.begin(), hot_blocks.end(),
            [&](std::uint32_t block) { return block - shard.first_block() < shard.blocks(); })));
    }
    return prefixes;
}

}  // namespace croupier::proto
