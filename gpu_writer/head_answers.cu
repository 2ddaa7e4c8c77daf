// Answers from hidden states. The same instructions add the same products in the same order as in
// fused_head(), for one block and one column at a time: who asks for blocks of a column that was drawn wants
// to explain it, and can wait.
#include "gpu_writer/answer_entries.cuh"
#include "gpu_writer/head_values.cuh"

namespace croupier::gpu_writer::head {
namespace {

constexpr std::uint32_t kStages = 4;
constexpr std::uint32_t kUnitElements = 8;
constexpr std::uint32_t kRowUnits = kRowBytes / 16;
// The fewest columns that the instructions take: all but the first are zeros.
constexpr std::uint32_t kHiddenRows = 8;

struct AnswerRoom {
    alignas(1024) std::uint8_t head[kStages][kBlockRows * kRowBytes];
    alignas(1024) std::uint8_t hidden[kStages][kHiddenRows * kRowBytes];
    alignas(16) std::uint16_t codes[kBlockRows];
};

// A column's block, by all threads.
template <Dtype D>
class BlockProduct {
  public:
    __device__ BlockProduct(const RowSource& source, const SliceRows& rows, std::uint32_t column,
                            AnswerRoom& room)
        : source_(source),
          rows_(rows),
          hidden_(static_cast<const std::uint16_t*>(source.hidden) + column * source.hidden_stride),
          room_(room) {}

    // All threads see the codes in the room.
    __device__ void compute(std::uint32_t block) const {
        const std::uint32_t steps = (source_.elements + kStepElements - 1) / kStepElements;
#pragma unroll
        for (std::uint32_t step = 0; step < kStages - 1; ++step) {
            if (step < steps) copy(block, step);
            end_copy_group();
        }
        float sums[kHiddenRows / 2];
        hold(sums);
        for (std::uint32_t step = 0; step < steps; ++step) {
            wait_for_copies<kStages - 2>();
            show_stores_to_tensor_cores();
            __syncthreads();
            // Into the stage of the step before, whose products are done.
            if (step + kStages - 1 < steps) copy(block, step + kStages - 1);
            end_copy_group();
            if (threadIdx.x < kWarpgroup) multiply_step(sums, step);
        }
        hold(sums);
        put(sums, block);
        __syncthreads();
    }

  private:
    __device__ void copy(std::uint32_t block, std::uint32_t step) const {
        const std::uint32_t stage = step % kStages;
        const auto unit = [&](const std::uint8_t* matrix, std::uint32_t row, std::uint32_t number,
                              const std::uint16_t* from) {
            const std::uint32_t element = step * kStepElements + number * kUnitElements;
            const bool is_there = from != nullptr && element < source_.elements;
            // As the copy engine swizzles rows of 128 bytes.
            copy_16(shared_address(matrix) + row * kRowBytes + (number ^ row % kRowUnits) * 16,
                    is_there ? from + element : source_.weight, is_there);
        };
        for (std::uint32_t i = threadIdx.x; i < kBlockRows * kRowUnits; i += kAnswerThreads) {
            const std::uint32_t row = i / kRowUnits;
            const std::uint32_t entry = block * kBlockRows + row - rows_.lead;
            const auto* weight = static_cast<const std::uint16_t*>(source_.weight);
            unit(room_.head[stage], row, i % kRowUnits,
                 entry < rows_.entries ? weight + entry * source_.weight_stride : nullptr);
        }
        for (std::uint32_t i = threadIdx.x; i < kHiddenRows * kRowUnits; i += kAnswerThreads)
            unit(room_.hidden[stage], i / kRowUnits, i % kRowUnits, i < kRowUnits ? hidden_ : nullptr);
    }
    __device__ void multiply_step(float (&sums)[kHiddenRows / 2], std::uint32_t step) const {
        const std::uint64_t head = matrix_at(shared_address(room_.head[step % kStages]));
        const std::uint64_t hidden = matrix_at(shared_address(room_.hidden[step % kStages]));
        begin_multiplying();
#pragma unroll
        for (std::uint32_t i = 0; i < kInstructions; ++i) {
            multiply<D, kHiddenRows>(sums, head + i * kDepthUnits, hidden + i * kDepthUnits, step + i);
        }
        end_multiply_group();
        wait_for_products<0>();
    }
    __device__ void put(const float (&sums)[kHiddenRows / 2], std::uint32_t block) const {
        if (threadIdx.x >= kWarpgroup || pair_of_thread() != 0) return;
#pragma unroll
        for (std::uint32_t half = 0; half < 2; ++half) {
            const std::uint32_t row = row_of_thread() + half * 8;
            const std::uint32_t code = codes_of(PairOf<D>::rounded(sums[2 * half], 0.0F)) & 0xFFFFU;
            const bool is_there = block * kBlockRows + row - rows_.lead < rows_.entries;
            room_.codes[row] = static_cast<std::uint16_t>(is_there ? code : minus_infinity(D));
        }
    }

    const RowSource& source_;
    const SliceRows& rows_;
    const std::uint16_t* hidden_;
    AnswerRoom& room_;
};

// Of columns that are drawn alone, blocks may not stand in the rows.
struct ComputedBlocks {
    RowSource source;

    template <Dtype D>
    __device__ void lay(const RowReader<D>& reader, const LeanSlice& slice, const QueueEntry& entry,
                        const std::uint16_t* list, std::uint32_t count) const {
        if (!is_drawn_alone(source.wants[entry.column]))
            return StoredBlocks().lay<D>(reader, slice, entry, list, count);
        __shared__ AnswerRoom room;
        const BlockProduct<D> product(source, reader.rows, entry.column, room);
        for (std::uint32_t i = 0; i < count; ++i) {
            product.compute(list[i]);
            if (threadIdx.x < kBlockUnits<D>) {
                Unit<D> unit;
                *reinterpret_cast<uint4*>(unit.codes) =
                    reinterpret_cast<const uint4*>(room.codes)[threadIdx.x];
                store_in_slice(slice, entry.place, list[i], threadIdx.x, unit);
            }
            __syncthreads();
        }
    }
};

template <Dtype D>
cudaError_t load_as() {
    cudaError_t status = cudaSuccess;
    load(answer_requests<D, ComputedBlocks>, status);
    return status;
}

}  // namespace

cudaError_t load_computed_answers(Dtype dtype) {
    return dtype == Dtype::bf16 ? load_as<Dtype::bf16>() : load_as<Dtype::fp16>();
}

cudaError_t launch_computed_answers(const LeanRows& rows, const LeanSlice& slice, const QueueMemory& queue,
                                    std::uint64_t pass, const DeliveredTokens& tokens, const ToldRows& told,
                                    cudaStream_t stream) {
    const auto launch = rows.dtype == Dtype::bf16 ? launch_answers<Dtype::bf16, ComputedBlocks>
                                                  : launch_answers<Dtype::fp16, ComputedBlocks>;
    launch(rows, slice, queue, pass, tokens, told, ComputedBlocks{rows.source}, stream);
    return cudaGetLastError();
}

}  // namespace croupier::gpu_writer::head
