#include "bench/fairness/neighbours.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "croupier/client.hpp"
#include "gpu_writer/rank_writer.h"
#include "proto/sampling.h"
#include "shm/clock.h"
#include "testing/own_daemon.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kSequenceTokens = 512;

std::vector<std::byte> logits_row(std::uint32_t vocab, std::uint32_t seed, bool fp32) {
    const std::size_t size = fp32 ? sizeof(float) : sizeof(std::uint16_t);
    std::vector<std::byte> row(vocab * size);
    for (std::uint32_t token = 0; token < vocab; ++token) {
        seed = seed * 1664525U + 1013904223U;
        const float logit = static_cast<float>(seed >> 8U) / 1048576.0F - 8.0F;
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(logit) >> (fp32 ? 0U : 16U);
        // Little-endian: the low bytes come first.
        std::memcpy(row.data() + token * size, &bits, size);
    }
    return row;
}

// The most expensive request: fp32 rows, a filter that keeps nearly all tokens, and a large support, which
// needs a sort of all tokens.
client::Sequence dearest_sequence(std::uint64_t uid, std::uint32_t vocab) {
    client::Sequence made;
    made.uid = uid;
    made.prompt = {1, 2, 3};
    made.params.seed = uid;
    made.params.typical_p = 0.999;
    made.params.dynatemp_range = 0.5;
    made.params.support = std::min(vocab, proto::kMaxSupport);
    return made;
}

// The case `full` of `croupier bench decide`.
client::Sequence full_sequence(std::uint64_t uid) {
    client::Sequence made;
    made.uid = uid;
    made.prompt = {1, 2, 3};
    made.params.seed = uid;
    made.params.temperature = 0.8;
    made.params.top_k = 50;
    made.params.top_p = 0.95;
    made.params.min_p = 0.02;
    made.params.repetition_penalty = 1.1;
    made.params.frequency_penalty = 0.1;
    made.params.presence_penalty = 0.1;
    return made;
}

// A session with one rank, in which each slot always has the same sequences.
class Engine {
  public:
    Engine(const std::string& endpoint, const char* name, const Neighbours& shape, std::uint32_t columns,
           std::uint32_t slots, bool dear)
        : columns_(columns),
          vocab_(shape.vocab),
          dear_(dear),
          session_(options(endpoint, name, shape, columns, slots, dear)) {
        auto attached = gpu_writer::RankWriter::attach(session_.segment_path(), 0);
        if (!attached) throw std::runtime_error(attached.error().message);
        writer_.emplace(std::move(attached).value());
        row_ = logits_row(shape.vocab, columns, dear_);
        sequences_.resize(slots);
        laid_.resize(slots);
    }

    std::uint32_t in_flight() const { return session_.in_flight(); }
    bool waits(std::uint32_t timeout_ms) { return session_.wait(timeout_ms).has_value(); }

    // Publishes all tiles. The logits of a slot are written once and published again with every step.
    std::uint64_t prepare() {
        const std::size_t slot = next_++ % sequences_.size();
        renew(slot);
        std::vector<croupier_column> asked;
        for (const std::uint64_t uid : sequences_[slot].uids) asked.push_back({uid, nullptr});
        const std::uint64_t step = session_.submit(asked);
        if (!laid_[slot]) writer_->write_all(step, std::vector<const void*>(columns_, row_.data()));
        laid_[slot] = true;
        return step;
    }
    void publish(std::uint64_t step) {
        if (auto published = writer_->publish_all(step); !published)
            throw std::runtime_error(published.error().message);
    }

  private:
    struct Slot {
        std::vector<std::uint64_t> uids;
        std::uint32_t outputs = 0;
    };

    static client::OpenOptions options(const std::string& endpoint, const char* name, const Neighbours& shape,
                                       std::uint32_t columns, std::uint32_t slots, bool dear) {
        client::OpenOptions made;
        made.endpoint = endpoint.c_str();
        made.name = name;
        made.vocab = shape.vocab;
        made.max_batch = columns;
        made.steps_in_flight = slots;
        made.max_sequences = 2 * columns * slots;
        made.max_length = kSequenceTokens;
        made.timeout_ms = 60000;
        if (dear) made.dtype = CROUPIER_FP32;
        if (dear) made.max_support = std::min(shape.vocab, proto::kMaxSupport);
        return made;
    }

    // New sequences replace the old ones before their logs are full.
    void renew(std::size_t at) {
        Slot& slot = sequences_[at];
        if (!slot.uids.empty() && ++slot.outputs < kSequenceTokens - 8) return;
        for (const std::uint64_t uid : slot.uids) session_.finish(uid);
        slot = {};
        for (std::uint32_t i = 0; i < columns_; ++i) {
            ++last_uid_;
            session_.add(dear_ ? dearest_sequence(last_uid_, vocab_) : full_sequence(last_uid_));
            slot.uids.push_back(last_uid_);
        }
    }

    std::uint32_t columns_;
    std::uint32_t vocab_;
    bool dear_;
    client::Session session_;
    std::optional<gpu_writer::RankWriter> writer_;
    std::vector<std::byte> row_;
    std::vector<Slot> sequences_;
    std::vector<bool> laid_;
    std::uint64_t next_ = 0;
    std::uint64_t last_uid_ = 0;
};

std::vector<std::uint64_t> time_steps(Engine& engine, std::uint32_t steps) {
    std::vector<std::uint64_t> times;
    times.reserve(steps);
    for (std::uint32_t i = 0; i < steps; ++i) {
        const std::uint64_t step = engine.prepare();
        const std::uint64_t begin = shm::monotonic_ns();
        engine.publish(step);
        if (!engine.waits(20000)) throw std::runtime_error("a step of the small session was not decided");
        times.push_back(shm::monotonic_ns() - begin);
    }
    return times;
}

// Keeps every slot of the large session busy until told to stop.
void keep_busy(Engine& engine, const Neighbours& shape, const std::atomic<bool>& stop,
               std::atomic<std::uint64_t>& decided) {
    while (!stop.load(std::memory_order_relaxed)) {
        while (engine.in_flight() < shape.slots) engine.publish(engine.prepare());
        if (engine.waits(20000)) decided.fetch_add(shape.columns, std::memory_order_relaxed);
    }
    while (engine.in_flight() > 0 && engine.waits(20000)) {
    }
}

}  // namespace

StepTimes time_neighbours(const Neighbours& options) {
    testing::OwnDaemon daemon({options.croupierd, "bench-" + std::to_string(::getpid()),
                               testing::private_shm_dir(),
                               "samplers: {count: " + std::to_string(options.samplers) +
                                   "}\nsessions: {max_batch: 4096, max_sequences: 65536, max_vocab: " +
                                   std::to_string(proto::kMaxVocab) + "}\n"});
    daemon.start();
    daemon.await_ready();
    StepTimes times;
    Engine small(daemon.endpoint(), "small", options, 1, 2, false);
    Engine large(daemon.endpoint(), "large", options, options.columns, options.slots, options.dearest);
    time_steps(small, options.steps / 10 + 1);
    times.alone_ns = time_steps(small, options.steps);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> decided{0};
    std::jthread engine([&] { keep_busy(large, options, stop, decided); });
    while (decided.load(std::memory_order_relaxed) == 0) std::this_thread::yield();
    const std::uint64_t before = decided.load(std::memory_order_relaxed);
    times.beside_ns = time_steps(small, options.steps);
    times.large_columns = decided.load(std::memory_order_relaxed) - before;
    stop.store(true, std::memory_order_relaxed);
    engine.join();
    daemon.stop();
    return times;
}

}  // namespace croupier::bench
