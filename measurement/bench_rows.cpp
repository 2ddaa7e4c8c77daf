#include "measurement/bench_rows.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "proto/hotness_order.h"

namespace croupier::measurement {
namespace {

float value_of(std::uint16_t code) {
    return std::bit_cast<float>(std::uint32_t{code} << 16U);
}

std::vector<std::uint32_t> all_blocks(std::uint32_t vocab) {
    std::vector<std::uint32_t> blocks(proto::blocks_of(vocab));
    std::iota(blocks.begin(), blocks.end(), 0U);
    return blocks;
}

std::vector<float> tile_maxima(const std::uint16_t* row, std::uint32_t places) {
    std::vector<float> maxima;
    for (std::uint32_t first = 0; first < places; first += proto::kBlockIds) {
        float most = -std::numeric_limits<float>::infinity();
        for (std::uint32_t i = first; i < first + proto::kBlockIds; ++i)
            most = std::max(most, value_of(row[i]));
        maxima.push_back(most);
    }
    return maxima;
}

// Resembles a language model: most logits around -2, and a few much larger ones.
std::vector<std::uint16_t> generate(std::uint32_t vocab, std::uint32_t rows) {
    std::mt19937_64 generator(20261121);
    std::normal_distribution<float> bulk(-2.0F, 2.0F);
    std::exponential_distribution<float> head(0.7F);
    std::vector<std::uint16_t> elements(std::size_t{vocab} * rows);
    for (std::uint16_t& element : elements) {
        const float value = bulk(generator) + (generator() % 256 == 0 ? head(generator) * 2.0F : 0.0F);
        element = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
    }
    return elements;
}

void append_file(const std::string& path, std::uint32_t vocab, std::vector<std::uint16_t>& elements) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error(path + " cannot be read");
    const auto bytes = static_cast<std::size_t>(file.tellg());
    if (bytes == 0 || bytes % (std::size_t{vocab} * 2) != 0) {
        throw std::runtime_error(path + " has " + std::to_string(bytes) +
                                 " bytes, which is not a whole number of rows of " + std::to_string(vocab) +
                                 " bf16 logits (see --vocab)");
    }
    const std::size_t before = elements.size();
    elements.resize(before + bytes / 2);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(elements.data() + before), static_cast<std::streamsize>(bytes));
}

}  // namespace

BenchRows::BenchRows(std::uint32_t vocab, const std::vector<std::uint16_t>& by_id, std::size_t stride,
                     std::vector<std::uint32_t> blocks)
    : vocab_(vocab), blocks_(std::move(blocks)), places_(proto::places_of(blocks_, 0)) {
    const auto rows = static_cast<std::uint32_t>(by_id.size() / stride);
    constexpr std::uint16_t kNothing = 0xFF80;
    elements_.resize(std::size_t{places()} * rows, kNothing);
    for (std::uint32_t index = 0; index < rows; ++index) {
        for (std::uint32_t id = 0; id < vocab; ++id) {
            elements_[std::size_t{places()} * index + place_of(id)] = by_id[stride * index + id];
        }
        maxima_.push_back(tile_maxima(row(index), places()));
    }
    for (std::uint32_t index = 0; index < rows; ++index) {
        sampler::Slice slice{row(index), vocab, 0};
        if (!std::is_sorted(blocks_.begin(), blocks_.end())) {
            slice.blocks = blocks_.data();
            slice.places = places_.data();
        }
        slices_.push_back(slice);
        slice.summaries = {maxima_[index].data(), static_cast<std::uint32_t>(maxima_[index].size())};
        slices_.push_back(slice);
    }
}

BenchRows BenchRows::from_file(const std::vector<std::string>& paths, std::uint32_t vocab) {
    std::vector<std::uint16_t> elements;
    for (const std::string& path : paths) append_file(path, vocab, elements);
    return {vocab, elements, vocab, all_blocks(vocab)};
}

BenchRows BenchRows::generated(std::uint32_t vocab, std::uint32_t rows) {
    return {vocab, generate(vocab, rows), vocab, all_blocks(vocab)};
}

BenchRows BenchRows::in_order(const std::vector<std::uint32_t>& order) const {
    return {vocab_, elements_, places(), order};
}

std::span<const std::uint32_t> BenchRows::hot_blocks(std::uint32_t hot) const {
    return std::span(blocks_).first(std::min<std::size_t>(proto::blocks_of(hot), blocks_.size()));
}

sampler::RowView BenchRows::view(std::uint32_t index, bool summarised) const {
    return {proto::Dtype::bf16, vocab_, kTile, 1, 0, {&slices_[index * 2 + (summarised ? 1 : 0)], 1}};
}

}  // namespace croupier::measurement
