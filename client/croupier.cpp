#include <algorithm>
#include <utility>

#include "client/abi_fields.h"
#include "client/c_session.h"
#include "client/decision_text.h"
#include "client/known_structs.h"
#include "croupier/client.h"
#include "shm/build_note.h"
#include "shm/c_abi.h"
#include "shm/caller_struct.h"

using croupier::client::AttachedSession;
using croupier::client::guarded_session;
using croupier::client::kStepAtFirst;
namespace shm = croupier::shm;
using shm::done;
using shm::guarded;
using shm::missing;

namespace {

// `croupier doctor` reads this in the library's file without loading the library.
[[gnu::used]] constexpr shm::BuildNote kBuildNote = shm::build_note();

}  // namespace

extern "C" {

const char* croupier_version(void) {
    return CROUPIER_VERSION;
}

int croupier_open(const croupier_open_options* options, croupier_session** session, croupier_error* error) {
    return guarded(error, [&]() -> shm::Result<int> {
        if (options == nullptr) return missing("options");
        if (session == nullptr) return missing("session");
        CROUPIER_TRY_VALUE(opened, AttachedSession::open(*options));
        *session = new croupier_session{std::move(opened), {}};
        return 0;
    });
}

void croupier_detach(croupier_session* session) {
    // A forked child has neither the mapping nor ZMQ's threads, so it must not destroy the session.
    if (session != nullptr && session->home.is_here()) delete session;
}

int croupier_close(croupier_session* session, croupier_error* error) {
    const int closed = guarded(error, [&]() -> shm::Result<int> {
        if (session == nullptr) return missing("session");
        CROUPIER_TRY(session->home.check("this session"));
        return done(session->attached->close());
    });
    croupier_detach(session);
    return closed;
}

const char* croupier_segment_path(const croupier_session* session) {
    return session == nullptr ? nullptr : session->attached->segment_path().c_str();
}

int croupier_resumed(const croupier_session* session) {
    return session != nullptr && session->attached->resumed() ? 1 : 0;
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

int croupier_fork(croupier_session* session, uint64_t parent, uint64_t uid, uint32_t outputs, uint32_t child,
                  croupier_error* error) {
    return guarded_session(session, error, [&] {
        return done(session->attached->fork({parent, uid, outputs, child}));
    });
}

int croupier_truncate(croupier_session* session, uint64_t uid, uint32_t outputs, croupier_error* error) {
    return guarded_session(session, error, [&] { return done(session->attached->truncate(uid, outputs)); });
}

int croupier_append(croupier_session* session, uint64_t uid, const int32_t* tokens, size_t count,
                    croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (tokens == nullptr && count > 0) return missing("tokens");
        return done(session->attached->append(uid, {tokens, count}));
    });
}

int64_t croupier_list(const croupier_session* session, uint64_t* uids, size_t room, croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int64_t> {
        return static_cast<int64_t>(session->attached->list({uids, uids == nullptr ? 0 : room}));
    });
}

int64_t croupier_output(const croupier_session* session, uint64_t uid, int32_t* tokens, size_t room,
                        croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int64_t> {
        CROUPIER_TRY_VALUE(output, session->attached->output(uid));
        if (tokens != nullptr) std::copy_n(output.data(), std::min(room, output.size()), tokens);
        return static_cast<int64_t>(output.size());
    });
}

int64_t croupier_text(const croupier_session* session, uint64_t uid, uint64_t from, char* bytes, size_t room,
                      croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int64_t> {
        const size_t writable = bytes == nullptr ? 0 : room;
        CROUPIER_TRY_VALUE(there, session->attached->text(uid, from, {bytes, writable}));
        return static_cast<int64_t>(there);
    });
}

int croupier_text_stop(const croupier_session* session, uint64_t uid, uint32_t* stop_string,
                       uint64_t* stop_begin, croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        CROUPIER_TRY_VALUE(found, session->attached->stop(uid));
        if (!found) return 0;
        if (stop_string != nullptr) *stop_string = found->index;
        if (stop_begin != nullptr) *stop_begin = found->begin;
        return croupier::client::flag_of(*found);
    });
}

int croupier_submit_columns(croupier_session* session, const croupier_column* columns, size_t count,
                            size_t column_size, uint64_t* step, croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (columns == nullptr && count > 0) return missing("columns");
        CROUPIER_TRY_VALUE(published, session->attached->submit(columns, count, column_size));
        if (step != nullptr) *step = published;
        return 0;
    });
}

uint32_t croupier_in_flight(const croupier_session* session) {
    return session != nullptr && session->home.is_here() ? session->attached->in_flight() : 0;
}

int croupier_wait(croupier_session* session, uint32_t timeout_ms, croupier_step* step,
                  croupier_error* error) {
    return guarded_session(session, error, [&]() -> shm::Result<int> {
        if (step == nullptr) return missing("step");
        // Checked before a step is taken: its decisions would be lost if they could not be returned.
        CROUPIER_TRY(shm::check_head(*step, "croupier_step", kStepAtFirst));
        CROUPIER_TRY_VALUE(taken, session->attached->wait(std::chrono::milliseconds(timeout_ms)));
        if (!taken) return 0;
        CROUPIER_TRY(shm::write_struct(*taken, *step, "croupier_step", kStepAtFirst));
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
