#include <unistd.h>

#include <atomic>
#include <bit>
#include <stdexcept>

#include "bench/all_controls.h"
#include "bench/ipc/rounds.h"
#include "croupier/client.hpp"
#include "gpu_writer/rank_writer.h"
#include "shm/clock.h"
#include "shm/segment.h"
#include "testing/own_daemon.h"

namespace croupier::bench {
namespace {

constexpr std::uint32_t kSequenceTokens = 4096;

std::vector<std::uint16_t> logits_row(std::uint32_t vocab) {
    std::vector<std::uint16_t> row(vocab);
    std::uint32_t state = 1;
    for (auto& value : row) {
        state = state * 1664525U + 1013904223U;
        const float logit = static_cast<float>(state >> 16U) / 4096.0F - 8.0F;
        value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(logit) >> 16U);
    }
    return row;
}

client::Sequence sequence(std::uint64_t uid, const DecisionOptions& decision) {
    client::Sequence made;
    made.uid = uid;
    made.prompt = {1, 2, 3};
    made.params.temperature = 0.0;
    if (!decision.logprob) made.params.flags |= CROUPIER_NO_LOGPROB;
    if (!decision.greedy) ask_all_controls(made);
    return made;
}

client::OpenOptions session_options(const std::string& endpoint, const DecisionOptions& decision) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.name = "bench";
    options.endpoint = endpoint.c_str();
    options.vocab = decision.vocab;
    options.max_batch = 1;
    options.steps_in_flight = 2;
    options.max_sequences = 2;
    options.max_length = kSequenceTokens;
    options.decisions_over_zmq = decision.over_zmq;
    return options;
}

}  // namespace

DecisionTimes time_decisions(const RoundOptions& options, const DecisionOptions& decision) {
    testing::OwnDaemon daemon(
        {decision.croupierd, "bench-" + std::to_string(::getpid()), testing::private_shm_dir(),
         "samplers: {count: 1, wait: spin, cores: \"" + std::to_string(options.peer_core) + "\"}\n"});
    daemon.start();
    daemon.await_ready();
    const std::string endpoint = daemon.endpoint();
    client::Session session(session_options(endpoint, decision));
    auto writer = gpu_writer::RankWriter::attach(session.segment_path(), 0);
    if (!writer) throw std::runtime_error(writer.error().message);
    auto segment = shm::Segment::attach(session.segment_path(), shm::Access::read_only);
    if (!segment) throw std::runtime_error(segment.error().message);
    bind_to_core(options.own_core);
    const auto row = logits_row(decision.vocab);
    DecisionTimes times;
    times.decided.reserve(options.rounds);
    times.handed_over.reserve(options.rounds);
    std::uint64_t uid = 0;
    const std::uint32_t rounds = options.warm_up + options.rounds;
    for (std::uint32_t round = 0; round < rounds; ++round) {
        // A new sequence replaces the old one before its log is full.
        if (round % (kSequenceTokens / 2) == 0) {
            if (uid != 0) session.finish(uid);
            session.add(sequence(++uid, decision));
        }
        const croupier_column column = croupier_column_of(uid);
        const std::uint64_t step = session.submit({&column, 1});
        writer.value().write_column(step, 0, row.data());
        const std::uint64_t begin = shm::monotonic_ns();
        if (auto published = writer.value().publish_all(step); !published) {
            throw std::runtime_error(published.error().message);
        }
        const auto decided = session.wait(5000);
        const std::uint64_t end = shm::monotonic_ns();
        if (!decided || decided->decisions[0].error != 0) throw std::runtime_error("a step was not decided");
        if (round < options.warm_up) continue;
        const auto& head = segment.value().decision_head(segment.value().slot_of(step));
        times.decided.push_back(end - begin);
        times.handed_over.push_back(end - head.last_commit_ns.load(std::memory_order_relaxed));
    }
    session.close();
    daemon.stop();
    return times;
}

}  // namespace croupier::bench
