// A lean step laid by the host, or by a GPU's kernels: the same case for both.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu_writer/lean_wants.h"
#include "proto/geometry.h"
#include "tests/gpu_writer/naive_slice.h"

namespace croupier::testing {

struct LeanCase {
    proto::Geometry geometry;
    std::uint32_t rank = 0;
    std::vector<gpu_writer::LeanWant> wants;
    Rows rows;
    std::uint32_t skipped = 0;         // elements before the first row, which then is not aligned
    std::vector<std::uint32_t> masks;  // rows of mask_words(), over all ids
    std::vector<std::uint32_t> names;  // as gpu_writer::StepNames has them

    std::uint32_t columns() const { return static_cast<std::uint32_t>(wants.size()); }
    std::uint32_t places() const { return geometry.row_places(columns()); }
    std::uint32_t mask_words() const { return (geometry.vocab + 511) / 512 * 16; }
    std::uint32_t blocks() const { return geometry.shards[rank].blocks(); }
};

struct Laid {
    Bytes part;
    Bytes slice;
};
// All of both is of this byte.
constexpr unsigned char kPoison = 0xA5;
Laid poisoned(const LeanCase& of);
// The step's, when it is there.
constexpr std::uint64_t kReadyWord = 77;

struct Asked {
    std::uint32_t column = 0;
    std::vector<std::uint64_t> bitmap;
};

class LeanSide {
  public:
    virtual ~LeanSide() = default;
    virtual Laid lay(const LeanCase& of) = 0;
    // On a slice that is poisoned before.
    virtual Bytes answer(const LeanCase& of, const std::vector<Asked>& asked) = 0;
};

std::unique_ptr<LeanSide> make_host_lean();
// On CUDA device 0.
std::unique_ptr<LeanSide> make_gpu_lean();

}  // namespace croupier::testing
