#include "sim/engine_session.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "client/abi_fields.h"

namespace croupier::sim {
namespace {

constexpr std::uint32_t kOpenTimeoutMs = 15000;
constexpr int kCloseAttempts = 3;

}  // namespace

client::Session open_session(const World& world) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.endpoint = world.endpoint.c_str();
    options.name = world.session_name.c_str();
    client::geometry_to_abi(world.vocabulary.geometry, options);
    options.order = world.vocabulary.order.empty() ? nullptr : world.vocabulary.order.data();
    options.resume = 1;
    if (world.options.stops) options.tokenizer = world.tokenizer_path.c_str();
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
    static_cast<croupier_params&>(sequence.params) = client::params_to_abi(request.params);
    sequence.prompt = world.plan.prompt(request.index);
    for (std::uint32_t position = 0; position < world.ledger.count(request.index); ++position) {
        sequence.output.push_back(world.ledger.entry(request.index, position).token);
    }
    for (const proto::TokenBias& bias : request.bias) sequence.bias.push_back({bias.token, bias.bias});
    sequence.stop_ids = request.stop_ids;
    sequence.allowed_ids = request.allowed_ids;
    sequence.bad_words = request.bad_words;
    sequence.dry_breakers = request.dry_breakers;
    sequence.stop_strings = request.stop_strings;
    return sequence;
}

namespace {

// A killed daemon restarts and the session continues, so wait again, as engines do. --timeout-s limits the
// total time.
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

}  // namespace croupier::sim
