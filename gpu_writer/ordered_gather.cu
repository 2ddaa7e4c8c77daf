#include "gpu_writer/ordered_gather.h"
#include "gpu_writer/slice_tiles.cuh"

namespace croupier::gpu_writer {
namespace {

using proto::Dtype;

constexpr std::uint32_t kTile = 64;
// Of two bytes each they fill a sector: a shorter line would be fetched with bytes that nobody wants.
constexpr std::uint32_t kLeastColumns = 16;

// A block turns a square: so many ids, a cache line of each.
constexpr std::uint32_t kIds = kTile;
constexpr std::uint32_t kWords = 32;
constexpr std::uint32_t kWordsAUnit = sizeof(uint4) / sizeof(std::uint32_t);
constexpr std::uint32_t kUnits = kWords / kWordsAUnit;
// Each thread has a run of ids of one word, which is two units of rows and two of lines.
constexpr std::uint32_t kRunIds = 8;
constexpr std::uint32_t kRuns = kIds / kRunIds;
constexpr std::uint32_t kThreads = kRuns * kWords;
constexpr std::uint32_t kIdsAtOnce = kThreads / kUnits;

std::uint32_t line_units(Dtype dtype, std::uint32_t columns) {
    const std::uint32_t bytes = columns * proto::element_bytes(dtype);
    return (bytes + sizeof(uint4) - 1) / sizeof(uint4);
}

struct Lines {
    uint4* units;
    std::uint32_t units_each;
    std::uint32_t squares;  // side by side: in how many parts blocks take a line

    std::uint32_t columns;
};

// [ids][words]. A unit stands where its place within the line, XOR its run of ids, says: the accesses of a
// warp fall into different banks both by units of lines and by words of eight runs.
struct Square {
    std::uint32_t words[kIds * kWords];

    __device__ std::uint32_t& word(std::uint32_t id, std::uint32_t at) {
        const std::uint32_t unit = (at / kWordsAUnit) ^ (id / kRunIds);
        return words[id * kWords + unit * kWordsAUnit + at % kWordsAUnit];
    }
    __device__ uint4& unit(std::uint32_t id, std::uint32_t at) {
        return *reinterpret_cast<uint4*>(&word(id, at * kWordsAUnit));
    }
};

// What a thread has of a square: two columns' elements of eight ids where two make a word, else one's.
template <Dtype D>
struct Run {
    using Code = typename Element<D>::Code;
    static constexpr std::uint32_t kColumns = sizeof(std::uint32_t) / sizeof(Code);
    static constexpr std::uint32_t kUnitsAColumn = 2 / kColumns;

    Unit<D> units[2];

    __device__ static std::uint32_t first_id() { return threadIdx.x % kRuns * kRunIds; }
    __device__ static std::uint32_t word() { return threadIdx.x / kRuns; }
    // Of a unit, from the square's first column and id on.
    __device__ static std::uint32_t column(std::uint32_t unit) {
        return word() * kColumns + unit / kUnitsAColumn;
    }
    __device__ static std::uint32_t id(std::uint32_t unit) {
        return first_id() + unit % kUnitsAColumn * Unit<D>::kElements;
    }

    __device__ void to(Square& square) const {
#pragma unroll
        for (std::uint32_t i = 0; i < kRunIds; ++i) {
            std::uint32_t bits = units[0].codes[i % Unit<D>::kElements];
            if constexpr (kColumns == 2) {
                bits |= std::uint32_t{units[1].codes[i]} << 16U;
            } else if (i >= Unit<D>::kElements) {
                bits = units[1].codes[i - Unit<D>::kElements];
            }
            square.word(first_id() + i, word()) = bits;
        }
    }
    __device__ void from(Square& square) {
#pragma unroll
        for (std::uint32_t i = 0; i < kRunIds; ++i) {
            const std::uint32_t bits = square.word(first_id() + i, word());
            if constexpr (kColumns == 2) {
                units[0].codes[i] = static_cast<Code>(bits);
                units[1].codes[i] = static_cast<Code>(bits >> 16U);
            } else {
                units[i / Unit<D>::kElements].codes[i % Unit<D>::kElements] = bits;
            }
        }
    }
    // Of the run's n-th column.
    __device__ float largest(std::uint32_t column) const {
        if constexpr (kColumns == 2) return units[column].largest();
        return larger(units[0].largest(), units[1].largest());
    }
};

// `rows` without offsets.
template <Dtype D>
__global__ void __launch_bounds__(kThreads) make_lines(SliceRows rows, Lines lines) {
    __shared__ alignas(16) Square square;
    const RowReader<D> reader(rows);
    const std::uint32_t part = blockIdx.x % lines.squares;
    const std::uint32_t first_id = blockIdx.x / lines.squares * kIds;
    Run<D> run{};
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t column = part * kWords * Run<D>::kColumns + run.column(i);
        if (column < lines.columns) run.units[i] = reader.unit(column, first_id + run.id(i));
    }
    run.to(square);
    __syncthreads();
    const std::uint32_t unit = part * kUnits + threadIdx.x % kUnits;
    if (unit >= lines.units_each) return;
#pragma unroll
    for (std::uint32_t id = threadIdx.x / kUnits; id < kIds; id += kIdsAtOnce) {
        if (first_id + id >= rows.entries) continue;
        lines.units[std::uint64_t{first_id + id} * lines.units_each + unit] =
            square.unit(id, threadIdx.x % kUnits);
    }
}

template <Dtype D>
__device__ uint4 line_unit(const SliceRows& rows, const Lines& lines, std::uint32_t position,
                           std::uint32_t unit) {
    constexpr std::uint32_t kPadding = minus_infinity(D) * (Run<D>::kColumns == 2 ? 0x10001U : 1U);
    if (position >= rows.entries || unit >= lines.units_each) {
        return make_uint4(kPadding, kPadding, kPadding, kPadding);
    }
    return __ldg(lines.units + std::uint64_t{__ldg(rows.offsets + position)} * lines.units_each + unit);
}

template <Dtype D>
__device__ void keep_run_maxima(const Run<D>& run, const SliceTarget& target, std::uint32_t tile,
                                std::uint32_t first_column) {
#pragma unroll
    for (std::uint32_t i = 0; i < Run<D>::kColumns; ++i) {
        float most = run.largest(i);
#pragma unroll
        for (std::uint32_t apart = kRuns / 2; apart > 0; apart /= 2) {
            most = larger(most, __shfl_xor_sync(0xFFFFFFFFU, most, static_cast<int>(apart)));
        }
        const std::uint32_t column = first_column + run.word() * Run<D>::kColumns + i;
        if (threadIdx.x % kRuns == i && column < target.columns) {
            target.maxima[std::uint64_t{column} * target.maxima_stride + tile] = most;
        }
    }
}

template <Dtype D>
__global__ void __launch_bounds__(kThreads)
    lay_lines(SliceRows rows, SliceTarget target, std::uint32_t first_tile, Lines lines) {
    __shared__ alignas(16) Square square;
    const std::uint32_t part = blockIdx.x % lines.squares;
    const std::uint32_t tile = first_tile + blockIdx.x / lines.squares;
    const std::uint32_t first_id = threadIdx.x / kUnits;
    const std::uint32_t unit = threadIdx.x % kUnits;
    // All fetches before the first use: each is two reads, one after the other.
    uint4 fetched[kIds / kIdsAtOnce];
#pragma unroll
    for (std::uint32_t i = 0; i < kIds / kIdsAtOnce; ++i) {
        fetched[i] =
            line_unit<D>(rows, lines, tile * kTile + first_id + i * kIdsAtOnce, part * kUnits + unit);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kIds / kIdsAtOnce; ++i) {
        square.unit(first_id + i * kIdsAtOnce, unit) = fetched[i];
    }
    __syncthreads();
    Run<D> run;
    run.from(square);
    const std::uint32_t first_column = part * kWords * Run<D>::kColumns;
    const std::uint64_t first_pair = std::uint64_t{tile} * target.columns;
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
        const std::uint32_t column = first_column + run.column(i);
        if (column >= target.columns) continue;
        const std::uint64_t element = (first_pair + column) * kTile + run.id(i);
        run.units[i].store(target.elements, element / Unit<D>::kElements);
    }
    if (target.maxima != nullptr) keep_run_maxima(run, target, tile, first_column);
}

template <Dtype D>
struct LineTiling {
    static void launch(SliceRows rows, const SliceTarget& target, TileRange tiles, void* memory,
                       cudaStream_t stream) {
        const std::uint32_t units = line_units(D, target.columns);
        const Lines lines{static_cast<uint4*>(memory), units, (units + kUnits - 1) / kUnits, target.columns};
        SliceRows by_id = rows;
        by_id.offsets = nullptr;
        const std::uint32_t id_squares = (rows.entries + kIds - 1) / kIds;
        make_lines<D><<<id_squares * lines.squares, kThreads, 0, stream>>>(by_id, lines);
        lay_lines<D><<<(tiles.end - tiles.first) * lines.squares, kThreads, 0, stream>>>(rows, target,
                                                                                         tiles.first, lines);
    }
};

}  // namespace

bool gathers_lines(const SliceRows& rows, std::uint32_t columns) {
    return rows.offsets != nullptr && rows.tile == kTile && columns >= kLeastColumns;
}

std::uint64_t lines_bytes(const SliceRows& rows, std::uint32_t columns) {
    if (!gathers_lines(rows, columns)) return 0;
    return std::uint64_t{rows.entries} * line_units(rows.dtype, columns) * sizeof(uint4);
}

cudaError_t launch_line_tiling(const SliceRows& rows, const SliceTarget& target, TileRange tiles, void* lines,
                               cudaStream_t stream) {
    launch_of<LineTiling>(rows.dtype, rows, target, tiles, lines, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer
