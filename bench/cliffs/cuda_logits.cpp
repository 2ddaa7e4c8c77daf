#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>

#include "bench/cliffs/step_logits.h"
#include "bench/writer/gpu.h"
#include "croupier/writer.h"
#include "gpu_writer/cuda_memory.h"

namespace croupier::bench {
namespace {

using writer::need_cuda;

constexpr std::uint32_t kStepMs = 60'000;
// Written before each step, as a model's step would leave the GPU: with nothing of the rows in its caches.
// Meanwhile samplers prepare, and the host launches what comes behind; it takes an H100 most of a
// millisecond.
constexpr std::size_t kModelBytes = std::size_t{2} << 30U;

gpu_writer::Event timed_event() {
    cudaEvent_t event = nullptr;
    need_cuda(cudaEventCreate(&event), "cannot create an event");
    return gpu_writer::Event(event);
}

class CudaLogits : public StepLogits {
  public:
    CudaLogits(const std::string& segment_path, const measurement::LaidRows& rows, std::uint32_t columns)
        : StepLogits(rows, columns),
          row_stride_(rows.row_bytes() / proto::element_bytes(rows.dtype())),
          logits_(rows.row_bytes() * pool_rows()),
          model_(kModelBytes),
          tokens_(columns * sizeof(std::int32_t)),
          begun_(timed_event()),
          ended_(timed_event()) {
        for (std::uint32_t row = 0; row < pool_rows(); ++row) {
            need_cuda(cudaMemcpy(row_at(row), rows.bytes(row % rows.count()), rows.row_bytes(),
                                 cudaMemcpyHostToDevice),
                      "cannot copy rows to the GPU");
        }
        croupier_writer_options options;
        croupier_writer_options_init(&options);
        options.segment_path = segment_path.c_str();
        options.device = 0;
        options.rows = CROUPIER_WRITER_ROWS_LENT;
        croupier_error error{};
        need_writer(croupier_writer_attach(&options, &writer_, &error), error);
    }
    ~CudaLogits() override { croupier_writer_detach(writer_); }

    void send(std::uint64_t step) override {
        croupier_error error{};
        std::uint64_t wanted = 0;
        std::uint32_t wanted_columns = 0;
        const int found = croupier_writer_wait_step(writer_, kStepMs, &wanted, &wanted_columns, &error);
        need_writer(found, error);
        if (found == 0 || wanted != step)
            throw std::runtime_error("the writer does not find the step that was submitted");
        begin(step);
        need_cuda(cudaMemsetAsync(model_.get(), static_cast<int>(step % 256), kModelBytes, stream_.get()),
                  "cannot write GPU memory");
        need_cuda(cudaEventRecord(begun_.get(), stream_.get()), "cannot time a step");
        need_writer(
            croupier_writer_enqueue(writer_, stream_.get(), row_at(first_row(step)), row_stride_, &error),
            error);
        need_writer(croupier_writer_enqueue_awaited_tokens(writer_, stream_.get(), step, kStepMs,
                                                           static_cast<std::int32_t*>(tokens_.get()), &error),
                    error);
        need_cuda(cudaEventRecord(ended_.get(), stream_.get()), "cannot time a step");
    }

    double us() override {
        need_cuda(cudaEventSynchronize(ended_.get()), "a step failed");
        need_no_late_steps();
        float milliseconds = 0;
        need_cuda(cudaEventElapsedTime(&milliseconds, begun_.get(), ended_.get()), "cannot time a step");
        return double{milliseconds} * 1e3;
    }

    std::vector<std::int32_t> tokens() override {
        std::vector<std::int32_t> tokens(columns());
        need_cuda(cudaMemcpy(tokens.data(), tokens_.get(), tokens.size() * sizeof(tokens[0]),
                             cudaMemcpyDeviceToHost),
                  "cannot copy a step's tokens");
        return tokens;
    }

  private:
    // The step before is finished a little after its tokens are there.
    void begin(std::uint64_t step) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kStepMs);
        croupier_error error{};
        for (;;) {
            const int begun = croupier_writer_begin(writer_, step, &error);
            need_writer(begun, error);
            if (begun != CROUPIER_WRITER_BUSY) return;
            if (std::chrono::steady_clock::now() > deadline)
                throw std::runtime_error("the writer is still busy with a step");
            std::this_thread::yield();
        }
    }

    static void need_writer(int status, const croupier_error& error) {
        if (status < 0) throw std::runtime_error(error.text);
    }
    void need_no_late_steps() const {
        croupier_writer_state state;
        croupier_writer_state_init(&state);
        croupier_error error{};
        need_writer(croupier_writer_get_state(writer_, &state, &error), error);
        if (state.late_steps > 0) throw std::runtime_error("the tokens of a step did not come in time");
    }
    // A step's rows are consecutive, from any of the rows on.
    std::uint32_t pool_rows() const { return rows().count() + columns(); }
    std::byte* row_at(std::uint32_t row) const {
        return static_cast<std::byte*>(logits_.get()) + row * rows().row_bytes();
    }

    std::uint64_t row_stride_;
    writer::GpuBuffer logits_;
    writer::GpuBuffer model_;
    writer::GpuBuffer tokens_;
    writer::GpuStream stream_;
    gpu_writer::Event begun_;
    gpu_writer::Event ended_;
    croupier_writer* writer_ = nullptr;
};

}  // namespace

std::unique_ptr<StepLogits> cuda_logits(const std::string& segment_path, const measurement::LaidRows& rows,
                                        std::uint32_t columns) {
    return std::make_unique<CudaLogits>(segment_path, rows, columns);
}

}  // namespace croupier::bench
