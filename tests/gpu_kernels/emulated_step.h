// What a lean step on this CPU has beside its case: memory, and the words that say that it is there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "gpu_writer/lean_kernels.h"
#include "proto/lean_order.h"
#include "tests/gpu_writer/lean_side.h"

namespace croupier::testing {

inline std::uint64_t address(const void* of) {
    return reinterpret_cast<std::uint64_t>(of);
}

// Zero, and as aligned as a GPU's memory is.
inline std::vector<uint4> aligned_memory(std::size_t bytes) {
    return std::vector<uint4>(bytes / sizeof(uint4) + 1);
}

inline std::vector<uint4> aligned_rows(const LeanCase& of) {
    std::vector<uint4> rows = aligned_memory(of.rows.bytes.size());
    std::copy(of.rows.bytes.begin(), of.rows.bytes.end(), reinterpret_cast<unsigned char*>(rows.data()));
    return rows;
}

inline gpu_writer::LeanSlice slice_at(Bytes& memory, const LeanCase& of) {
    return {address(memory.data()), of.columns(), of.places()};
}

struct StepWords {
    std::uint64_t ready = 0;
    std::uint64_t stamps[proto::kLeanStamps] = {};
    std::uint64_t finished = 0;

    gpu_writer::LeanEnd end(std::uint64_t ticket) {
        return {address(&ready), ticket, address(stamps), address(&finished), ticket};
    }
    void check(std::uint32_t columns, std::uint64_t ticket) const {
        const proto::LeanOrder order(columns);
        bool told = ready == ticket && finished == ticket;
        for (std::uint32_t part = 0; part + 1 < order.parts(); ++part) told = told && stamps[part] == ticket;
        if (!told) throw std::runtime_error("a lean step ended, and its words do not say so");
    }
};

}  // namespace croupier::testing
