// A request's biases by token: a lookup costs the same beside 4,096 other biases.
#pragma once

#include <cstdint>
#include <span>

#include "proto/sampling.h"
#include "sampler/workspace.h"

namespace croupier::sampler {

class BiasTable {
  public:
    // kMaxBias at most, of ids inside the vocabulary.
    BiasTable(std::span<const proto::TokenBias> bias, Workspace& workspace);
    ~BiasTable();
    BiasTable(const BiasTable&) = delete;
    BiasTable& operator=(const BiasTable&) = delete;

    // With all biases of the token, in the request's order: sums of doubles depend on it.
    double biased(std::uint32_t token, double value) const {
        for (std::uint32_t place = first_[token]; place != 0; place = next_[place - 1])
            value += static_cast<double>(bias_[place - 1].bias);
        return value;
    }

    bool has_positive(std::uint32_t token) const {
        std::uint32_t place = first_[token];
        while (place != 0 && !(bias_[place - 1].bias > 0.0F)) place = next_[place - 1];
        return place != 0;
    }

  private:
    std::span<const proto::TokenBias> bias_;
    std::span<std::uint16_t> first_;  // by token: 1 + the place of its first bias; 0: it has none
    std::span<std::uint16_t> next_;   // by bias: the same of the next one of its token
};

}  // namespace croupier::sampler
