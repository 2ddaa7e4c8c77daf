#include "gpu_writer/head_rows.h"

#include <algorithm>
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
    std::vector<std::int32_t> numbers(memory.max_batch);
    std::iota(numbers.begin(), numbers.end(), 0);
    const std::string what = "the numbers of rows";
    CROUPIER_TRY(keep(rows.numbers_, device_array<std::int32_t>(numbers.size(), what)));
    CROUPIER_TRY(cuda_done(cudaMemcpy(rows.numbers_.get(), numbers.data(),
                                      numbers.size() * sizeof(numbers[0]), cudaMemcpyHostToDevice),
                           "cannot copy " + what + " to the GPU"));
    CROUPIER_TRY(keep(rows.wants_, device_array<LeanWant>(std::size_t{memory.slots} * head::kMostTold,
                                                          "what columns want")));
    rows.wants_of_.resize(memory.slots);
    for (WantsOfSlot& slot : rows.wants_of_) {
        CROUPIER_TRY(keep(slot.there, make_event()));
    }
    return rows;
}

shm::Result<bool> HeadRows::can_compute() const {
    if (status_ == cudaErrorNotSupported)
        return shm::fail(Errc::bad_argument,
                         "croupier_writer_enqueue_head() needs logits in bf16 or fp16, and a GPU driver with "
                         "cuTensorMapEncodeTiled(), as of CUDA 12 on: compute the logits and enqueue them");
    if (status_ != cudaErrorNoKernelImageForDevice)
        return cuda_done(status_, "cannot load the kernels of the LM head");
    return shm::fail(
        Errc::bad_argument,
        "croupier_writer_enqueue_head() needs a GPU of compute capability 9.0 (H100, H200, GH200), "
        "and this one's is another: compute the logits and enqueue them");
}

head::HeadProduct HeadRows::product_of(const EnqueuedHead& head, std::uint32_t columns, const void* logits,
                                       std::uint64_t stride) const {
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
    product.logits = static_cast<std::uint16_t*>(const_cast<void*>(logits)) - slice_.lead;
    product.logits_stride = stride;
    return product;
}

void HeadRows::copy_wants(const Wants& wants, cudaStream_t stream) {
    if (!is_used_) return;
    const auto tells = [](const LeanWant& want) {
        return head::is_drawn_alone(want) || want.flags.has_any(Want::sum_at_one | Want::sum_at_scale);
    };
    WantsOfSlot& own = wants_of_[wants.slot];
    own.some =
        wants.here.size() <= head::kMostTold && std::any_of(wants.here.begin(), wants.here.end(), tells);
    if (!own.some) return;
    own.status = cudaMemcpyAsync(wants_.get() + std::size_t{wants.slot} * head::kMostTold, wants.here.data(),
                                 wants.here.size_bytes(), cudaMemcpyHostToDevice, stream);
    if (own.status == cudaSuccess) own.status = cudaEventRecord(own.there.get(), stream);
}

shm::Result<const LeanWant*> HeadRows::await_wants(std::uint32_t slot, cudaStream_t stream) const {
    const WantsOfSlot& own = wants_of_[slot];
    if (!own.some) return nullptr;
    CROUPIER_TRY(cuda_done(own.status, "cannot copy what a step's columns want to the GPU"));
    CROUPIER_TRY(cuda_done(cudaStreamWaitEvent(stream, own.there.get()),
                           "cannot wait for what a step's columns want"));
    return wants_.get() + std::size_t{slot} * head::kMostTold;
}

shm::Result<bool> HeadRows::compute(const EnqueuedHead& head, const Wants& wants, bool are_lent,
                                    LeanRows& rows, cudaStream_t stream) {
    is_used_ = true;
    if (rows.entries == 0) return true;
    const auto columns = static_cast<std::uint32_t>(wants.here.size());
    const LeanMeasured measured = lean_measured(memory_.scratch, slice_.dtype, slice_.blocks, columns);
    head::HeadProduct product = product_of(head, columns, rows.logits, rows.row_stride);
    product.first_block = rows.first_block;
    product.maxima = reinterpret_cast<std::uint16_t*>(measured.maxima);
    product.maxima_stride = measured.maxima_stride / sizeof(std::uint16_t);
    CROUPIER_TRY_VALUE(told, await_wants(wants.slot, stream));
    if (told != nullptr) {
        product.wants = told;
        product.sums = measured.sums;
        product.sums_stride = measured.sums_stride;
        rows.has_sums = true;
        if (are_lent && std::any_of(wants.here.begin(), wants.here.end(), head::is_drawn_alone)) {
            product.floors = measured.floors;
            rows.source = {head.hidden,        head.hidden_stride, head.weight,
                           head.weight_stride, head.elements,      wants.there};
        }
    }
    rows.has_maxima = true;
    return cuda_done(head::launch_head(product, stream),
                     "cannot launch the product of a step's hidden states");
}

EnqueuedRows HeadRows::found(const EnqueuedRows& given, const EnqueuedHead& head) const {
    EnqueuedRows found = given;
    if (found.row_of == nullptr) found.row_of = numbers_.get();
    found.row_end = head.rows;
    return found;
}

shm::Result<bool> HeadRows::compute_found(const EnqueuedHead& head, const EnqueuedRows& given,
                                          const FoundStep& step, cudaStream_t stream) const {
    if (slice_.entries == 0) return true;
    head::HeadProduct product = product_of(head, head.rows, given.logits, given.row_stride);
    product.found_columns = &step.record->slice.columns;
    return cuda_done(head::launch_head(product, stream),
                     "cannot launch the product of a step's hidden states");
}

}  // namespace croupier::gpu_writer
