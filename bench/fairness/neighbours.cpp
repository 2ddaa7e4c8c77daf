#include "bench/fairness/neighbours.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <thread>

#include "gpu_writer/rank_writer.h"
#include "measurement/laid_rows.h"
#include "shm/clock.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kOutputs = 512;
constexpr std::uint32_t kPatienceMs = 60'000;
constexpr std::uint32_t kWarmUp = 20;

std::vector<std::int32_t> prompt_of(std::size_t tokens, std::uint32_t vocab) {
    std::vector<std::int32_t> prompt;
    for (std::size_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<std::int32_t>(i * i % vocab));
    return prompt;
}

// A session with one rank, in which each slot always has the same sequences.
class Engine {
  public:
    Engine(const std::string& endpoint, const char* name, const measurement::BenchRows& rows,
           const NeighbourKind& kind, Shape shape)
        : shape_(shape),
          kind_(kind),
          rows_(rows, kind.dtype, measurement::Ranks{}, false),
          prompt_(prompt_of(kind.prompt, rows.vocab())),
          session_(options(endpoint, name)) {
        auto attached = gpu_writer::RankWriter::attach(session_.segment_path(), 0);
        if (!attached) throw std::runtime_error(attached.error().message);
        writer_.emplace(std::move(attached).value());
        slots_.resize(shape.slots);
    }
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine() {
        try {
            session_.close();
        } catch (const client::Failure&) {
            // The daemon is gone, and its sessions with it.
        }
    }

    std::uint32_t in_flight() const { return session_.in_flight(); }
    void await_step() {
        if (!session_.wait(kPatienceMs)) throw std::runtime_error("a step was not decided in a minute");
    }

    // Of a step all but its publication. The logits of a slot are written once and published again with every
    // step.
    std::uint64_t prepare() {
        Slot& slot = slots_[next_++ % slots_.size()];
        if (slot.outputs == 0) renew(slot);
        slot.outputs = kind_.renewed ? 0 : (slot.outputs + 1) % kOutputs;
        std::vector<croupier_column> asked;
        for (const std::uint64_t uid : slot.uids) asked.push_back({uid, nullptr, 1, 0});
        const std::uint64_t step = session_.submit(asked);
        if (!slot.laid) writer_->write_all(step, std::vector<const void*>(shape_.columns, rows_.bytes(0)));
        slot.laid = true;
        return step;
    }
    void publish(std::uint64_t step) {
        if (auto published = writer_->publish_all(step); !published)
            throw std::runtime_error(published.error().message);
    }

  private:
    struct Slot {
        std::vector<std::uint64_t> uids;
        std::uint32_t outputs = 0;  // 0: it needs new sequences
        bool laid = false;
    };

    client::OpenOptions options(const std::string& endpoint, const char* name) const {
        client::OpenOptions made;
        made.endpoint = endpoint.c_str();
        made.name = name;
        made.vocab = rows_.vocab();
        made.dtype = static_cast<std::uint32_t>(kind_.dtype);
        made.max_batch = shape_.columns;
        made.steps_in_flight = shape_.slots;
        made.max_sequences = 2 * shape_.columns * shape_.slots;
        made.max_length = kind_.prompt + 2 * kOutputs;
        made.timeout_ms = kPatienceMs;
        const client::Sequence one = sequence();
        made.max_support = one.params.support;
        made.max_logprobs = one.params.logprobs;
        made.max_bias = static_cast<std::uint32_t>(one.bias.size());
        made.max_list_tokens = static_cast<std::uint32_t>(one.allowed_ids.size() + one.bad_words.size());
        return made;
    }

    client::Sequence sequence() const {
        client::Sequence made;
        made.prompt = prompt_;
        kind_.ask(made, rows_.vocab());
        return made;
    }

    void renew(Slot& slot) {
        for (const std::uint64_t uid : slot.uids) session_.finish(uid);
        slot.uids.clear();
        client::Sequence made = sequence();
        for (std::uint32_t i = 0; i < shape_.columns; ++i) {
            made.uid = made.params.seed = ++last_uid_;
            session_.add(made);
            slot.uids.push_back(made.uid);
        }
    }

    Shape shape_;
    NeighbourKind kind_;
    measurement::LaidRows rows_;
    std::vector<std::int32_t> prompt_;
    client::Session session_;
    std::optional<gpu_writer::RankWriter> writer_;
    std::vector<Slot> slots_;
    std::uint64_t next_ = 0;
    std::uint64_t last_uid_ = 0;
};

// As engines do, it submits a step as soon as the one before is decided; its logits come later.
std::vector<std::uint64_t> time_steps(Engine& engine, Timing timing) {
    std::vector<std::uint64_t> times;
    times.reserve(timing.steps);
    auto due = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < timing.steps; ++i) {
        const std::uint64_t step = engine.prepare();
        due = std::max(due + timing.period, std::chrono::steady_clock::now());
        std::this_thread::sleep_until(due);
        const std::uint64_t begin = shm::monotonic_ns();
        engine.publish(step);
        engine.await_step();
        times.push_back(shm::monotonic_ns() - begin);
    }
    return times;
}

// Keeps every slot of the neighbour busy until told to stop.
void keep_busy(Engine& engine, Shape shape, const std::atomic<bool>& stop,
               std::atomic<std::uint64_t>& decided) {
    while (!stop.load(std::memory_order_relaxed)) {
        while (engine.in_flight() < shape.slots) engine.publish(engine.prepare());
        engine.await_step();
        decided.fetch_add(shape.columns, std::memory_order_relaxed);
    }
    while (engine.in_flight() > 0) engine.await_step();
}

}  // namespace

Neighbours::Neighbours(const testing::OwnDaemon& daemon, std::uint32_t vocab, Shape timed)
    : daemon_(daemon), rows_(measurement::BenchRows::generated(vocab, 1)), timed_(timed) {}

StepTimes Neighbours::time_alone(Timing timing) const {
    Engine timed(daemon_.endpoint(), "timed", rows_, neighbour_kinds().front(), timed_);
    time_steps(timed, {kWarmUp, timing.period});
    return {time_steps(timed, timing)};
}

StepTimes Neighbours::time_beside(const NeighbourKind& kind, Shape neighbour, Timing timing) const {
    Engine timed(daemon_.endpoint(), "timed", rows_, neighbour_kinds().front(), timed_);
    Engine other(daemon_.endpoint(), "neighbour", rows_, kind, neighbour);
    time_steps(timed, {kWarmUp, timing.period});
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> decided{0};
    std::jthread busy([&] { keep_busy(other, neighbour, stop, decided); });
    while (decided.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
    const std::uint64_t before = decided.load(std::memory_order_relaxed);
    StepTimes times{time_steps(timed, timing)};
    times.neighbour_columns = static_cast<double>(decided.load(std::memory_order_relaxed) - before) /
                              static_cast<double>(timing.steps);
    stop.store(true, std::memory_order_relaxed);
    return times;
}

}  // namespace croupier::bench
