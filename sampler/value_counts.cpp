#include "sampler/value_counts.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>

#include "sampler/params.h"
#include "sampler/row_mass.h"
#include "sampler/row_scan.h"

namespace croupier::sampler {
namespace {

using proto::Step;

constexpr std::uint32_t kSign = 0x8000U;
constexpr std::uint32_t kRanks = 0x10000U;

// -0 is the same value as +0.
std::uint32_t code_of(std::uint32_t element) {
    return element == kSign ? 0U : element;
}

// Ranks ascend as values descend. It is its own inverse.
std::uint32_t rank_of(std::uint32_t code) {
    return code < kSign ? kSign - 1 - code : code;
}

std::uint32_t bf16_code(float value) {
    return std::bit_cast<std::uint32_t>(value) >> 16U;
}

const std::uint16_t* elements_of(const BlockRun& run, std::uint32_t block) {
    return reinterpret_cast<const std::uint16_t*>(run.block(block));
}

Mass whole(double weight) {
    return static_cast<Mass>(std::max(0.0, weight) * kMassUnit);
}

void count_all(const BlockedRow& row, std::span<std::uint32_t> counts) {
    for (const BlockRun& run : row.runs) {
        for (std::uint32_t block = 0; block < run.blocks; ++block) {
            const std::uint16_t* elements = elements_of(run, block);
            for (std::uint32_t i = 0; i < kBlock; ++i) ++counts[elements[i]];
        }
    }
    counts[0] += std::exchange(counts[kSign], 0);
}

// How many ranks are looked at together: most hold nothing, those of values near 0 above all.
constexpr std::uint32_t kChunk = 64;

bool chunk_is_empty(std::span<const std::uint32_t> counts, std::uint32_t rank) {
    const std::uint32_t* const first = &counts[std::min(rank_of(rank), rank_of(rank + kChunk - 1))];
    std::uint32_t any = 0;
    for (std::uint32_t i = 0; i < kChunk; ++i) any |= first[i];
    return any == 0;
}

// The token of the row that has `index` of its code before it.
std::optional<std::uint32_t> find_in_row(const BlockedRow& row, std::uint32_t code, std::uint32_t index) {
    for (const BlockRun& run : row.runs) {
        for (std::uint32_t block = 0; block < run.blocks; ++block) {
            const std::uint16_t* elements = elements_of(run, block);
            std::uint32_t here = 0;
            for (std::uint32_t i = 0; i < kBlock; ++i) here += code_of(elements[i]) == code ? 1U : 0U;
            if (index >= here) {
                index -= here;
                continue;
            }
            std::uint32_t i = 0;
            while (i + 1 < kBlock && (code_of(elements[i]) != code || index-- > 0)) ++i;
            return (run.first_block + block) * kBlock + i;
        }
    }
    return std::nullopt;
}

}  // namespace

bool ValueCounts::apply_to(const BlockedRow& row, const proto::SamplingParams& params) {
    if (row.dtype == proto::Dtype::fp32) return false;
    if (has_mirostat(params) || has_adaptive_p(params)) return false;
    constexpr Step kOthers[] = {Step::penalties, Step::dry,       Step::top_n_sigma, Step::min_p,
                                Step::top_k,     Step::typical_p, Step::xtc};
    return std::none_of(std::begin(kOthers), std::end(kOthers),
                        [&](Step step) { return takes_step(params, step); });
}

// What was counted between two ranks, in canonical order. The counts are all zero again afterwards.
void ValueCounts::list_classes(std::uint32_t best_rank, std::uint32_t worst_rank) {
    const std::span<CountedValue> list = workspace_.counted_values;
    const std::uint32_t nothing = negative_infinity_code(row_.dtype);
    std::size_t classes = 0;
    for (std::uint32_t rank = best_rank; rank <= worst_rank; ++rank) {
        while (rank % kChunk == 0 && rank <= worst_rank && chunk_is_empty(workspace_.value_counts, rank))
            rank += kChunk;
        if (rank > worst_rank) break;
        const std::uint32_t code = rank_of(rank);
        const std::uint32_t count = std::exchange(workspace_.value_counts[code], 0);
        if (count == 0 || code >= nothing || classes == list.size()) continue;
        list[classes++] = {static_cast<double>(value_of_code(row_.dtype, code)), code, count};
    }
    listed_ = list.first(classes);
    all_.reset();
}

// The listed classes, weighed at the filter's temperature.
void ValueCounts::lay_classes() {
    std::transform(listed_.begin(), listed_.end(), workspace_.classes.begin(), [](const CountedValue& each) {
        return EqualClass{each.value, 0.0, 0, each.code, each.count};
    });
    all_ = Survivors::of_classes(workspace_, static_cast<std::uint32_t>(listed_.size()));
    all_->weigh(scale_);
}

// The draw's place if the tokens that are not listed have this mass. Nothing: the nucleus reaches among them.
std::optional<ValueCounts::Place> ValueCounts::place_with(Mass outside) {
    if (!all_) lay_classes();
    Survivors survivors = *all_;
    if (!chain_.apply(survivors, {true, true, true, false}, {outside, outside})) return std::nullopt;
    const Survivors::Place drawn = survivors.place_past(draw_target(random_, survivors.total()));
    const Place place = {drawn.of->value, drawn.of->begin, drawn.index};
    // The next mass may keep more of the class that was cut; a temperature after the filter weighed all anew.
    const std::size_t cut = survivors.classes().size() - 1;
    workspace_.classes[cut].size = listed_[cut].count;
    if (survivors.scale() != scale_) all_.reset();
    return place;
}

TotalMass ValueCounts::outside_by_chords() const {
    const double all = total_chords(row_, maximum_, scale_, workspace_.chords);
    const ChordOf chord_of(maximum_, scale_);
    double rest = all;
    for (const CountedValue& each : listed_) rest -= each.count * chord_of(each.value);
    const double error = all * kChordError + kMassError;
    return {whole(rest / kChordExcess - error), whole(rest + error)};
}

TotalMass ValueCounts::outside_by_weight() const {
    const double all = total_weight({row_, {}, maximum_, scale_}, workspace_.weighed);
    const Weigher weigher = {maximum_, scale_};
    double rest = all;
    for (const CountedValue& each : listed_) rest -= each.count * weigher.weight(each.value);
    const double error = all * kWeightError + kMassError;
    return {whole(rest - error), whole(rest + error)};
}

// Where both ends of what is not known put the draw. A larger mass moves it only on, so that all between them
// put it there too.
std::optional<ValueCounts::Place> ValueCounts::place_within(const TotalMass& outside) {
    const auto nearest = place_with(outside.low);
    return nearest && nearest == place_with(outside.high) ? nearest : std::nullopt;
}

std::optional<ValueCounts::Place> ValueCounts::place_in_head() {
    if (chords_reach(maximum_, scale_)) {
        const TotalMass outside = outside_by_chords();
        const auto nearest = place_with(outside.low);
        if (!nearest || nearest == place_with(outside.high)) return nearest;
    }
    return place_within(outside_by_weight());
}

// From the tokens of the best blocks alone.
std::optional<Candidate> ValueCounts::draw_from_head(std::uint32_t blocks) {
    const float floor = floor_for_blocks(workspace_.block_max.first(row_.blocks), blocks);
    const auto found = workspace_.found.first(find_at_least(row_, floor, workspace_));
    for (const Found& each : found) ++workspace_.value_counts[code_of(bf16_code(each.value))];
    list_classes(rank_of(code_of(bf16_code(static_cast<float>(maximum_)))), rank_of(bf16_code(floor)));
    workspace_.answer_space.candidates += static_cast<std::uint32_t>(found.size());
    auto place = listed_.empty() ? std::nullopt : place_in_head();
    if (!place) return std::nullopt;
    for (const Found& each : found) {
        const bool equal = static_cast<double>(each.value) == place->value;
        if (equal && place->index-- == 0) return Candidate{place->value, each.token};
    }
    return std::nullopt;
}

std::optional<Candidate> ValueCounts::draw_from_all() {
    count_all(row_, workspace_.value_counts);
    list_classes(0, kRanks - 1);
    workspace_.answer_space.candidates += workspace_.vocab;
    const auto place = listed_.empty() ? std::nullopt : place_with(0);
    if (!place) return std::nullopt;
    const auto token = find_in_row(row_, place->code, place->index);
    if (!token || *token >= workspace_.vocab) return std::nullopt;
    return Candidate{place->value, *token};
}

std::optional<Candidate> ValueCounts::draw() {
    workspace_.answer_space.path = Path::counts;
    maximum_ = static_cast<double>(largest_of(workspace_.block_max.first(row_.blocks)));
    // Past a few hundred blocks it is cheaper to count the whole row than to look for its best tokens.
    constexpr std::uint32_t kHeads[] = {96, 400};
    for (const std::uint32_t blocks : kHeads) {
        if (row_.dtype != proto::Dtype::bf16 || blocks >= row_.blocks / 2) break;
        if (const auto drawn = draw_from_head(blocks)) return drawn;
    }
    return draw_from_all();
}

}  // namespace croupier::sampler
