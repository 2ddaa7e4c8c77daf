// What a croupier_session is, for the functions of the C ABI that take one.
#pragma once

#include <memory>
#include <utility>

#include "client/attached_session.h"
#include "croupier/client.h"
#include "shm/c_abi.h"
#include "shm/home_process.h"

struct croupier_session {
    std::unique_ptr<croupier::client::AttachedSession> attached;
    croupier::shm::HomeProcess home;
};

namespace croupier::client {

template <typename Body>
auto guarded_session(const croupier_session* session, croupier_error* error, Body&& body) {
    return shm::guarded(error, [&]() -> decltype(body()) {
        if (session == nullptr) return shm::fail(shm::Errc::bad_argument, "session is null");
        CROUPIER_TRY(session->home.check("this session"));
        return body();
    });
}

}  // namespace croupier::client
