#include "decide_input.h"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>

#include "proto/dtype.h"
#include "proto/param_ranges.h"
#include "proto/sampling.h"
#include "sampler/blocked_row.h"

namespace croupier::fuzz {
namespace {

using proto::Dtype;
using proto::SamplingParams;

std::uint32_t code_of_whole_quarters(int quarters, Dtype dtype) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(quarters) * 0.25F);
    if (dtype == Dtype::fp32) return bits;
    if (dtype == Dtype::bf16) return bits >> 16U;
    constexpr std::uint32_t kRebias = 112U << 10U;
    const std::uint32_t magnitude = quarters == 0 ? 0U : ((bits & 0x7FFFFFFFU) >> 13U) - kRebias;
    return magnitude | (bits >> 31U) << 15U;
}

std::uint32_t code_of_nothing(Dtype dtype) {
    if (dtype == Dtype::fp16) return 0xFC00U;
    return dtype == Dtype::bf16 ? 0xFF80U : 0xFF800000U;
}

using sampler::kBlock;

class Builder {
  public:
    Builder(const std::uint8_t* data, std::size_t size, DecideInput& out) : data_(data, size), out_(out) {}

    void build_row();
    void build_request();

  private:
    // False when the bytes are used up: then all that is rare stays away.
    bool one_in(std::uint32_t odds) { return up_to(odds - 1) == odds - 1; }
    std::uint32_t up_to(std::uint32_t most) { return data_.ConsumeIntegralInRange<std::uint32_t>(0, most); }

    void share_out();
    std::vector<std::uint32_t> logit_codes();
    void place(std::size_t slice, const std::vector<std::uint32_t>& codes);
    void order_blocks(std::size_t slice, bool shuffled);
    std::uint32_t entry_of(std::size_t slice, std::uint32_t id) const;
    void summarise(std::size_t slice);
    void break_view();

    void build_params();
    double real_within(const proto::Interval& range);
    std::int64_t whole_within(const proto::Interval& range);
    template <typename T>
    T value_within(const proto::Interval& range);
    template <typename T>
    T any_value();
    void build_order();
    std::vector<std::int32_t> tokens(std::uint32_t most);
    std::vector<std::int32_t> lists(std::uint32_t most);
    void build_mask();

    FuzzedDataProvider data_;
    DecideInput& out_;
};

// Slices may be empty, begin inside a block, and the last may reach beyond the vocabulary.
void Builder::share_out() {
    const std::uint32_t slices = one_in(16) ? sampler::kMaxSlices : 1 + up_to(4);
    std::uint32_t first = 0;
    for (std::uint32_t i = 0; i < slices; ++i) {
        const std::uint32_t left = out_.vocab - first;
        const std::uint32_t entries = i + 1 == slices ? left + (one_in(3) ? up_to(150) : 0) : up_to(left);
        out_.slices.push_back({nullptr, entries, first});
        first += entries;
    }
    out_.elements.resize(slices);
    out_.blocks.resize(slices);
    out_.places.resize(slices);
    out_.maxima.resize(slices);
}

// Few different ones, so that ties are common.
std::vector<std::uint32_t> Builder::logit_codes() {
    const std::uint32_t bits = proto::element_bytes(out_.row.dtype) * 8;
    std::vector<std::uint32_t> palette(1 + up_to(15));
    for (std::uint32_t& code : palette) {
        const std::uint32_t kind = up_to(7);
        if (kind == 0) {
            code = up_to(std::numeric_limits<std::uint32_t>::max() >> (32 - bits));
        } else if (kind == 1) {
            code = code_of_nothing(out_.row.dtype);
        } else {
            code = code_of_whole_quarters(data_.ConsumeIntegral<std::int8_t>(), out_.row.dtype);
        }
    }
    const std::uint32_t step = up_to(255);
    std::vector<std::uint32_t> codes(out_.vocab);
    for (std::uint32_t i = 0; i < out_.vocab; ++i) codes[i] = palette[std::size_t{i} * step % palette.size()];
    for (std::uint32_t changes = up_to(64); changes > 0; --changes) {
        codes[up_to(out_.vocab - 1)] = palette[up_to(15) % palette.size()];
    }
    return codes;
}

void Builder::order_blocks(std::size_t index, bool shuffled) {
    sampler::Slice& slice = out_.slices[index];
    std::vector<std::uint32_t>& blocks = out_.blocks[index];
    const std::uint32_t first = slice.first_id / kBlock;
    const std::uint32_t end = slice.first_id + slice.entries;
    for (std::uint32_t b = first; slice.entries > 0 && b * kBlock < end; ++b) blocks.push_back(b);
    std::minstd_rand generator(shuffled ? up_to(0xFFFF) : 0);
    if (shuffled) std::shuffle(blocks.begin(), blocks.end(), generator);
    std::vector<std::uint32_t>& places = out_.places[index];
    places.resize(blocks.size());
    for (std::uint32_t place = 0; place < blocks.size(); ++place) places[blocks[place] - first] = place;
    if (!shuffled) return;
    slice.blocks = blocks.data();
    slice.places = places.data();
}

std::uint32_t Builder::entry_of(std::size_t index, std::uint32_t id) const {
    const std::uint32_t first = out_.slices[index].first_id / kBlock;
    return out_.places[index][id / kBlock - first] * kBlock + id % kBlock;
}

// What is not of the column, and the padding, is NaN.
void Builder::place(std::size_t index, const std::vector<std::uint32_t>& codes) {
    sampler::Slice& slice = out_.slices[index];
    const sampler::RowView& row = out_.row;
    const std::size_t bytes = proto::element_bytes(row.dtype);
    const std::size_t tiles = (out_.blocks[index].size() * kBlock + row.tile - 1) / row.tile;
    std::vector<std::byte>& elements = out_.elements[index];
    elements.assign(tiles * row.columns * row.tile * bytes, std::byte{0xFF});
    for (std::uint32_t id = slice.first_id; id < std::min(slice.first_id + slice.entries, out_.vocab); ++id) {
        const std::uint32_t i = entry_of(index, id);
        const std::size_t at =
            (std::size_t{i} / row.tile * row.columns + row.column) * row.tile + i % row.tile;
        std::memcpy(elements.data() + at * bytes, &codes[id], bytes);
    }
    slice.elements = elements.empty() ? nullptr : elements.data();
}

void Builder::summarise(std::size_t index) {
    sampler::Slice& slice = out_.slices[index];
    const sampler::RowView& row = out_.row;
    const std::size_t bytes = proto::element_bytes(row.dtype);
    const std::size_t tiles = (out_.blocks[index].size() * kBlock + row.tile - 1) / row.tile;
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float>& maxima = out_.maxima[index];
    const std::size_t stride = tiles + index % 3;
    maxima.assign(stride * row.columns, kNan);
    std::fill_n(maxima.data() + row.column * stride, tiles, -std::numeric_limits<float>::infinity());
    for (std::uint32_t id = slice.first_id; id < std::min(slice.first_id + slice.entries, out_.vocab); ++id) {
        const std::uint32_t i = entry_of(index, id);
        const std::size_t tile = i / row.tile * std::size_t{row.columns} + row.column;
        std::uint32_t code = 0;
        std::memcpy(&code, out_.elements[index].data() + (tile * row.tile + i % row.tile) * bytes, bytes);
        const float value = sampler::value_of_code(row.dtype, code);
        float& maximum = maxima[row.column * stride + i / row.tile];
        const bool above = !(value <= maximum);  // a NaN is, and stays
        if (above && !std::isnan(maximum)) maximum = value;
    }
    slice.summaries = {maxima.data(), static_cast<std::uint32_t>(stride)};
}

void Builder::break_view() {
    sampler::Slice& last = out_.slices.back();
    const std::array<void (*)(sampler::RowView&, sampler::Slice&), 6> faults = {
        [](sampler::RowView& row, sampler::Slice&) { row.tile = 0; },
        [](sampler::RowView& row, sampler::Slice&) { row.column = row.columns; },
        [](sampler::RowView& row, sampler::Slice& slice) { row.vocab = slice.first_id + slice.entries + 1; },
        [](sampler::RowView& row, sampler::Slice&) { row.dtype = static_cast<Dtype>(3); },
        [](sampler::RowView&, sampler::Slice& slice) { ++slice.first_id; },
        [](sampler::RowView& row, sampler::Slice& slice) { slice.entries = row.vocab - slice.first_id - 1; },
    };
    faults[up_to(faults.size() - 1)](out_.row, last);
}

void Builder::build_row() {
    constexpr std::array kTiles = {64U, 64U, 64U, 1U, 3U, 16U, 128U, 1000U};
    out_.instruction_set = data_.ConsumeIntegral<std::uint8_t>();
    out_.vocab = 1 + (one_in(4) ? up_to(kMaxVocab - 1) : up_to(149));
    sampler::RowView& row = out_.row;
    row.dtype = static_cast<Dtype>(up_to(2));
    row.vocab = out_.vocab;
    row.tile = kTiles[up_to(kTiles.size() - 1)];
    row.columns = 1 + up_to(3);
    row.column = up_to(row.columns - 1);
    share_out();
    const std::vector<std::uint32_t> codes = logit_codes();
    const bool ordered = one_in(2);
    const bool summarised = one_in(2);
    for (std::size_t i = 0; i < out_.slices.size(); ++i) {
        order_blocks(i, ordered && !one_in(8));
        place(i, codes);
        if (summarised && !one_in(16)) summarise(i);
    }
    row.slices = out_.slices;
    if (one_in(64)) break_view();
}

double Builder::real_within(const proto::Interval& range) {
    constexpr std::array kKnown = {0.0, 1.0, 0.5, 1e-12, 1e-6, 0.01, 0.1, 0.9, 0.999999, 2.0};
    constexpr double kFarthest = 100.0;  // where a range has no end
    const double low = std::max(range.low, -kFarthest);
    const double high = std::min(range.high, kFarthest);
    if (one_in(3)) return std::clamp(kKnown[up_to(kKnown.size() - 1)], low, high);
    const double share = up_to(0xFFFF) / 65535.0;
    return low + (high - low) * share * share * share;
}

// What counts tokens acts alike beyond the lengths of the history and of the row.
std::int64_t Builder::whole_within(const proto::Interval& range) {
    const std::uint32_t reach = one_in(2) ? 12U : out_.vocab + 3;
    const double most = std::min(range.high - range.low, static_cast<double>(reach));
    return static_cast<std::int64_t>(range.low) + up_to(static_cast<std::uint32_t>(most));
}

template <typename T>
T Builder::value_within(const proto::Interval& range) {
    if constexpr (std::is_same_v<T, double>) {
        return real_within(range);
    } else {
        return static_cast<T>(whole_within(range));
    }
}

// Mostly outside its range.
template <typename T>
T Builder::any_value() {
    const auto bits = data_.ConsumeIntegral<std::uint64_t>();
    if constexpr (std::is_same_v<T, double>) {
        return std::bit_cast<double>(bits);
    } else {
        return static_cast<T>(bits);
    }
}

void Builder::build_order() {
    proto::StepOrder& order = out_.params.order;
    constexpr auto kSteps = static_cast<std::uint32_t>(proto::Step::count_) - 1;
    std::array<proto::Step, kSteps> steps;
    std::copy_n(proto::kDefaultOrder.begin(), kSteps, steps.begin());
    const std::uint32_t used = 1 + up_to(kSteps - 1);
    for (std::uint32_t i = 0; i < used; ++i) {
        std::swap(steps[i], steps[i + up_to(kSteps - 1 - i)]);
        order[i] = steps[i];
    }
    if (one_in(16)) order[up_to(proto::kOrderSteps - 1)] = static_cast<proto::Step>(up_to(255));
}

void Builder::build_params() {
    SamplingParams& params = out_.params;
    const auto changed = data_.ConsumeIntegral<std::uint64_t>();
    std::uint32_t count = 0;
    proto::for_each_sampling_field([&]<typename T>(const proto::SamplingField<T>& field) {
        if ((changed >> count++ & 1U) != 0) params.*field.member = value_within<T>(field.allowed);
    });
    params.seed = data_.ConsumeIntegral<std::uint64_t>();
    if ((changed >> 63U & 1U) != 0) build_order();
    if (params.mirostat != 0) params.adaptive_target = -1.0;
    if (params.loop_count < 2) params.loop_max_period = 0;
    if (std::uint32_t{params.loop_max_period} * params.loop_count > proto::kMaxLoopTokens)
        params.loop_max_period = static_cast<std::uint16_t>(proto::kMaxLoopTokens / params.loop_count);
    params.loop_min_period = std::min(params.loop_min_period, params.loop_max_period);
    if (!one_in(64)) return;
    std::uint32_t before = up_to(count - 1);
    proto::for_each_sampling_field([&]<typename T>(const proto::SamplingField<T>& field) {
        if (before-- == 0) params.*field.member = any_value<T>();
    });
}

std::vector<std::int32_t> Builder::tokens(std::uint32_t most) {
    std::vector<std::int32_t> ids(up_to(most));
    // Few different ones repeat.
    const std::uint32_t last = std::min(out_.vocab - 1, one_in(2) ? 3U : kMaxVocab);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(up_to(last));
    if (!ids.empty() && one_in(64)) ids[up_to(255) % ids.size()] = data_.ConsumeIntegral<std::int32_t>();
    return ids;
}

std::vector<std::int32_t> Builder::lists(std::uint32_t most) {
    std::vector<std::int32_t> all;
    for (std::uint32_t count = up_to(most); count > 0; --count) {
        const std::vector<std::int32_t> words = tokens(4);
        if (words.empty()) continue;
        all.push_back(static_cast<std::int32_t>(words.size()));
        all.insert(all.end(), words.begin(), words.end());
    }
    if (!all.empty() && one_in(64)) all[up_to(255) % all.size()] = data_.ConsumeIntegral<std::int32_t>();
    return all;
}

void Builder::build_mask() {
    out_.mask.resize((out_.vocab + 31) / 32);
    for (std::uint32_t& word : out_.mask) {
        word = one_in(2) ? std::numeric_limits<std::uint32_t>::max() : data_.ConsumeIntegral<std::uint32_t>();
    }
    if (one_in(32)) out_.mask.pop_back();
}

void Builder::build_request() {
    build_params();
    out_.prompt = tokens(kMaxHistory / 2);
    out_.output = tokens(kMaxHistory / 2);
    out_.stop_ids = tokens(3);
    if (one_in(6)) out_.allowed_ids = tokens(20);
    if (one_in(3)) out_.bad_words = lists(4);
    if (one_in(3)) out_.breakers = lists(4);
    for (const std::int32_t token : tokens(5)) {
        const auto bias = static_cast<float>(data_.ConsumeIntegral<std::int8_t>());
        out_.bias.push_back({token, one_in(2) ? bias : bias * 0.01F});
    }
    if (one_in(3)) build_mask();
    if (one_in(4)) {
        out_.hot_blocks.resize(up_to(one_in(32) ? 40 : 8));
        for (std::uint32_t& block : out_.hot_blocks) block = up_to(12);
    }
    sampler::Request& request = out_.request;
    request.params = &out_.params;
    request.bias = out_.bias;
    request.stop_ids = out_.stop_ids;
    request.allowed_ids = out_.allowed_ids;
    request.bad_words = out_.bad_words;
    request.dry_breakers = out_.breakers;
    request.prompt = out_.prompt;
    request.output = out_.output;
    request.mask = out_.mask;
    request.hot_blocks = out_.hot_blocks;
    request.max_length = one_in(16) ? up_to(kMaxHistory) : kMaxHistory + 1 + up_to(8);
    request.random = data_.ConsumeIntegral<std::uint32_t>();
    request.position_shift = up_to(1000);
    if (one_in(3)) request.feedback = {static_cast<double>(up_to(100)) * 0.1, static_cast<double>(up_to(4))};
    if (one_in(32)) request.feedback = {any_value<double>(), any_value<double>()};
    request.wants_support = one_in(2);
}

}  // namespace

DecideInput::DecideInput(const std::uint8_t* data, std::size_t size) {
    Builder builder(data, size, *this);
    builder.build_row();
    builder.build_request();
}

}  // namespace croupier::fuzz
