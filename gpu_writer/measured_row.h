// A row as the host measures it for a lean step: what lean_layout.cpp lays is told from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "gpu_writer/element_codes.h"
#include "gpu_writer/lean_choice.h"
#include "gpu_writer/lean_layout.h"

namespace croupier::gpu_writer {

// A row in whole blocks, in the order of their ids, and the largest entry of each that a mask allows.
struct MeasuredRow {
    static constexpr float kInfinity = std::numeric_limits<float>::infinity();

    proto::Dtype dtype;
    std::size_t block_bytes;
    std::vector<std::byte> elements;
    std::vector<float> maxima;
    std::vector<bool> hidden;  // entries; none: without a mask

    MeasuredRow(const LeanShape& shape, const void* row, std::uint32_t mask_row)
        : dtype(shape.slice.dtype),
          block_bytes(std::size_t{proto::kBlockIds} * proto::element_bytes(dtype)),
          elements(shape.slice.blocks * block_bytes),
          maxima(shape.slice.blocks) {
        const SliceShape& of = shape.slice;
        const SliceShape alone{of.dtype, proto::kBlockIds, 1, of.lead, of.entries, of.blocks, nullptr};
        lay_rows(alone, 0, {&row, 1}, {elements.data(), maxima.data(), of.blocks});
        if (mask_row != 0) hide(shape, mask_row);
        // One zero, and one NaN (code_of()), so that the bytes are the same wherever they are made.
        for (float& most : maxima) most += 0.0F;
    }
    // An entry that is NaN or +inf is not hidden: it is an error wherever it stands.
    void hide(const LeanShape& shape, std::uint32_t mask_row) {
        hidden.resize(maxima.size() * proto::kBlockIds);
        for (std::size_t block = 0; block < maxima.size(); ++block) {
            const std::uint32_t* bits = shape.masks.of_block(mask_row, shape.first_block + block);
            float most = -kInfinity;
            for (std::size_t i = 0; i < proto::kBlockIds; ++i) {
                const std::size_t entry = block * proto::kBlockIds + i;
                const float as_it_stands = value(entry);
                const bool allowed = bits != nullptr && (bits[i / 32] >> (i % 32) & 1U) != 0;
                hidden[entry] = !allowed && as_it_stands < kInfinity;
                const bool counts = !hidden[entry] && !std::isnan(most);
                if (counts && !(as_it_stands <= most)) most = as_it_stands;
            }
            maxima[block] = most;
        }
    }
    std::uint32_t code(std::size_t entry) const {
        const std::size_t size = proto::element_bytes(dtype);
        std::uint32_t code = 0;
        std::memcpy(&code, elements.data() + entry * size, size);
        return code;
    }
    float value(std::size_t entry) const {
        const bool is_hidden = !hidden.empty() && hidden[entry];
        return is_hidden ? -kInfinity : value_of_code(dtype, code(entry));
    }
    std::uint32_t code_of_maximum(std::size_t block) const {
        const float most = maxima[block];
        if (std::isnan(most)) return quiet_nan(dtype);
        if (most == 0) return 0;
        // What a mask hides has no code of its own.
        if (most == -kInfinity) return minus_infinity(dtype);
        std::size_t entry = block * proto::kBlockIds;
        while (value(entry) != most) ++entry;
        return code(entry);
    }
    // Of its entries' weights, in units of the largest one's; 0 where one is not finite, but for -inf.
    double weight(double scale) const {
        const auto most = finite_maximum();
        return most ? weight_of(0, maxima.size() * proto::kBlockIds, *most, scale) : 0.0;
    }
    // Without tokens where one entry is not finite, but for -inf.
    proto::RowSpread spread(double scale) const {
        proto::RowSpread spread;
        const auto most = finite_maximum();
        for (std::size_t entry = 0; most && entry < maxima.size() * proto::kBlockIds; ++entry) {
            const double distance = double{value(entry)} - *most;
            if (std::isinf(distance)) continue;
            const double weight = std::exp(distance * scale);
            spread.add({1.0, distance, distance * distance, weight, weight * distance});
        }
        return spread;
    }
    // As proto::Sent::weighed_blocks has it. A little less than it is: a device's sums are off.
    std::uint8_t weight_code(std::size_t block, double scale) const {
        if (!std::isfinite(maxima[block])) return 0;
        const std::size_t first = block * proto::kBlockIds;
        const double weight = weight_of(first, first + proto::kBlockIds, maxima[block], scale);
        return code_of_weight(static_cast<float>(std::log2(weight)));
    }

    // What stands before the racer in canonical order, in units of the largest one's weight, as a float: in
    // more than one of its bits a device may differ.
    float weight_before(const proto::Racer& racer, std::uint32_t first_block, double scale) const {
        const double most = finite_maximum().value_or(0.0);
        const std::uint32_t own = racer.token - first_block * proto::kBlockIds;
        double sum = 0;
        for (std::uint32_t entry = 0; entry < maxima.size() * proto::kBlockIds; ++entry) {
            const float each = value(entry);
            if (each > racer.logit || (each == racer.logit && entry < own))
                sum += std::exp((double{each} - most) * scale);
        }
        return static_cast<float>(sum);
    }
    // Nothing: an entry is NaN or +inf, or all are -inf.
    std::optional<double> finite_maximum() const {
        double most = -std::numeric_limits<double>::infinity();
        for (const float each : maxima) {
            if (std::isnan(each) || each == kInfinity) return std::nullopt;
            most = std::max(most, double{each});
        }
        return std::isinf(most) ? std::nullopt : std::optional(most);
    }

  private:
    double weight_of(std::size_t first, std::size_t end, double most, double scale) const {
        double sum = 0;
        for (std::size_t entry = first; entry < end; ++entry) {
            sum += std::exp((double{value(entry)} - most) * scale);
        }
        return sum;
    }
};

}  // namespace croupier::gpu_writer
