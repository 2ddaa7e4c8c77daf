#include "gpu_writer/head_rows.h"

#include <numeric>
#include <string>
#include <vector>

namespace croupier::gpu_writer {

using shm::Errc;

shm::Result<HeadRows> HeadRows::make(const SliceShape& slice, const Memory& memory) {
    HeadRows rows(slice, memory);
    if (slice.dtype == proto::Dtype::fp32) {
        rows.status_ = cudaErrorNotSupported;
        return rows;
    }
    rows.status_ = head::load_head_kernels(slice.dtype);
    if (rows.status_ != cudaSuccess) {
        // Else the next launch of another kernel would report it as its own.
        (void)cudaGetLastError();
        return rows;
    }
    std::vector<std::int32_t> numbers(std::size_t{2} * memory.max_batch, -1);
    std::iota(numbers.begin(), numbers.begin() + memory.max_batch, 0);
    const std::string what = "the numbers of rows";
    CROUPIER_TRY(keep(rows.numbers_, device_array<std::int32_t>(numbers.size(), what)));
    CROUPIER_TRY(cuda_done(cudaMemcpy(rows.numbers_.get(), numbers.data(),
                                      numbers.size() * sizeof(numbers[0]), cudaMemcpyHostToDevice),
                           "cannot copy " + what + " to the GPU"));
    return rows;
}

shm::Result<bool> HeadRows::can_compute() const {
    if (status_ != cudaErrorNoKernelImageForDevice)
        return cuda_done(status_, "cannot load the kernels of the LM head");
    return shm::fail(
        Errc::bad_argument,
        "croupier_writer_enqueue_head() needs a GPU of compute capability 9.0 (H100, H200, GH200), "
        "and this one's is another: compute the logits and enqueue them");
}

head::HeadProduct HeadRows::product_of(const EnqueuedHead& head, std::uint32_t columns) const {
    head::HeadProduct product;
    product.dtype = slice_.dtype;
    product.hidden = head.hidden;
    product.hidden_stride = head.hidden_stride;
    product.weight = head.weight;
    product.weight_stride = head.weight_stride;
    product.columns = columns;
    product.elements = head.elements;
    product.entries = slice_.entries;
    product.lead = slice_.lead;
    product.logits_stride = stride();
    return product;
}

shm::Result<bool> HeadRows::compute(const EnqueuedHead& head, std::uint32_t columns, std::byte* to,
                                    LeanRows& rows, cudaStream_t stream) const {
    rows.logits = to;
    rows.row_stride = stride();
    if (rows.entries == 0) return true;
    const LeanMaxima maxima = lean_maxima(memory_.scratch, slice_.dtype, slice_.blocks);
    head::HeadProduct product = product_of(head, columns);
    product.logits = reinterpret_cast<std::uint16_t*>(to);
    product.maxima = reinterpret_cast<std::uint16_t*>(maxima.codes);
    product.maxima_stride = maxima.stride / sizeof(std::uint16_t);
    rows.has_maxima = true;
    return cuda_done(head::launch_head(product, stream),
                     "cannot launch the product of a step's hidden states");
}

EnqueuedRows HeadRows::found(const EnqueuedRows& given, const EnqueuedHead& head) const {
    EnqueuedRows found = given;
    found.row_stride = stride();
    if (given.row_of == nullptr) found.row_of = numbers_.get() + first_row(head);
    return found;
}

shm::Result<bool> HeadRows::compute_found(const EnqueuedHead& head, const EnqueuedRows& given,
                                          const FoundStep& step, cudaStream_t stream) const {
    if (slice_.entries == 0) return true;
    head::HeadProduct product = product_of(head, head.rows);
    product.found = {&step.record->kept, &step.record->slice.columns,
                     given.row_of == nullptr ? first_row(head) * stride() : 0};
    return cuda_done(head::launch_head(product, stream),
                     "cannot launch the product of a step's hidden states");
}

}  // namespace croupier::gpu_writer
