// The kernels of a lean step and their launches, for one data type. Compiled with the race's flags
// (CMakeLists.txt): the blocks' bounds are the host's bit for bit.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpu_writer/lean_kernels.h"
#include "gpu_writer/lean_replay.h"
#include "gpu_writer/lean_send.cuh"

namespace croupier::gpu_writer::lean {

using proto::Dtype;

// Where the kernel reads what columns want.
template <std::uint32_t kMost>
struct ArgumentWants {
    LeanWant each[kMost];
    __device__ const LeanWant& of(std::uint32_t column) const { return each[column]; }
};
struct StoredWants {
    const LeanWant* each;
    __device__ const LeanWant& of(std::uint32_t column) const { return each[column]; }
};

template <Dtype D, typename Wants, bool kFindsRacers, bool kSelects>
__global__ void __launch_bounds__(kLeanThreads, kChunksAMultiprocessor)
    send_lean(LeanRows rows, LeanTarget target, const __grid_constant__ Wants wants, LeanEnd end,
              Scratch scratch, proto::LeanOrder order) {
    await_kernel_before();
    const std::uint32_t column = order.column_at(blockIdx.y);
    send_in_order<D, kFindsRacers, kSelects>(rows, target, wants.of(column), end, scratch, order, blockIdx.y,
                                             column);
}

// Of a replay's step the launch does not know how many columns it has: blocks of the grid that have none end
// at once. Where a session may have more than so many, they come one after another.
constexpr std::uint32_t kFoundTogether = 256;

// As LeanOrder, of a step that may have windows.
struct FoundOrder {
    const LeanRecord& record;
    const SentPlace* sent;

    __device__ bool by_window() const { return record.windows != 0; }
    __device__ std::uint32_t columns() const { return record.slice.columns; }
    __device__ std::uint32_t parts() const {
        return by_window() ? proto::WindowOrder::parts() : record.order.parts();
    }
    __device__ std::uint32_t column_at(std::uint32_t place) const {
        return by_window() ? sent[place].column : record.order.column_at(place);
    }
    __device__ std::uint32_t part_at(std::uint32_t place) const {
        return by_window() ? sent[place].part : record.order.part_at(place);
    }
    __device__ std::uint32_t size_of(std::uint32_t part) const {
        return by_window() ? record.part_sizes[part] : record.order.size_of(part);
    }
};

// The column at a place of a step whose arrays were given. What has no row in its window is not sent, and
// counts as sent.
template <Dtype D>
__device__ void send_gathered(LeanRows rows, const LeanTarget& target, const FoundStep& step,
                              const Scratch& scratch, std::uint32_t place) {
    const LeanRecord& record = *step.record;
    const FoundOrder order{record, step.sent};
    const std::uint32_t column = order.column_at(place);
    if (!find_row<D>(rows, column) && order.by_window()) {
        if (blockIdx.x == 0) finish_column(record.end, order, place, scratch);
        return;
    }
    send_in_order<D, true, true>(rows, target, step.wants[column], record.end, scratch, order, place, column);
}

// The step that a replay has found, with whatever its columns want. The loop leaves some hundred bytes of
// spilled registers, which those do without that may have few columns.
template <Dtype D, bool kMayBeMany, bool kGathers>
__global__ void __launch_bounds__(kLeanThreads, kChunksAMultiprocessor)
    send_found(LeanRows rows, LeanTarget target, FoundStep step, Scratch scratch) {
    const LeanRecord& record = *step.record;
    if (blockIdx.y >= record.slice.columns) return;
    rows.masks = record.masks;
    rows.names = record.names;
    target.part = record.part;
    const auto send = [&](std::uint32_t place) {
        if constexpr (kGathers) return send_gathered<D>(rows, target, step, scratch, place);
        const std::uint32_t column = record.order.column_at(place);
        send_in_order<D, true, true>(rows, target, step.wants[column], record.end, scratch, record.order,
                                     place, column);
    };
    if constexpr (kMayBeMany) {
        for (std::uint32_t place = blockIdx.y; place < record.slice.columns; place += gridDim.y) {
            send(place);
            __syncthreads();
        }
    } else {
        send(blockIdx.y);
    }
}

template <Dtype D>
auto found_kernel_of(std::uint32_t columns, bool gathers) {
    const bool many = columns > kFoundTogether;
    if (gathers) return many ? send_found<D, true, true> : send_found<D, false, true>;
    return many ? send_found<D, true, false> : send_found<D, false, false>;
}

template <Dtype D, typename Wants>
auto kernel_of(bool finds_racers, bool selects) {
    if (selects) return send_lean<D, Wants, true, true>;
    return finds_racers ? send_lean<D, Wants, true, false> : send_lean<D, Wants, false, false>;
}

template <typename Kernel>
void ask_for_shared(Kernel kernel, std::size_t bytes) {
    // Every GPU has 48 KiB unasked, of which the kernels take less than 16 for themselves. More is asked for,
    // and the launch fails where it is not there.
    constexpr std::size_t kUnasked = std::size_t{32} * 1024;
    if (bytes < kUnasked) return;
    (void)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

template <Dtype D, typename Wants>
void launch_with(const Wants& wants, const LeanRows& rows, const LeanTarget& target,
                 std::span<const LeanWant> of_columns, const LeanEnd& end, const Scratch& scratch,
                 cudaStream_t stream) {
    const auto selects = [](const LeanWant& want) { return want.mask_row != 0 || want.named != 0; };
    const auto kernel = kernel_of<D, Wants>(std::any_of(of_columns.begin(), of_columns.end(), sends_racers),
                                            std::any_of(of_columns.begin(), of_columns.end(), selects));
    const std::size_t shared = rank_bytes(rows.blocks);
    ask_for_shared(kernel, shared);
    cudaLaunchConfig_t config{};
    const auto columns = static_cast<std::uint32_t>(of_columns.size());
    config.gridDim = {chunks_of(rows.blocks), columns, 1};
    config.blockDim = kLeanThreads;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    // Its blocks come while the product's last ones end, and wait for them.
    cudaLaunchAttribute overlaps{};
    overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlaps.val.programmaticStreamSerializationAllowed = 1;
    if (rows.has_maxima) {
        config.attrs = &overlaps;
        config.numAttrs = 1;
    }
    (void)cudaLaunchKernelEx(&config, kernel, rows, target, wants, end, scratch, proto::LeanOrder(columns));
}

// A launch copies all of them, also those that no column has.
using FewWants = ArgumentWants<64>;
using ManyWants = ArgumentWants<kMostInArguments>;

template <typename Wants>
Wants as_arguments(std::span<const LeanWant> wants) {
    Wants arguments;
    std::copy(wants.begin(), wants.end(), arguments.each);
    return arguments;
}

template <Dtype D>
void send(const LeanRows& rows, const LeanTarget& target, std::span<const LeanWant> wants, const LeanEnd& end,
          const Scratch& scratch, cudaStream_t stream) {
    if (wants.size() <= std::size(FewWants{}.each))
        return launch_with<D>(as_arguments<FewWants>(wants), rows, target, wants, end, scratch, stream);
    if (wants.size() <= kMostInArguments)
        return launch_with<D>(as_arguments<ManyWants>(wants), rows, target, wants, end, scratch, stream);
    (void)cudaMemcpyAsync(scratch.wants, wants.data(), wants.size_bytes(), cudaMemcpyHostToDevice, stream);
    launch_with<D>(StoredWants{scratch.wants}, rows, target, wants, end, scratch, stream);
}

template <Dtype D>
void send_begun(const LeanRows& rows, const LeanTarget& target, const FoundStep& step, std::uint32_t columns,
                bool gathers, const Scratch& scratch, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = {chunks_of(rows.blocks), std::min(columns, kFoundTogether), 1};
    config.blockDim = kLeanThreads;
    config.dynamicSmemBytes = rank_bytes(rows.blocks);
    const auto kernel = found_kernel_of<D>(columns, gathers);
    ask_for_shared(kernel, config.dynamicSmemBytes);
    config.stream = stream;
    (void)cudaLaunchKernelEx(&config, kernel, rows, target, step, scratch);
}

template <Dtype D>
cudaError_t load_all() {
    cudaError_t status = cudaSuccess;
    for (const auto& [finds_racers, selects] : {std::pair{false, false}, {true, false}, {true, true}}) {
        load(kernel_of<D, FewWants>(finds_racers, selects), status);
        load(kernel_of<D, ManyWants>(finds_racers, selects), status);
        load(kernel_of<D, StoredWants>(finds_racers, selects), status);
    }
    for (const bool gathers : {false, true}) {
        load(found_kernel_of<D>(1, gathers), status);
        load(found_kernel_of<D>(kFoundTogether + 1, gathers), status);
    }
    return status;
}

struct LeanLaunches {
    decltype(&load_all<Dtype::bf16>) load;
    decltype(&send<Dtype::bf16>) send;
    decltype(&send_begun<Dtype::bf16>) send_found;
};

template <Dtype D>
constexpr LeanLaunches launches_of() {
    return {load_all<D>, send<D>, send_begun<D>};
}

// Each is compiled by itself: a data type takes minutes.
extern const LeanLaunches kBf16Launches;
extern const LeanLaunches kFp16Launches;
extern const LeanLaunches kFp32Launches;

}  // namespace croupier::gpu_writer::lean
