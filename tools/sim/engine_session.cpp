#include "tools/sim/engine_session.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace croupier::tools::sim {
namespace {

constexpr std::uint32_t kOpenTimeoutMs = 15000;
constexpr int kCloseAttempts = 3;

croupier_params client_params(const proto::SamplingParams& from) {
    client::Params params;
    params.seed = from.seed;
    params.temperature = from.temperature;
    params.top_p = from.top_p;
    params.min_p = from.min_p;
    params.repetition_penalty = from.repetition_penalty;
    params.frequency_penalty = from.frequency_penalty;
    params.presence_penalty = from.presence_penalty;
    params.top_k = from.top_k;
    params.eos_token_id = from.eos_token_id;
    params.min_tokens = from.min_tokens;
    params.max_tokens = from.max_tokens;
    params.flags = from.flags;
    return params;
}

}  // namespace

client::Session open_session(const World& world) {
    const proto::Geometry& geometry = world.vocabulary.geometry;
    client::OpenOptions options;
    options.endpoint = world.endpoint.c_str();
    options.name = world.session_name.c_str();
    options.vocab = geometry.vocab;
    options.tp = geometry.tp;
    options.max_batch = geometry.max_batch;
    options.steps_in_flight = geometry.slots;
    options.dtype = static_cast<std::uint32_t>(geometry.dtype);
    options.tile = geometry.tile;
    options.max_sequences = geometry.max_sequences;
    options.max_length = geometry.max_length;
    options.max_bias = geometry.max_bias;
    options.max_stop_ids = geometry.max_stop_ids;
    options.mask_rows = geometry.mask_rows;
    options.order = world.vocabulary.hot_first.empty() ? nullptr : world.vocabulary.hot_first.data();
    options.resume = 1;
    options.decisions_over_zmq = world.options.decisions_over_zmq ? 1 : 0;
    options.randoms_supplied = world.options.randoms_in_ring ? 1 : 0;
    options.timeout_ms = kOpenTimeoutMs;
    return client::Session(options);
}

void close_session(client::Session& session, const World& world) {
    for (int attempt = 1;; ++attempt) {
        try {
            session.close();
            return;
        } catch (const client::Failure&) {
            if (attempt == kCloseAttempts) throw;
        }
        session = open_session(world);
    }
}

client::Sequence client_sequence(const World& world, const Request& request) {
    client::Sequence sequence;
    sequence.uid = request.uid();
    static_cast<croupier_params&>(sequence.params) = client_params(request.params);
    sequence.prompt = world.plan.prompt(request.index);
    for (std::uint32_t position = 0; position < world.ledger.count(request.index); ++position) {
        sequence.output.push_back(world.ledger.entry(request.index, position).token);
    }
    for (const proto::TokenBias& bias : request.bias) sequence.bias.push_back({bias.token, bias.bias});
    sequence.stop_ids = request.stop_ids;
    return sequence;
}

namespace {

// A daemon that was killed comes back, and the session goes on where it was: engines wait again, and so do
// we. How long that may take is --timeout-s's to say.
std::optional<client::Step> wait_through_restarts(client::Session& session, std::uint32_t timeout_ms) {
    try {
        return session.wait(timeout_ms);
    } catch (const client::Failure& failure) {
        if (failure.name() != "daemon_gone") throw;
        return std::nullopt;
    }
}

}  // namespace

std::optional<client::Step> wait_step(client::Session& session, std::uint32_t timeout_ms) {
    const auto step = wait_through_restarts(session, timeout_ms);
    if (step && step->refused != 0) {
        throw std::runtime_error("step " + std::to_string(step->step) +
                                 " was refused: " + croupier_decision_error_text(step->refused));
    }
    return step;
}

}  // namespace croupier::tools::sim
