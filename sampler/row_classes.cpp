#include "sampler/row_classes.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "sampler/canonical_order.h"
#include "sampler/changed_tokens.h"
#include "sampler/code_range.h"
#include "sampler/row_mask.h"

namespace croupier::sampler {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr std::uint32_t kRanks = 0x10000U;

// -0 is the same value as +0.
std::uint32_t class_code(std::uint32_t element) {
    return element == kSignCode ? 0U : element;
}

// Ranks ascend as values descend. It is its own inverse.
std::uint32_t rank_of(std::uint32_t code) {
    return code < kSignCode ? kSignCode - 1 - code : code;
}

// How many ranks are looked at together: most hold nothing, those of values near 0 above all.
constexpr std::uint32_t kChunk = 64;

bool chunk_is_empty(std::span<const std::uint32_t> counts, std::uint32_t rank) {
    const std::uint32_t* const first = &counts[std::min(rank_of(rank), rank_of(rank + kChunk - 1))];
    std::uint32_t any = 0;
    for (std::uint32_t i = 0; i < kChunk; ++i) any |= first[i];
    return any == 0;
}

// How many bits of an element stand below its code here.
unsigned below_code(proto::Dtype dtype) {
    return dtype == proto::Dtype::fp32 ? 16 : 0;
}

template <class Code>
void count_block(const Code* elements, std::uint64_t allowed, std::uint32_t* counts) {
    constexpr unsigned kBelow = (sizeof(Code) - 2) * 8;
    if (allowed == ~std::uint64_t{0}) {
        for (std::uint32_t entry = 0; entry < kBlock; ++entry) ++counts[elements[entry] >> kBelow];
    } else {
        for (; allowed != 0; allowed &= allowed - 1) ++counts[elements[std::countr_zero(allowed)] >> kBelow];
    }
}

}  // namespace

// By their upper 16 bits. A value that follows itself would wait for its own counter; in a row of logits few
// do.
void RowClasses::count_codes() {
    std::uint32_t* const counts = workspace_.value_counts.data();
    for (const BlockRun& run : row_.runs) {
        for (std::uint32_t i = 0; i < run.blocks; ++i) {
            const std::byte* const elements = run.block(i);
            const std::uint64_t allowed = allowed_in_block(request_.mask, run.first_block + i);
            if (row_.dtype == proto::Dtype::fp32) {
                count_block(reinterpret_cast<const std::uint32_t*>(elements), allowed, counts);
            } else {
                count_block(reinterpret_cast<const std::uint16_t*>(elements), allowed, counts);
            }
        }
    }
}

// Takes what adjustments move from the count of its code.
void RowClasses::list_changed() {
    const std::span<std::uint32_t> counts = workspace_.value_counts;
    counts[0] += std::exchange(counts[kSignCode], 0U);
    visit_changed_once(adjust_, on_, row_, workspace_, [&](std::uint32_t token, float raw, double adjusted) {
        // Written so that a NaN, which a writer's maxima may hide, does not move: it has no place in an
        // order.
        const bool moves = adjusted < static_cast<double>(raw) || adjusted > static_cast<double>(raw);
        if (adjust_.masked(token) || !moves) return;
        std::uint32_t code = 0;
        std::memcpy(&code, row_.element(token), proto::element_bytes(row_.dtype));
        // A row that is overwritten during the decision may hold another value now than was counted.
        std::uint32_t& count = counts[class_code(code >> below_code(row_.dtype))];
        count -= count > 0 ? 1 : 0;
        note_moved({adjusted, raw, token, 0.0F, 0.0F});
    });
}

void RowClasses::note_moved(const ChangedToken& token) {
    workspace_.changed[changed_++] = token;
    workspace_.moved[token.token / 64] |= std::uint64_t{1} << (token.token % 64);
}

RowClasses::~RowClasses() {
    for (const ChangedToken& each : changed()) {
        workspace_.moved[each.token / 64] = 0;
        workspace_.dropped[each.token / 64] = 0;
    }
}

// Calls visit(code, count) for each code of a finite value that was counted, best first. The counts are all
// zero again afterwards.
template <class Visit>
void RowClasses::visit_counted(Visit visit) {
    const std::span<std::uint32_t> counts = workspace_.value_counts;
    const std::uint32_t nothing = negative_infinity_code(row_.dtype) >> below_code(row_.dtype);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        while (rank < kRanks && rank % kChunk == 0 && chunk_is_empty(counts, rank)) rank += kChunk;
        if (rank >= kRanks) break;
        const std::uint32_t code = rank_of(rank);
        const std::uint32_t count = std::exchange(counts[code], 0U);
        if (count > 0 && code < nothing) visit(code, count);
    }
}

// The tokens that were changed stand in classes of their own, or join those of their new value.
void RowClasses::list_exact() {
    std::uint32_t counted_values = 0;
    visit_counted([&](std::uint32_t code, std::uint32_t count) {
        workspace_.counted_values[counted_values++] = {static_cast<double>(value_of_code(row_.dtype, code)),
                                                       count};
    });
    const auto moved = workspace_.candidates.first(changed_);
    std::transform(changed().begin(), changed().end(), moved.begin(), [](const ChangedToken& each) {
        return Candidate{each.adjusted, each.token};
    });
    sort_canonically(workspace_, changed_);
    const auto add = [&](double value, std::uint32_t members) {
        if (members == 0 || value == kNothing || classes_ == workspace_.classes.size()) return;
        if (classes_ > 0 && workspace_.classes[classes_ - 1].value == value) {
            workspace_.classes[classes_ - 1].size += members;
            workspace_.classes[classes_ - 1].whole += members;
        } else {
            workspace_.classes[classes_++] = class_of(value, 0, members, members);
        }
    };
    std::size_t next = 0;
    for (const CountedValue& each : workspace_.counted_values.first(counted_values)) {
        while (next < moved.size() && moved[next].value > each.value) add(moved[next++].value, 1);
        add(each.value, each.count);
    }
    while (next < moved.size()) add(moved[next++].value, 1);
}

void RowClasses::list_mixed() {
    for (const ChangedToken& each : changed()) {
        if (each.adjusted > -std::numeric_limits<double>::infinity())
            ++workspace_.value_counts[upper_code_of(each.adjusted)];
    }
    visit_counted([&](std::uint32_t code, std::uint32_t count) {
        if (classes_ == workspace_.classes.size()) return;
        workspace_.counted_codes[codes_++] = static_cast<std::uint16_t>(code);
        EqualClass& made = workspace_.classes[classes_++];
        made = class_of(most_of_upper_code(code), code, count, count);
        made.least = least_of_upper_code(code);
    });
}

Survivors RowClasses::list() {
    count_codes();
    list_changed();
    row_.dtype == proto::Dtype::fp32 ? list_mixed() : list_exact();
    workspace_.answer_space.candidates += workspace_.vocab;
    return Survivors::of_classes(workspace_, classes_, *this);
}

// Whether a token of this value that did not move was left by the filters before a step that adjusted.
bool RowClasses::stands(double value, std::uint32_t token) const {
    const auto keeps = [&](const Cut& cut) {
        return cut.kept.value != value || (token >= cut.kept.first && token <= cut.kept.last);
    };
    return value >= lowest_ && value <= highest_ && std::all_of(cuts().begin(), cuts().end(), keeps);
}

// The ids of all tokens of this value, in no particular order.
std::span<std::uint32_t> RowClasses::list_members(double value) {
    const std::span<std::uint32_t> members = workspace_.class_order;
    std::uint32_t count = 0;
    const auto take = [&](std::uint32_t token) {
        // A row that is overwritten during the decision may hold more.
        if (count < members.size()) members[count++] = token;
    };
    for (std::uint32_t b = 0; b < row_.blocks; ++b) {
        if (static_cast<double>(workspace_.block_max[b]) < value) continue;
        const std::byte* elements = row_.block(b);
        const std::uint64_t allowed = allowed_in_block(request_.mask, b) & ~workspace_.moved[b];
        for (std::uint32_t i = 0; i < kBlock && b * kBlock + i < row_.vocab; ++i) {
            const bool equal = static_cast<double>(row_.value_in(elements, i)) == value;
            if (equal && (allowed >> i & 1U) != 0 && stands(value, b * kBlock + i)) take(b * kBlock + i);
        }
    }
    for (const ChangedToken& each : changed()) {
        if (each.adjusted == value) take(each.token);
    }
    return members.first(count);
}

// Found once for a class: in a row of equal logits every token asks.
const RowClasses::KeptPart& RowClasses::kept_part(const EqualClass& of) {
    const auto parts = std::span(kept_parts_).first(std::min<std::size_t>(known_parts_, kept_parts_.size()));
    const auto known = std::find_if(parts.begin(), parts.end(),
                                    [&](const KeptPart& each) { return each.value == of.value; });
    if (known != parts.end()) return *known;
    const auto members = list_members(of.value);
    const auto id_at = [&](std::uint32_t member) {
        if (members.empty()) return std::uint32_t{0};
        const auto last = static_cast<std::uint32_t>(members.size() - 1);
        const auto place = members.begin() + static_cast<std::ptrdiff_t>(std::min(member, last));
        std::nth_element(members.begin(), place, members.end());
        return *place;
    };
    KeptPart& part = kept_parts_[known_parts_++ % kept_parts_.size()];
    part = {of.value, id_at(of.begin), id_at(of.begin + of.size - 1)};
    return part;
}

bool RowClasses::holds(const Survivors& left, const Candidate& candidate) {
    const std::uint64_t bit = std::uint64_t{1} << (candidate.token % 64);
    if ((workspace_.dropped[candidate.token / 64] & bit) != 0) return false;
    if (!is_moved(candidate.token) && !stands(candidate.value, candidate.token)) return false;
    const auto classes = left.classes();
    const auto found = class_at(classes, candidate.value);
    if (found == classes.end() || found->value < candidate.value) return false;
    if (found->size == found->whole) return true;
    const KeptPart& part = kept_part(*found);
    return candidate.token >= part.first && candidate.token <= part.last;
}

}  // namespace croupier::sampler
