#include "tests/gpu_writer/gpu_lean.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>

#include "gpu_writer/head_product.h"
#include "gpu_writer/lean_layout.h"
#include "testing/session_files.h"
#include "tests/gpu_writer/lean_launch.h"

namespace croupier::testing {
namespace {

void need_cuda(cudaError_t status, const char* what) {
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

template <typename T>
gpu_writer::DeviceMemory<T> on_gpu(const void* of, std::size_t count) {
    auto memory = need(gpu_writer::device_array<T>(std::max<std::size_t>(count, 1), "test memory"));
    if (of != nullptr) {
        need_cuda(cudaMemcpy(memory.get(), of, count * sizeof(T), cudaMemcpyHostToDevice), "copy to the GPU");
    }
    return memory;
}

constexpr std::size_t kReady = 0;
constexpr std::size_t kFinished = 1;
constexpr std::size_t kFirstStamp = 2;
constexpr std::size_t kFirstAnswer = kFirstStamp + proto::kLeanStamps;

class GpuLean final : public LeanSide {
  public:
    Laid lay(const LeanCase& of) override {
        GpuLeanStep step(of);
        step.launch(kReadyWord);
        wait_until([&] { return step.ready(kReadyWord); });
        Laid laid{bytes_of(step.part), bytes_of(step.slice)};
        step.synchronise();
        if (step.finished() != kReadyWord) throw std::runtime_error("a lean step ended without its ticket");
        return laid;
    }
    Bytes answer(const LeanCase& of, const std::vector<Asked>& asked) override {
        GpuLeanStep step(of);
        step.ask(asked, 78);
        for (std::size_t i = 0; i < asked.size(); ++i) wait_until([&] { return step.answered(i, 78); });
        Bytes slice = bytes_of(step.slice);
        step.synchronise();
        return slice;
    }

  private:
    static Bytes bytes_of(MappedBytes& memory) { return {memory.data(), memory.data() + memory.size()}; }
    template <typename There>
    static void wait_until(There there) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!there()) {
            if (std::chrono::steady_clock::now() > deadline) {
                throw std::runtime_error("a word of a lean step is not there after ten seconds: " +
                                         std::string(cudaGetErrorString(cudaPeekAtLastError())));
            }
        }
    }
};

}  // namespace

MappedBytes::MappedBytes(std::size_t bytes, unsigned char value)
    : size_(bytes),
      memory_(need(gpu_writer::pinned_array<unsigned char>(bytes + 16, "test memory"))),
      address_(
          reinterpret_cast<std::uint64_t>(need(gpu_writer::device_pointer(memory_.get(), "test memory")))) {
    fill(value);
}

void MappedBytes::fill(unsigned char value) {
    std::memset(memory_.get(), value, size_);
}

GpuLeanStep::GpuLeanStep(const LeanCase& of)
    : part(poisoned(of).part.size(), kPoison),
      slice(poisoned(of).slice.size(), kPoison),
      stream_(need(gpu_writer::make_stream())),
      logits_(on_gpu<std::byte>(of.rows.bytes.data(), of.rows.bytes.size())),
      wants_(of.wants.size() * sizeof(gpu_writer::LeanWant), 0),
      masks_(on_gpu<std::uint32_t>(of.masks.data(), of.masks.size())),
      names_(on_gpu<std::uint32_t>(of.names.data(), of.names.size())),
      words_((kFirstAnswer + of.wants.size()) * 8, 0),
      columns_(of.columns()) {
    const gpu_writer::LeanShape shape = gpu_writer::lean_shape(of.geometry, of.rank, columns_);
    const proto::Dtype dtype = of.geometry.dtype;
    rows_ = rows_at(logits_.get(), masks_.get(), names_.get(), of, shape);
    target_ = {part.address(), shape.layout, shape.room};
    scratch_ = on_gpu<std::byte>(
        nullptr, gpu_writer::lean_scratch_bytes(dtype, shape.slice.blocks, of.geometry.max_batch));
    spread_scratch_ = on_gpu<std::byte>(nullptr, gpu_writer::spread_scratch_bytes());
    queue_ = need(gpu_writer::RequestQueue::make(dtype, shape.slice.blocks));
    slice_ = {slice.address(), columns_, of.places()};
    std::memcpy(wants_.data(), of.wants.data(), wants_.size());
    whole_ = whole_columns(of);
    spreads_ = spread_columns(of);
    need_cuda(cudaDeviceSynchronize(), "prepare a lean step");
}

GpuLeanStep::~GpuLeanStep() {
    queue_->close(opening_);
    (void)cudaStreamSynchronize(stream_.get());
}

void GpuLeanStep::compute(const gpu_writer::EnqueuedHead& head) {
    const gpu_writer::LeanMeasured measured =
        gpu_writer::lean_measured(scratch_.get(), rows_.dtype, rows_.blocks, columns_);
    const std::uint64_t stride = std::uint64_t{rows_.blocks} * proto::kBlockIds;
    logits_ = on_gpu<std::byte>(nullptr, stride * columns_ * 2);
    const auto poison = [&](void* at, std::size_t bytes) {
        need_cuda(cudaMemsetAsync(at, kPoison, bytes, stream_.get()), "poison what is computed");
    };
    poison(measured.maxima, measured.maxima_stride * columns_);
    poison(measured.sums, measured.sums_stride * columns_ * sizeof(gpu_writer::LeanSums));
    poison(logits_.get(), stride * columns_ * 2);
    rows_.logits = logits_.get() + rows_.lead * sizeof(std::uint16_t);
    rows_.row_stride = stride;
    gpu_writer::head::HeadProduct product;
    product.dtype = rows_.dtype;
    product.hidden = head.hidden;
    product.hidden_stride = head.hidden_stride;
    product.weight = head.weight;
    product.weight_stride = head.weight_stride;
    product.columns = columns_;
    product.elements = head.elements;
    product.entries = rows_.entries;
    product.lead = rows_.lead;
    product.logits = reinterpret_cast<std::uint16_t*>(logits_.get());
    product.first_block = rows_.first_block;
    product.logits_stride = stride;
    product.maxima = reinterpret_cast<std::uint16_t*>(measured.maxima);
    product.maxima_stride = measured.maxima_stride / sizeof(std::uint16_t);
    if (columns_ <= gpu_writer::head::kMostTold) {
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        product.wants = reinterpret_cast<const gpu_writer::LeanWant*>(wants_.address());
        product.sums = measured.sums;
        product.sums_stride = measured.sums_stride;
        product.floors = measured.floors;
        rows_.source = {head.hidden,        head.hidden_stride, head.weight,
                        head.weight_stride, head.elements,      product.wants};
        rows_.has_sums = true;
    }
    need_cuda(gpu_writer::head::launch_head(product, stream_.get()), "multiply by a head");
    need_cuda(cudaStreamSynchronize(stream_.get()), "multiply by a head");
    rows_.has_maxima = true;
}

void GpuLeanStep::launch(std::uint64_t word) {
    need_cuda(gpu_writer::launch_whole_columns(rows_, slice_, whole_, stream_.get()), "lay whole columns");
    need_cuda(gpu_writer::launch_spreads(rows_, target_, spreads_, spread_scratch_.get(), stream_.get()),
              "sum row spreads");
    const std::span<const gpu_writer::LeanWant> wants(
        reinterpret_cast<const gpu_writer::LeanWant*>(wants_.data()), columns_);
    need_cuda(
        gpu_writer::launch_lean(rows_, target_, wants,
                                {words_.address() + kReady * 8, word, words_.address() + kFirstStamp * 8,
                                 words_.address() + kFinished * 8, word},
                                scratch_.get(), stream_.get()),
        "launch a lean step");
}

void GpuLeanStep::ask(const std::vector<Asked>& asked, std::uint64_t word) {
    queue_->close(opening_);
    ++opening_;
    queue_->open({rows_, slice_, opening_, opening_, stream_.get()});
    // By the first block request where no stream waits for the tokens, and in that stream where there is one.
    if (asked.size() % 2 == 0) need(queue_->answer_in(stream_.get(), {}));
    std::size_t answer = kFirstAnswer;
    for (const Asked& each : asked) {
        const auto blocks = std::span(each.bitmap).first((rows_.blocks + 63) / 64);
        const std::uint32_t place =
            reinterpret_cast<const gpu_writer::LeanWant*>(wants_.data())[each.column].place;
        queue_->post(opening_, {each.column, place, blocks, words_.address() + answer++ * 8, word});
    }
}

std::uint64_t GpuLeanStep::load(std::size_t word) {
    std::atomic_ref value(reinterpret_cast<std::uint64_t*>(words_.data())[word]);
    // acquire: what the GPU stored before it is there.
    return value.load(std::memory_order_acquire);
}

bool GpuLeanStep::stamped(std::uint32_t of_part, std::uint64_t word) {
    return load(kFirstStamp + of_part) == word;
}

bool GpuLeanStep::ready(std::uint64_t word) {
    return load(kReady) == word;
}

bool GpuLeanStep::answered(std::size_t asked, std::uint64_t word) {
    return load(kFirstAnswer + asked) == word;
}

std::uint64_t GpuLeanStep::finished() {
    return load(kFinished);
}

void GpuLeanStep::synchronise() {
    queue_->close(opening_);
    need_cuda(cudaStreamSynchronize(stream_.get()), "a lean step failed");
}

std::unique_ptr<LeanSide> make_gpu_lean() {
    return std::make_unique<GpuLean>();
}

}  // namespace croupier::testing
