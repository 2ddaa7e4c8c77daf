#include "bench/windows/window_steps.h"

#include <unistd.h>

#include <bit>
#include <stdexcept>

#include "bench/all_controls.h"
#include "shm/segment.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kBaseRows = 8;
constexpr std::uint32_t kOutputs = 1024;  // then another sequence begins
// Above all others, whatever the penalties.
constexpr float kRaisedTo = 60.0F;

std::uint16_t bf16_of(float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
}

testing::OwnDaemonOptions daemon_options(const WindowsOptions& options) {
    const std::string rows = std::to_string(options.windows * (1 + options.drafts));
    return {options.croupierd, "bench-" + std::to_string(::getpid()), testing::private_shm_dir(),
            "samplers: {count: " + std::to_string(options.samplers) +
                ", wait: spin}\nsessions: {max_batch: " + rows + "}\n"};
}

std::string endpoint_of(testing::OwnDaemon& daemon) {
    daemon.start();
    daemon.await_ready();
    return daemon.endpoint();
}

client::OpenOptions session_options(const std::string& endpoint, const WindowsOptions& options) {
    client::OpenOptions open;
    open.dtype = CROUPIER_BF16;
    open.name = "bench";
    open.endpoint = endpoint.c_str();
    open.vocab = options.vocab;
    open.max_batch = options.windows * (1 + options.drafts);
    open.max_windows = options.windows;
    open.steps_in_flight = 2;
    open.max_sequences = options.windows;
    open.max_length = options.history + 2 * kOutputs;
    open.transport = options.lean ? CROUPIER_TRANSPORT_LEAN : CROUPIER_TRANSPORT_ROWS;
    return open;
}

gpu_writer::RankWriter attached(const std::string& segment_path) {
    auto writer = gpu_writer::RankWriter::attach(segment_path, 0);
    if (!writer) throw std::runtime_error(writer.error().message);
    return std::move(writer).value();
}

}  // namespace

WindowSteps::WindowSteps(const WindowsOptions& options)
    : options_(options),
      daemon_(daemon_options(options)),
      session_(session_options(endpoint_of(daemon_), options)),
      writer_(attached(session_.segment_path())) {
    lay_base_rows();
}

void WindowSteps::lay_base_rows() {
    std::uint32_t state = 1;
    for (std::uint32_t base = 0; base < kBaseRows; ++base) {
        std::vector<std::uint16_t>& row = base_rows_.emplace_back(options_.vocab);
        for (auto& value : row) {
            state = state * 1664525U + 1013904223U;
            value = bf16_of(static_cast<float>(state >> 16U) / 4096.0F - 8.0F);
        }
        raised_.push_back(static_cast<std::int32_t>(state % options_.vocab));
        row[static_cast<std::size_t>(raised_.back())] = bf16_of(kRaisedTo);
    }
}

void WindowSteps::add_sequences() {
    for (std::uint32_t i = 0; i < outputs_.size(); ++i) session_.finish(first_uid_ + i);
    first_uid_ += outputs_.size();
    outputs_.assign(options_.windows, 0);
    for (std::uint32_t i = 0; i < options_.windows; ++i) {
        client::Sequence made;
        made.uid = first_uid_ + i;
        for (std::uint32_t token = 0; token < options_.history; ++token)
            made.prompt.push_back(static_cast<std::int32_t>((token * 7919U + i * 31U) % options_.vocab));
        made.params.temperature = 0.0;
        if (!options_.greedy) ask_all_controls(made);
        session_.add(made);
    }
}

std::uint32_t WindowSteps::base_of(std::uint64_t uid, std::uint32_t position) const {
    return static_cast<std::uint32_t>((uid + position) % kBaseRows);
}

std::uint32_t WindowSteps::right_drafts(StepKind kind) {
    if (kind == StepKind::right) return options_.drafts;
    std::uint32_t right = 0;
    while (kind == StepKind::mixed && right < options_.drafts) {
        random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
        if (static_cast<double>(random_ >> 11U) * 0x1p-53 >= options_.accepted) break;
        ++right;
    }
    return right;
}

void WindowSteps::plan_windows(StepKind kind) {
    columns_.clear();
    rows_.clear();
    inputs_.clear();
    const std::uint32_t drafts = kind == StepKind::plain ? 0 : options_.drafts;
    for (std::uint32_t i = 0; i < options_.windows; ++i) {
        const std::uint64_t uid = first_uid_ + i;
        const auto head = static_cast<std::uint32_t>(rows_.size());
        const std::uint32_t right = right_drafts(kind);
        columns_.push_back({uid, nullptr, 1 + drafts, 0});
        for (std::uint32_t row = 0; row <= drafts; ++row) {
            const std::uint32_t position = outputs_[i] + row;
            rows_.push_back(base_rows_[base_of(uid, position)].data());
            if (row == 0) {
                inputs_.push_back({proto::RowInput::kAny, head});
            } else {
                const std::int32_t token = raised_[base_of(uid, position - 1)];
                inputs_.push_back({row <= right ? token : token ^ 1, head + row - 1});
            }
        }
    }
}

void WindowSteps::step(StepKind kind, KindTimes& times) {
    if (outputs_.empty() || outputs_.front() + options_.drafts >= kOutputs) add_sequences();
    plan_windows(kind);
    const std::uint64_t step = session_.submit(columns_);
    if (auto sent = writer_.send(step, rows_, inputs_); !sent) throw std::runtime_error(sent.error().message);
    const auto decided = session_.wait(20000);
    if (!decided) throw std::runtime_error("a step was not decided");
    for (std::uint32_t row = 0; row < decided->decisions.size(); ++row) {
        const croupier_decision& decision = decided->decisions[row];
        const bool rejected = decision.error == CROUPIER_DECISION_REJECTED;
        if (decision.error != 0 && !rejected)
            throw std::runtime_error(croupier_decision_error_text(decision.error));
        ++(rejected ? times.rejected : times.decided);
        if (!rejected) ++outputs_[decision.uid - first_uid_];
    }
    const auto& head = writer_.segment().decision_head(writer_.segment().slot_of(step));
    times.ns.push_back(head.last_commit_ns.load(std::memory_order_relaxed) -
                       head.logits_ready_ns.load(std::memory_order_relaxed));
}

}  // namespace croupier::bench
