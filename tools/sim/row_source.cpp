#include "tools/sim/row_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

#include "tools/sim/keyed_hash.h"
#include "tools/sim/logit_codes.h"

namespace croupier::tools::sim {
namespace {

enum KeySpace : std::uint64_t { kPoolKey = 4, kRowKey = 5 };

constexpr std::uint32_t kBaseRows = 32;
constexpr std::uint32_t kChunk = 4096;
constexpr std::uint32_t kHeads = 16;
constexpr double kBulkDeviation = 2.5;

// A sum of four 16-bit uniforms: near enough to a bell, and exact integers, the same with every libm.
double bell_shaped(std::uint64_t bits) {
    double sum = 0.0;
    for (unsigned shift = 0; shift < 64; shift += 16) sum += static_cast<double>((bits >> shift) & 0xFFFFU);
    return (sum - 131070.0) / 37837.2;
}

// How far the likeliest token stands above the bulk: the model is mostly sure, sometimes torn, at times lost
// (the real rows that the design was checked against have nuclei of 1 to 100,000 tokens).
double height_of_best(KeyedStream& random) {
    const double u = random.unit();
    if (u < 0.70) return 19.0 + 5.0 * random.unit();
    if (u < 0.90) return 16.0 + 3.0 * random.unit();
    return 13.0 + 3.0 * random.unit();
}

}  // namespace

RowSource::RowSource(const SimOptions& options, const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary),
      seed_(options.seed),
      element_bytes_(proto::element_bytes(options.dtype)),
      generated_(options.logits == "generated") {
    if (generated_) {
        generate_pool();
    } else {
        load_pool(options);
    }
}

void RowSource::set_value(std::byte* entries, std::uint32_t place, float value) const {
    std::byte* target = entries + std::size_t{place} * element_bytes_;
    if (vocabulary_->geometry.dtype == proto::Dtype::fp32) {
        std::memcpy(target, &value, sizeof(value));
        return;
    }
    const std::uint16_t code =
        vocabulary_->geometry.dtype == proto::Dtype::bf16 ? bf16_code(value) : fp16_code(value);
    std::memcpy(target, &code, sizeof(code));
}

void RowSource::generate_pool() {
    const std::uint32_t vocab = vocabulary_->geometry.vocab;
    rows_ = kBaseRows;
    pool_.resize(std::size_t{rows_} * vocab * element_bytes_);
    for (std::uint32_t place = 0; place < vocab; ++place) {
        // Early places are common tokens: hotness orders put them there, and so do most tokenizers.
        const double level = -0.35 * std::log2(1.0 + static_cast<double>(place) / 1024.0);
        for (std::uint32_t row = 0; row < rows_; ++row) {
            const double noise = kBulkDeviation * bell_shaped(key_of(seed_, kPoolKey, row, place));
            set_value(pool_.data() + std::size_t{row} * vocab * element_bytes_, place,
                      static_cast<float>(level + noise));
        }
    }
}

void RowSource::load_pool(const SimOptions& options) {
    const std::uint32_t vocab = vocabulary_->geometry.vocab;
    if (options.rows_vocab != 0 && options.rows_vocab != vocab) {
        throw std::runtime_error("--rows-vocab is " + std::to_string(options.rows_vocab) +
                                 " and --vocab is " + std::to_string(vocab) +
                                 ": rows from a file need the two to be equal");
    }
    std::ifstream file(options.logits, std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error("cannot read the rows in " + options.logits);
    const auto bytes = static_cast<std::uint64_t>(file.tellg());
    const std::uint64_t row_bytes = std::uint64_t{vocab} * sizeof(std::uint16_t);
    if (bytes == 0 || bytes % row_bytes != 0) {
        throw std::runtime_error(options.logits + " has " + std::to_string(bytes) +
                                 " bytes, which is no multiple of " + std::to_string(row_bytes) +
                                 ", a bf16 row of " + std::to_string(vocab) + " entries");
    }
    rows_ = static_cast<std::uint32_t>(bytes / row_bytes);
    pool_.resize(std::size_t{rows_} * vocab * element_bytes_);
    std::vector<std::uint16_t> codes(vocab);
    file.seekg(0);
    for (std::uint32_t row = 0; row < rows_; ++row) {
        if (!file.read(reinterpret_cast<char*>(codes.data()), static_cast<std::streamsize>(row_bytes))) {
            throw std::runtime_error("cannot read row " + std::to_string(row) + " of " + options.logits);
        }
        for (std::uint32_t id = 0; id < vocab; ++id) {
            set_value(pool_.data() + std::size_t{row} * vocab * element_bytes_,
                      vocabulary_->place(static_cast<std::int32_t>(id)), bf16_value(codes[id]));
        }
    }
}

void RowSource::copy_generated(std::uint64_t key, std::uint32_t first, std::uint32_t count,
                               std::byte* entries) const {
    for (std::uint32_t place = first; place < first + count;) {
        const std::uint32_t chunk = place / kChunk;
        const std::uint32_t end = std::min((chunk + 1) * kChunk, first + count);
        const auto row = static_cast<std::uint32_t>(key_of(key, chunk) % rows_);
        const std::size_t bytes = std::size_t{end - place} * element_bytes_;
        std::memcpy(entries + std::size_t{place - first} * element_bytes_, base(row, place), bytes);
        place = end;
    }
}

void RowSource::raise_heads(const Request& request, std::uint64_t key, std::uint32_t first,
                            std::uint32_t count, std::byte* entries) const {
    KeyedStream random(mix(key));
    const auto set = [&](std::int32_t token, double value) {
        const std::uint32_t place = vocabulary_->place(token);
        if (place - first < count) set_value(entries, place - first, static_cast<float>(value));
    };
    double height = height_of_best(random);
    for (std::uint32_t head = 0; head < kHeads; ++head) {
        const bool theme = random.chance(0.25);
        const std::uint32_t which = random.below(4);
        const auto other = static_cast<std::int32_t>(random.below(vocabulary_->geometry.vocab));
        set(theme ? request.themes[which] : other, height);
        height -= 1.2 * random.unit();
    }
    const double eos = 16.0 + 8.0 * random.unit();
    if (random.chance(1.0 / 32.0)) set(request.params.eos_token_id, eos);
}

void RowSource::write(const Request& request, std::uint32_t position, std::int32_t previous,
                      std::uint32_t first, std::uint32_t count, void* entries) const {
    auto* bytes = static_cast<std::byte*>(entries);
    const std::uint64_t key = key_of(seed_, kRowKey, request.index, position, previous);
    if (generated_) {
        copy_generated(key, first, count, bytes);
        raise_heads(request, key, first, count, bytes);
    } else {
        const auto row = static_cast<std::uint32_t>(key % rows_);
        std::memcpy(bytes, base(row, first), std::size_t{count} * element_bytes_);
    }
    if (position == request.poisoned_at) {
        const auto place = static_cast<std::uint32_t>(key % vocabulary_->geometry.vocab);
        if (place - first < count) set_value(bytes, place - first, std::numeric_limits<float>::quiet_NaN());
    }
}

}  // namespace croupier::tools::sim
