#include <stdexcept>
#include <utility>

#include "bench/cliffs/step_logits.h"
#include "gpu_writer/rank_writer.h"
#include "shm/segment.h"

namespace croupier::bench {
namespace {

template <typename T>
T need(shm::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

class HostLogits : public StepLogits {
  public:
    HostLogits(const std::string& segment_path, const measurement::LaidRows& rows, std::uint32_t columns)
        : StepLogits(rows, columns), writer_(need(gpu_writer::RankWriter::attach(segment_path, 0))) {}

    void send(std::uint64_t step) override {
        step_ = step;
        std::vector<const void*> values;
        for (std::uint32_t column = 0; column < columns(); ++column)
            values.push_back(rows().bytes(row_of(step, column)));
        need(writer_.send(step, values));
    }

    double us() override {
        const shm::Segment& segment = writer_.segment();
        const auto& head = segment.decision_head(segment.slot_of(step_));
        const std::uint64_t ready = head.logits_ready_ns.load(std::memory_order_relaxed);
        const std::uint64_t done = head.last_commit_ns.load(std::memory_order_relaxed);
        return static_cast<double>(done - ready) * 1e-3;
    }

    std::vector<std::int32_t> tokens() override { return {}; }

  private:
    gpu_writer::RankWriter writer_;
    std::uint64_t step_ = 0;
};

}  // namespace

std::unique_ptr<StepLogits> host_logits(const std::string& segment_path, const measurement::LaidRows& rows,
                                        std::uint32_t columns) {
    return std::make_unique<HostLogits>(segment_path, rows, columns);
}

}  // namespace croupier::bench
