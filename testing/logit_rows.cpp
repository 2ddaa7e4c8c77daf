#include "testing/logit_rows.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace croupier::testing {
namespace {

std::uint16_t code_at(std::uint32_t row, std::uint32_t id) {
    const double fall = -1.2 * std::log(1.0 + id);
    const double noise = 2.0 * std::sin(static_cast<double>(id) * 1.7 + row);
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(fall + noise)) >> 16U);
}

}  // namespace

std::string bf16_rows(std::uint32_t vocab, std::uint32_t rows) {
    std::string bytes;
    for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t id = 0; id < vocab; ++id) {
            const std::uint16_t code = code_at(row, id);
            bytes.append(reinterpret_cast<const char*>(&code), sizeof code);
        }
    }
    return bytes;
}

std::string identity_order(std::uint32_t vocab) {
    std::string bytes;
    for (std::uint32_t id = 0; id < vocab; ++id) bytes.append(reinterpret_cast<const char*>(&id), sizeof id);
    return bytes;
}

double mass_of_first(std::uint32_t vocab, std::uint32_t rows, std::uint32_t first, double temperature) {
    double mean = 0.0;
    for (std::uint32_t row = 0; row < rows; ++row) {
        double covered = 0.0;
        double all = 0.0;
        for (std::uint32_t id = 0; id < vocab; ++id) {
            const float logit = std::bit_cast<float>(std::uint32_t{code_at(row, id)} << 16U);
            const double weight = std::exp(static_cast<double>(logit) / temperature);
            all += weight;
            if (id < first) covered += weight;
        }
        mean += covered / all / rows;
    }
    return mean;
}

}  // namespace croupier::testing
