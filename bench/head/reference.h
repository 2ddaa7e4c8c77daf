// Slow kernels that are obviously right, random matrices, and comparisons. All enqueue on a stream; results
// are in GPU memory, and are added to or raised, so that the caller clears them.
#pragma once

#include "gpu_writer/head_product.h"

namespace croupier::gpu_writer::head {

// Nearly normal, with this standard deviation.
void fill_random(std::uint16_t* codes, std::uint64_t count, proto::Dtype dtype, std::uint64_t seed,
                 float deviation, cudaStream_t stream);

// How far the call's logits are from products in double, beyond the rounding of their type and as a share of
// the root of the products' squared terms: the largest, as the bits of a float.
void raise_error(const HeadProduct& call, std::uint32_t columns, std::uint32_t* most, cudaStream_t stream);

// The call's maxima, from its logits, in one pass that reads them from GPU memory.
void measure_rows(const HeadProduct& call, std::uint16_t* maxima, cudaStream_t stream);

// The call's sums against those of its logits in double: the largest relative error, as a float's bits.
void raise_sum_error(const HeadProduct& call, std::uint32_t* most, cudaStream_t stream);

// How many words of 16 bits differ: of each column of `a` those of column (column + turned) % of_columns of
// `b`.
struct WordRows {
    const void* words;
    std::uint64_t stride;  // words
};
void count_differences(WordRows a, WordRows b, std::uint32_t columns, std::uint32_t words,
                       std::uint32_t turned, std::uint32_t of_columns, unsigned long long* count,
                       cudaStream_t stream);

// How many logits of blocks that were computed again differ from the call's.
void count_again_differences(const HeadProduct& call, const void* asked, std::uint32_t blocks,
                             const std::uint16_t* again, unsigned long long* count, cudaStream_t stream);

// Reads so many bytes: what a kernel that does nothing else takes.
void read_all(const void* memory, std::uint64_t bytes, std::uint32_t* sink, cudaStream_t stream);

}  // namespace croupier::gpu_writer::head
