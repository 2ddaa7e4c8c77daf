// A daemon that is asked at /explain for a sequence's next decision, and what it answers.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <string>

#include "explain/case.h"
#include "explain/decider.h"
#include "shm/capture_exchange.h"
#include "testing/daemon_process.h"
#include "testing/small_engine.h"
#include "tests/daemon/http_peer.h"
#include "tests/daemon/loopback.h"

namespace croupier::testing {

inline std::string metrics_section(std::uint16_t port, const std::string& more) {
    return "metrics: {listen: \"127.0.0.1:" + std::to_string(port) + "\"" + more + "}";
}

struct Asked {
    std::future<std::string> answer;
    // Headers first.
    std::string get() { return answer.get(); }
    nlohmann::json json() {
        const std::string text = get();
        CHECK_THAT(text,
                   Catch::StartsWith("HTTP/1.1 200 OK") && Catch::Contains("Content-Type: application/json"));
        return nlohmann::json::parse(text.substr(text.find("\r\n\r\n") + 4));
    }
};

// A daemon that explains.
struct Explaining {
    explicit Explaining(const std::string& samplers = kTwoSamplers, const std::string& more = "",
                        const std::string& program = CROUPIERD_PATH)
        : daemon(samplers, metrics_section(port, ", explain: true" + more), program) {}

    // Returns when the samplers are asked.
    Asked ask(const std::string& query) const {
        const auto queue = shm::CaptureExchange::attach(daemon.shm_directory(), daemon.instance());
        REQUIRE(queue);
        const auto& asked = queue.value().words().asked;
        REQUIRE(eventually([&] { return asked.load() == 0; }));
        Asked made = ask_only(query);
        REQUIRE(eventually([&] { return asked.load() != 0; }));
        return made;
    }
    Asked ask_only(const std::string& query) const {
        return {std::async(std::launch::async, http_get, port, "/explain?" + query)};
    }
    Asked ask(std::uint64_t uid, const std::string& more = "&format=json") const {
        return ask("session=engine&uid=" + std::to_string(uid) + more);
    }
    std::string get(const std::string& query) const { return http_get(port, "/explain?" + query); }
    bool nothing_is_asked() const {
        const auto queue = shm::CaptureExchange::attach(daemon.shm_directory(), daemon.instance());
        return queue && queue.value().words().asked.load() == 0;
    }
    bool has_captured() const {
        return std::filesystem::exists(
            shm::CaptureExchange::paths(daemon.shm_directory(), daemon.instance()).back());
    }

    std::uint16_t port = free_port();
    DaemonProcess daemon;
};

// The request's answer, by both ways to decide, is the token that the daemon decided.
inline void check_explained(const nlohmann::json& request, std::int32_t token, std::size_t position) {
    explain::RowFiles files;
    explain::Decider decider;
    const explain::Case of = explain::read_case(request, files);
    CHECK(of.decided->token == token);
    CHECK(request.at("seed") == std::to_string(of.params.sampling.seed));
    CHECK(of.output.size() == position);
    const explain::Asked asked(of, 0, 0);
    for (const auto impl : {explain::Impl::fast, explain::Impl::reference})
        CHECK(decider.decide(of.row.view(), asked.request(), impl).decision.token == token);
}

}  // namespace croupier::testing
