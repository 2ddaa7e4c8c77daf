#include <algorithm>
#include <utility>

#include "client/abi_fields.h"
#include "client/attached_session.h"
#include "client/decision_text.h"
#include "client/known_structs.h"
#include "croupier/client.h"
#include "proto/sampling.h"
#include "shm/c_abi.h"
#include "shm/caller_struct.h"

using croupier::client::AttachedSession;
using croupier::client::kStepAtFirst;
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

extern "C" {

const char* croupier_version(void) {
    return CROUPIER_VERSION;
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

int croupier_truncate(croupier_session* session, uint64_t uid, uint32_t outputs, croupier_error* error) {
    return guarded_session(session, error, [&] { return done(session->attached->truncate(uid, outputs)); });
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

int croupier_submit_columns(croupier_session* session, const croupier_column* columns, size_t count,
                            size_t column_size, uint64_t* step, croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (columns == nullptr && count > 0) return missing("columns");
        auto published = session->attached->submit(columns, count, column_size);
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
        // Before anything is taken: what could not be told would be lost.
        if (auto room = shm::check_head(*step, "croupier_step", kStepAtFirst); !room) return room.error();
        auto taken = session->attached->wait(std::chrono::milliseconds(timeout_ms));
        if (!taken) return taken.error();
        if (!taken.value()) return 0;
        auto told = shm::write_struct(*taken.value(), *step, "croupier_step", kStepAtFirst);
        if (!told) return told.error();
        return 1;
    });
}

int croupier_event_fd(croupier_session* session, croupier_error* error) {
    return guarded_session(session, error, [&] { return session->attached->event_descriptor(); });
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
