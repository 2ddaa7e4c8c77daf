#include <algorithm>
#include <utility>

#include "client/abi_fields.h"
#include "client/attached_session.h"
#include "client/decision_text.h"
#include "croupier/client.h"
#include "proto/sampling.h"
#include "shm/c_abi.h"

using croupier::client::AttachedSession;
namespace proto = croupier::proto;
namespace shm = croupier::shm;
using shm::done;
using shm::guarded;
using shm::missing;

struct croupier_session {
    std::unique_ptr<AttachedSession> attached;
    shm::HomeProcess home;
};

namespace {

template <typename Body>
auto guarded_session(const croupier_session* session, croupier_error* error, Body&& body) {
    return guarded(error, [&]() -> decltype(body()) {
        if (auto here = session->home.check("this session"); !here) return here.error();
        return body();
    });
}

}  // namespace

static_assert(CROUPIER_IGNORE_EOS == proto::kIgnoreEos);
static_assert(CROUPIER_NO_LOGPROB == proto::kNoLogprob);
static_assert(CROUPIER_STEP_END == static_cast<int>(proto::Step::end) &&
              CROUPIER_STEP_PENALTIES == static_cast<int>(proto::Step::penalties) &&
              CROUPIER_STEP_DRY == static_cast<int>(proto::Step::dry) &&
              CROUPIER_STEP_TOP_N_SIGMA == static_cast<int>(proto::Step::top_n_sigma) &&
              CROUPIER_STEP_TEMPERATURE == static_cast<int>(proto::Step::temperature) &&
              CROUPIER_STEP_MIN_P == static_cast<int>(proto::Step::min_p) &&
              CROUPIER_STEP_TOP_K == static_cast<int>(proto::Step::top_k) &&
              CROUPIER_STEP_TOP_P == static_cast<int>(proto::Step::top_p) &&
              CROUPIER_STEP_TYPICAL_P == static_cast<int>(proto::Step::typical_p) &&
              CROUPIER_STEP_XTC == static_cast<int>(proto::Step::xtc) &&
              CROUPIER_ORDER_STEPS == proto::kOrderSteps);
static_assert(CROUPIER_RNG_RACE == static_cast<int>(proto::Rng::race) &&
              CROUPIER_RNG_SHVS == static_cast<int>(proto::Rng::shvs) &&
              CROUPIER_RNG_SGLANG == static_cast<int>(proto::Rng::sglang) &&
              CROUPIER_RNG_VLLM == static_cast<int>(proto::Rng::vllm));
static_assert(CROUPIER_LOGPROB_RAW == static_cast<int>(proto::LogprobMode::raw) &&
              CROUPIER_LOGPROB_PROCESSED == static_cast<int>(proto::LogprobMode::processed));
static_assert(CROUPIER_STOPPED_EOS == int{proto::kStoppedByEos} &&
              CROUPIER_STOPPED_TOKEN == int{proto::kStoppedByToken} &&
              CROUPIER_STOPPED_LENGTH == int{proto::kStoppedByLength} &&
              CROUPIER_STOPPED == proto::kStoppedMask);
static_assert(CROUPIER_BF16 == static_cast<int>(proto::Dtype::bf16) &&
              CROUPIER_FP16 == static_cast<int>(proto::Dtype::fp16) &&
              CROUPIER_FP32 == static_cast<int>(proto::Dtype::fp32));

extern "C" {

void croupier_open_options_init(croupier_open_options* options) {
    *options = croupier_open_options{};
    options->abi_version = CROUPIER_ABI_VERSION;
    options->endpoint = "ipc:///run/croupier/control.sock";
    options->name = "default";
    options->tp = 1;
    options->max_batch = 64;
    options->steps_in_flight = 2;
    options->dtype = CROUPIER_BF16;
    options->tile = 64;
    options->max_sequences = 256;
    options->max_length = 8192;
    options->max_bias = 64;
    options->max_stop_ids = 8;
    options->max_list_tokens = 1024;
}

void croupier_params_init(croupier_params* params) {
    *params = croupier::client::params_to_abi({});
}

int croupier_open(const croupier_open_options* options, croupier_session** session, croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (options == nullptr) return missing("options");
        if (session == nullptr) return missing("session");
        auto opened = AttachedSession::open(*options);
        if (!opened) return opened.error();
        *session = new croupier_session{std::move(opened).value(), {}};
        return 0;
    });
}

void croupier_detach(croupier_session* session) {
    // A forked child has neither the mapping nor ZMQ's threads: it can take nothing apart.
    if (session != nullptr && session->home.is_here()) delete session;
}

int croupier_close(croupier_session* session, croupier_error* error) {
    const int closed = guarded(error, [&]() -> shm::Result<int> {
        if (session == nullptr) return missing("session");
        if (auto here = session->home.check("this session"); !here) return here.error();
        return done(session->attached->close());
    });
    croupier_detach(session);
    return closed;
}

const char* croupier_segment_path(const croupier_session* session) {
    return session->attached->segment_path().c_str();
}

int croupier_resumed(const croupier_session* session) {
    return session->attached->resumed() ? 1 : 0;
}

int croupier_add(croupier_session* session, const croupier_sequence* sequence, croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (sequence == nullptr) return missing("sequence");
        return done(session->attached->add(*sequence));
    });
}

int croupier_finish(croupier_session* session, uint64_t uid, croupier_error* error) {
    return guarded_session(session, error, [&] { return done(session->attached->finish(uid)); });
}

size_t croupier_list(const croupier_session* session, uint64_t* uids, size_t room) {
    if (!session->home.is_here()) return 0;
    return session->attached->list({uids, uids == nullptr ? 0 : room});
}

int64_t croupier_output(const croupier_session* session, uint64_t uid, int32_t* tokens, size_t room) {
    return guarded_session(session, static_cast<croupier_error*>(nullptr), [&]() -> shm::Result<int64_t> {
        const auto output = session->attached->output(uid);
        if (!output) return output.error();
        if (tokens != nullptr)
            std::copy_n(output.value().data(), std::min(room, output.value().size()), tokens);
        return static_cast<int64_t>(output.value().size());
    });
}

int croupier_submit(croupier_session* session, const croupier_column* columns, size_t count, uint64_t* step,
                    croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (columns == nullptr && count > 0) return missing("columns");
        auto published = session->attached->submit({columns, count});
        if (!published) return published.error();
        if (step != nullptr) *step = published.value();
        return 0;
    });
}

uint32_t croupier_in_flight(const croupier_session* session) {
    return session->home.is_here() ? session->attached->in_flight() : 0;
}

int croupier_wait(croupier_session* session, uint32_t timeout_ms, croupier_step* step,
                  croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (step == nullptr) return missing("step");
        auto taken = session->attached->wait(std::chrono::milliseconds(timeout_ms));
        if (!taken) return taken.error();
        if (!taken.value()) return 0;
        *step = *taken.value();
        return 1;
    });
}

int croupier_give_up(croupier_session* session, uint64_t step, croupier_error* error) {
    return guarded_session(session, error, [&] { return done(session->attached->give_up(step)); });
}

const char* croupier_error_name(uint32_t code) {
    return shm::errc_name(static_cast<shm::Errc>(code));
}

const char* croupier_decision_error_text(uint16_t error) {
    return croupier::client::decision_error_text(error);
}

}  // extern "C"
