#include "tools/decide_bench/bench_rows.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

namespace croupier::tools {
namespace {

constexpr std::uint32_t kTile = 64;

float value_of(std::uint16_t code) {
    return std::bit_cast<float>(std::uint32_t{code} << 16U);
}

std::vector<float> tile_maxima(const std::uint16_t* row, std::uint32_t vocab) {
    std::vector<float> maxima;
    for (std::uint32_t first = 0; first < vocab; first += kTile) {
        float most = -std::numeric_limits<float>::infinity();
        for (std::uint32_t i = first; i < std::min(first + kTile, vocab); ++i)
            most = std::max(most, value_of(row[i]));
        maxima.push_back(most);
    }
    return maxima;
}

// Log-ranks spread like a language model's: a bulk around -2, and a head that grows logarithmically.
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
                                 " bytes, which are no whole rows of " + std::to_string(vocab) +
                                 " bf16 logits (see --vocab)");
    }
    const std::size_t before = elements.size();
    elements.resize(before + bytes / 2);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(elements.data() + before), static_cast<std::streamsize>(bytes));
}

}  // namespace

BenchRows::BenchRows(std::uint32_t vocab, std::vector<std::uint16_t> elements, std::uint32_t rows,
                     std::vector<std::int32_t> order)
    : vocab_(vocab), elements_(std::move(elements)), order_(std::move(order)) {
    for (std::uint32_t index = 0; index < rows; ++index) maxima_.push_back(tile_maxima(row(index), vocab));
    for (std::uint32_t index = 0; index < rows; ++index) {
        const std::int32_t* ids = order_.empty() ? nullptr : order_.data();
        slices_.push_back({row(index), vocab, 0, ids, {}});
        slices_.push_back({row(index),
                           vocab,
                           0,
                           ids,
                           {maxima_[index].data(), static_cast<std::uint32_t>(maxima_[index].size())}});
    }
}

BenchRows BenchRows::from_file(const std::vector<std::string>& paths, std::uint32_t vocab) {
    std::vector<std::uint16_t> elements;
    for (const std::string& path : paths) append_file(path, vocab, elements);
    const auto rows = static_cast<std::uint32_t>(elements.size() / vocab);
    return {vocab, std::move(elements), rows, {}};
}

BenchRows BenchRows::generated(std::uint32_t vocab, std::uint32_t rows) {
    return {vocab, generate(vocab, rows), rows, {}};
}

BenchRows BenchRows::permuted(const std::vector<std::int32_t>& order) const {
    std::vector<std::uint16_t> elements;
    elements.reserve(elements_.size());
    for (std::uint32_t index = 0; index < count(); ++index) {
        for (const std::int32_t id : order) elements.push_back(row(index)[id]);
    }
    return {vocab_, std::move(elements), count(), order};
}

sampler::RowView BenchRows::view(std::uint32_t index, bool summarised) const {
    return {proto::Dtype::bf16, vocab_, kTile, 1, 0, {&slices_[index * 2 + (summarised ? 1 : 0)], 1}};
}

}  // namespace croupier::tools
