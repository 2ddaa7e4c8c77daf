// A lean step on the GPU, as plain calls that enqueue and never wait. All addresses are the device's; those
// of LeanTarget, LeanSlice and LeanEnd may be of mapped host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu_writer/enqueued_rows.h"
#include "gpu_writer/lean_wants.h"
#include "proto/dtype.h"
#include "proto/lean_part.h"

namespace croupier::gpu_writer {

// What rows were computed from, as croupier_head has it, and what their columns want.
struct RowSource {
    const void* hidden = nullptr;  // null: the rows are all there
    std::uint64_t hidden_stride = 0;
    const void* weight = nullptr;
    std::uint64_t weight_stride = 0;
    std::uint32_t elements = 0;
    const LeanWant* wants = nullptr;
};

// The rows of a step as the LM head left them; the six behind them as in LeanShape.
struct LeanRows {
    const void* logits = nullptr;  // null: where FoundRows says
    std::uint64_t row_stride = 0;  // elements
    proto::Dtype dtype = proto::Dtype::bf16;
    std::uint32_t lead = 0;
    std::uint32_t entries = 0;
    std::uint32_t blocks = 0;
    std::uint32_t first_block = 0;
    StepMasks masks = {};
    StepNames names = {};
    const std::int32_t* row_of = nullptr;  // by column, -1: it has none; null: the column's own number
    std::uint32_t row_end = kNoRowEnd;     // numbers from this on are of no row
    // There are entries, and the scratch memory has what LeanMeasured says of each column without a mask: the
    // maxima, and perhaps the sums.
    bool has_maxima = false;
    bool has_sums = false;
    // From which blocks are computed again of columns whose rows are not all there.
    RowSource source = {};
};

struct LeanTarget {
    std::uint64_t part = 0;
    proto::LeanLayout layout;
    std::uint32_t room = 0;  // for so many blocks of a column
};

// What so many columns want are the kernel's arguments, which all of it has at once. What more columns want
// is copied on the stream before it.
constexpr std::uint32_t kMostInArguments = 512;

// What says that all of a step is there: the word, and then the ticket at `finished`, when the wants and the
// scratch memory are free too. Before that, each part of the step whose columns are there
// (proto/lean_order.h) has the word as its stamp.
struct LeanEnd {
    std::uint64_t ready = 0;
    std::uint64_t word = 0;
    std::uint64_t stamps = 0;  // proto::kLeanStamps words
    std::uint64_t finished = 0;
    std::uint64_t ticket = 0;
    std::uint64_t* next = nullptr;  // where the ticket goes too: launches that have found a record
};

// Where whole columns and blocks that were asked for stand: [blocks][places][kBlockIds] elements.
struct LeanSlice {
    std::uint64_t elements = 0;
    std::uint32_t columns = 0;  // of the step
    std::uint32_t places = 0;
};

// What a stream that waits for tokens would hold up when a kernel is first launched: CUDA loads kernels late,
// and waits for the GPU then. Before any step.
cudaError_t load_lean_kernels(proto::Dtype dtype);
cudaError_t load_whole_columns_kernels(proto::Dtype dtype);
cudaError_t load_spread_kernels(proto::Dtype dtype);

// GPU memory for the steps of one stream, and zero before the first.
std::size_t lean_scratch_bytes(proto::Dtype dtype, std::uint32_t blocks, std::uint32_t max_batch);
// Of a block's entries, in units of its largest one's weight, at the two scales of the column's want.
struct LeanSums {
    float at_one = 0.0F;
    float at_scale = 0.0F;
};
// Where a step of so many columns has what is measured of their blocks, up to that of the last entry.
struct LeanMeasured {
    std::byte* maxima = nullptr;      // [column][block], a code each
    std::uint64_t maxima_stride = 0;  // bytes from column to column
    LeanSums* sums = nullptr;         // [column][block], of columns that want some
    std::uint64_t sums_stride = 0;    // from column to column
    // [column]: a token's score, as a rank, that the winner's is not below; 0: nothing is known. Entries of
    // blocks that cannot reach it need not be among the rows. 0 again behind the step.
    std::uint32_t* floors = nullptr;
};
LeanMeasured lean_measured(void* scratch, proto::Dtype dtype, std::uint32_t blocks, std::uint32_t columns);

// One kernel. Of a rank so large that shared memory does not hold its blocks' ranks (eight bytes a block), it
// fails with cudaErrorInvalidValue.
// `wants` are one a column, in pinned memory where they are more than kMostInArguments, and as they are until
// the step's ready word.
cudaError_t launch_lean(const LeanRows& rows, const LeanTarget& target, std::span<const LeanWant> wants,
                        const LeanEnd& end, void* scratch, cudaStream_t stream);
// The columns that a lean step has whole: before it on its stream, so that its word covers them.
struct WholeColumn {
    std::uint32_t column = 0;
    std::uint32_t place = 0;
};
cudaError_t launch_whole_columns(const LeanRows& rows, const LeanSlice& slice,
                                 std::span<const WholeColumn> columns, cudaStream_t stream);
// Of the columns that want it, their spread at this scale; likewise. Its scratch memory is another, as large
// as this, and zero before the first launch.
struct SpreadColumn {
    std::uint32_t column;
    std::uint32_t mask_row;  // as the column's LeanWant has it
    double scale;
};
std::size_t spread_scratch_bytes();
cudaError_t launch_spreads(const LeanRows& rows, const LeanTarget& target,
                           std::span<const SpreadColumn> columns, void* scratch, cudaStream_t stream);

}  // namespace croupier::gpu_writer
