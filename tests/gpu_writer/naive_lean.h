// What a lean step has to be, one element and one block at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "proto/lean_part.h"
#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

struct NaiveColumn {
    std::vector<std::uint32_t> codes;  // of whole blocks, in the order of their ids, whatever a mask hides
    std::vector<std::uint32_t> maxima;
    // Each of these may be what is sent: how many are chosen is not fixed exactly.
    std::vector<std::vector<std::uint32_t>> choices;
    std::vector<double> weights;  // of each block, in units of its largest entry's; empty: they are not sent
    proto::LeanHead head{};       // but for its racers' flags
    proto::RowSpread spread;      // with its flag
    // Where the race's best are sent: all tokens, the best first, what stands before the first of them, and
    // the score above which all are told of, as far as there is room.
    std::vector<proto::Racer> racers;
    std::vector<double> before;
    // Where entries are listed: all that count, the best first, and how many have room.
    bool lists = false;
    std::vector<proto::BestEntry> entries;
    std::size_t taken = 0;  // bytes behind them
    bool names = false;     // the values of ids are sent
    std::vector<std::uint32_t> named;
    float told_above = std::numeric_limits<float>::lowest();  // as many as there are may score that
};
NaiveColumn naive_column(const LeanCase& of, std::uint32_t column);

// Of a column of what was laid.
struct LaidColumn {
    proto::LeanHead head{};
    std::vector<std::uint32_t> maxima;
    std::vector<std::uint32_t> sent;
    std::vector<std::uint32_t> codes;  // of the blocks that were sent
    std::vector<std::uint8_t> weights;
    proto::RowSpread spread;    // with its flag
    proto::Racers racers{};     // with its flag
    proto::BestEntries list{};  // likewise
    std::vector<proto::BestEntry> entries;
    std::size_t before_list = 0;
    proto::NamedValues names{};  // likewise
    std::vector<std::uint32_t> named;
};
LaidColumn laid_column(const LeanCase& of, const Laid& laid, std::uint32_t column);

// The slice with whole columns and blocks that were asked for; the rest is poison.
Bytes naive_slice_of(const LeanCase& of, const std::vector<Asked>& asked);

}  // namespace croupier::testing
