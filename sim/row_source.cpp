#include "sim/row_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

#include "proto/logit_codes.h"
#include "sim/keyed_hash.h"

namespace croupier::sim {
namespace {

constexpr std::uint64_t kPoolKey = 4;
constexpr std::uint32_t kBaseRows = 32;
constexpr std::uint32_t kChunk = 4096;
constexpr double kBulkDeviation = 2.5;

// A sum of four 16-bit uniforms is nearly normal and exact, so it does not depend on libm.
double bell_shaped(std::uint64_t bits) {
    double sum = 0.0;
    for (unsigned shift = 0; shift < 64; shift += 16) sum += static_cast<double>((bits >> shift) & 0xFFFFU);
    return (sum - 131070.0) / 37837.2;
}

}  // namespace

RowSource::RowSource(const SimOptions& options, const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary), element_bytes_(proto::element_bytes(options.dtype)) {
    shape_.seed = options.seed;
    shape_.vocab = options.vocab;
    if (options.logits == "generated") {
        shape_.chunk = kChunk;
        shape_.rows = kBaseRows;
        shape_.raised = raised_tokens(options.vocab);
        generate_pool();
    } else {
        shape_.chunk = options.vocab;
        load_pool(options);
    }
}

std::uint32_t RowSource::raised_id(std::uint32_t number) const {
    if (number == shape_.raised) return shape_.vocab - 1;
    return static_cast<std::uint32_t>(raised_token(shape_.vocab, number));
}

void RowSource::set_value(std::byte* entries, std::uint32_t index, float value) const {
    std::byte* target = entries + std::size_t{index} * element_bytes_;
    if (vocabulary_->geometry.dtype == proto::Dtype::fp32) {
        std::memcpy(target, &value, sizeof(value));
        return;
    }
    const std::uint16_t code =
        vocabulary_->geometry.dtype == proto::Dtype::bf16 ? proto::bf16_code(value) : proto::fp16_code(value);
    std::memcpy(target, &code, sizeof(code));
}

void RowSource::generate_pool() {
    const std::uint32_t vocab = vocabulary_->geometry.vocab;
    pool_.resize(std::size_t{shape_.rows} * vocab * element_bytes_);
    for (std::uint32_t id = 0; id < vocab; ++id) {
        // Common tokens have low ranks, as in hotness orders and most tokenizers.
        const double level = -0.35 * std::log2(1.0 + vocabulary_->rank_of(id) / 1024.0);
        for (std::uint32_t row = 0; row < shape_.rows; ++row) {
            const double noise = kBulkDeviation * bell_shaped(key_of(shape_.seed, kPoolKey, row, id));
            set_value(pool_.data() + std::size_t{row} * vocab * element_bytes_, id,
                      static_cast<float>(level + noise));
        }
    }
    // A raised token's logit depends only on its own feature.
    for (std::uint32_t number = 0; number <= shape_.raised; ++number) {
        for (std::uint32_t row = 0; row < shape_.rows; ++row) {
            set_value(pool_.data() + std::size_t{row} * vocab * element_bytes_, raised_id(number), 0.0F);
        }
    }
}

void RowSource::load_pool(const SimOptions& options) {
    const std::uint32_t vocab = vocabulary_->geometry.vocab;
    if (options.rows_vocab != 0 && options.rows_vocab != vocab) {
        throw std::runtime_error("--rows-vocab is " + std::to_string(options.rows_vocab) +
                                 " and --vocab is " + std::to_string(vocab) +
                                 ": with rows from a file the two must be equal");
    }
    std::ifstream file(options.logits, std::ios::binary | std::ios::ate);
    if (!file) throw std::runtime_error("cannot read the rows in " + options.logits);
    const auto bytes = static_cast<std::uint64_t>(file.tellg());
    const std::uint64_t row_bytes = std::uint64_t{vocab} * sizeof(std::uint16_t);
    if (bytes == 0 || bytes % row_bytes != 0) {
        throw std::runtime_error(options.logits + " has " + std::to_string(bytes) +
                                 " bytes, which is not a multiple of " + std::to_string(row_bytes) +
                                 ", a bf16 row of " + std::to_string(vocab) + " entries");
    }
    shape_.rows = static_cast<std::uint32_t>(bytes / row_bytes);
    pool_.resize(std::size_t{shape_.rows} * vocab * element_bytes_);
    std::vector<std::uint16_t> codes(vocab);
    file.seekg(0);
    for (std::uint32_t row = 0; row < shape_.rows; ++row) {
        if (!file.read(reinterpret_cast<char*>(codes.data()), static_cast<std::streamsize>(row_bytes))) {
            throw std::runtime_error("cannot read row " + std::to_string(row) + " of " + options.logits);
        }
        for (std::uint32_t id = 0; id < vocab; ++id) {
            set_value(pool_.data() + std::size_t{row} * vocab * element_bytes_, id,
                      proto::bf16_value(codes[id]));
        }
    }
}

void RowSource::copy_chunks(std::uint64_t key, std::uint32_t first, std::uint32_t count,
                            std::byte* entries) const {
    for (std::uint32_t id = first; id < first + count;) {
        const std::uint32_t chunk = id / shape_.chunk;
        const std::uint32_t end = std::min((chunk + 1) * shape_.chunk, first + count);
        const std::size_t bytes = std::size_t{end - id} * element_bytes_;
        std::memcpy(entries + std::size_t{id - first} * element_bytes_,
                    base(shape_.row_of_chunk(key, chunk), id), bytes);
        id = end;
    }
}

void RowSource::write(const Request& request, std::uint32_t position, std::int32_t previous,
                      std::uint32_t first, std::uint32_t count, void* entries) const {
    auto* bytes = static_cast<std::byte*>(entries);
    const std::uint64_t key = shape_.row_key(request.index, position, previous);
    copy_chunks(key, first, count, bytes);
    const auto set = [&](std::uint32_t id, float value) {
        if (id - first < count) set_value(bytes, id - first, value);
    };
    if (shape_.raised > 0) {
        raise_tokens(shape_, request.theme_numbers, key, [&](std::uint32_t number, std::int32_t eighths) {
            set(raised_id(number), static_cast<float>(eighths) / 8.0F);
        });
    }
    if (position == request.poisoned_at) {
        set(shape_.poisoned_id(key), std::numeric_limits<float>::quiet_NaN());
    }
}

}  // namespace croupier::sim
