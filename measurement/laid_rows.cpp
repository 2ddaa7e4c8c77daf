#include "measurement/laid_rows.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "proto/logit_codes.h"
#include "sampler/blocked_row.h"
#include "sampler/workspace.h"

namespace croupier::measurement {
namespace {

using proto::Dtype;

constexpr std::uint32_t kBlock = sampler::kBlock;
constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr Dtype kDtypes[] = {Dtype::bf16, Dtype::fp16, Dtype::fp32};

std::uint32_t detail_of(std::uint32_t row, std::uint32_t id) {
    std::uint32_t mixed = (row * 0x9E3779B9U) ^ (id * 0x85EBCA6BU);
    mixed = (mixed ^ (mixed >> 15U)) * 0xC2B2AE35U;
    return mixed >> 16U;
}

float logit_of(Dtype dtype, std::uint16_t code, std::uint32_t row, std::uint32_t id) {
    std::uint32_t bits = std::uint32_t{code} << 16U;
    const bool finite = (code & 0x7F80U) != 0x7F80U;
    if (dtype == Dtype::fp32 && finite) bits |= detail_of(row, id);
    const auto value = std::bit_cast<float>(bits);
    return dtype == Dtype::fp16 ? sampler::value_of_code(dtype, proto::fp16_code(value)) : value;
}

void store(Dtype dtype, float value, std::byte* out) {
    if (dtype == Dtype::fp32) {
        std::memcpy(out, &value, sizeof value);
    } else if (dtype == Dtype::fp16) {
        const std::uint16_t code = proto::fp16_code(value);
        std::memcpy(out, &code, sizeof code);
    } else {
        const auto code = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
        std::memcpy(out, &code, sizeof code);
    }
}

}  // namespace

Ranks ranks_of(const std::string& name) {
    Ranks ranks{name};
    const char* end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data(), end, ranks.count);
    ranks.whole_blocks = std::string(rest, end) == "x64";
    const bool understood = error == std::errc() && (rest == end || ranks.whole_blocks);
    if (!understood || ranks.count == 0 || ranks.count > sampler::kMaxSlices) {
        throw std::runtime_error("ranks is '" + name + "'; allowed: 1 to " +
                                 std::to_string(sampler::kMaxSlices) +
                                 ", or with x64, as in 4x64, to split at multiples of 64");
    }
    return ranks;
}

Dtype dtype_of(const std::string& name) {
    for (const Dtype dtype : kDtypes) {
        if (name == name_of(dtype)) return dtype;
    }
    throw std::runtime_error("dtype is '" + name + "'; allowed: bf16, fp16, fp32");
}

LaidRows::LaidRows(const BenchRows& rows, Dtype dtype, const Ranks& ranks, bool in_step)
    : vocab_(rows.vocab()),
      count_(rows.count()),
      dtype_(dtype),
      in_step_(in_step),
      lines_per_block_(std::size_t{kBlock} * proto::element_bytes(dtype) / sizeof(Line)) {
    cut(ranks);
    lines_.resize(lines_per_row_ * count_);
    maxima_.resize(std::size_t{tiles_per_row_} * count_);
    for (std::uint32_t index = 0; index < count_; ++index) lay(rows.row(index), index);
    for (std::uint32_t index = 0; index < count_; ++index) {
        for (const bool summarised : {false, true}) {
            for (const Part& part : parts_) {
                slices_.push_back(slice_of(part, index));
                if (!summarised) slices_.back().summaries = {};
            }
        }
    }
}

std::size_t LaidRows::line_of(const Part& part, std::uint32_t index, std::uint32_t block) const {
    if (!in_step_) return lines_per_row_ * index + part.first_line + block * lines_per_block_;
    return part.first_line * count_ + (std::size_t{block} * count_ + index) * lines_per_block_;
}

// All columns of a step share a slice.
sampler::Slice LaidRows::slice_of(const Part& part, std::uint32_t index) const {
    const std::uint32_t row = in_step_ ? 0 : index;
    sampler::Slice slice;
    slice.elements = lines_.data() + line_of(part, row, 0);
    slice.entries = part.entries;
    slice.first_id = part.first_id;
    slice.summaries = {maxima_.data() + std::size_t{tiles_per_row_} * row + part.first_tile, tiles_per_row_};
    return slice;
}

// Each rank stores every block that contains one of its ids.
void LaidRows::cut(const Ranks& ranks) {
    const std::uint32_t unit = ranks.whole_blocks ? kBlock : 1;
    const std::uint32_t entries = ((vocab_ + unit - 1) / unit + ranks.count - 1) / ranks.count * unit;
    for (std::uint32_t rank = 0; rank < ranks.count; ++rank) {
        const std::uint32_t first = rank * entries;
        const std::uint32_t blocks = (first + entries + kBlock - 1) / kBlock - first / kBlock;
        parts_.push_back({first, entries, lines_per_row_, tiles_per_row_, blocks});
        lines_per_row_ += blocks * lines_per_block_;
        tiles_per_row_ += blocks;
    }
}

void LaidRows::lay(const std::uint16_t* codes, std::uint32_t index) {
    for (const Part& part : parts_) {
        for (std::uint32_t block = 0; block < part.blocks; ++block) lay_block(codes, index, part, block);
    }
}

void LaidRows::lay_block(const std::uint16_t* codes, std::uint32_t index, const Part& part,
                         std::uint32_t block) {
    const std::uint32_t bytes = proto::element_bytes(dtype_);
    auto* out = reinterpret_cast<std::byte*>(lines_.data() + line_of(part, index, block));
    const std::uint32_t first = (part.first_id / kBlock + block) * kBlock;
    const std::uint32_t end = std::min(part.first_id + part.entries, vocab_);
    float most = kNothing;
    for (std::uint32_t id = first; id < first + kBlock; ++id) {
        const bool own = id >= part.first_id && id < end;
        const float value = own ? logit_of(dtype_, codes[id], index, id) : kNothing;
        store(dtype_, value, out + std::size_t{id - first} * bytes);
        most = std::max(most, value);
    }
    maxima_[std::size_t{tiles_per_row_} * index + part.first_tile + block] = most;
}

sampler::RowView LaidRows::view(std::uint32_t index, bool summarised) const {
    const std::size_t first = (std::size_t{index} * 2 + (summarised ? 1 : 0)) * parts_.size();
    const std::uint32_t columns = in_step_ ? count_ : 1;
    const std::uint32_t column = in_step_ ? index : 0;
    return {dtype_, vocab_, kBlock, columns, column, {slices_.data() + first, parts_.size()}};
}

}  // namespace croupier::measurement
