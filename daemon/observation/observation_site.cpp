#include "daemon/observation/observation_site.h"

#include <prometheus/text_serializer.h>

#include <charconv>
#include <utility>

#include "daemon/observation/metrics.h"
#include "daemon/observation/page/page_files.h"
#include "shm/clock.h"
#include "shm/snapshot.h"

namespace croupier::daemon {
namespace {

// The supervisor turns at least every 25 ms; a second without a turn is trouble, five are a hang.
constexpr std::uint64_t kLivenessLimitNs = 5'000'000'000;

constexpr std::string_view kJson = "application/json";

const char* serving(const Health& health) {
    if (health.draining.load(std::memory_order_relaxed)) return "draining";
    return health.ready.load(std::memory_order_relaxed) ? "ready" : "starting";
}

}  // namespace

ObservationSite::ObservationSite(std::string shm_directory, std::string instance, const shm::Plane& plane,
                                 const Health& health)
    : shm_directory_(std::move(shm_directory)),
      instance_(std::move(instance)),
      plane_(&plane),
      health_(&health),
      journal_(plane),
      recent_(Moment::now()) {}

HttpRoutes ObservationSite::routes() {
    HttpRoutes routes = {
        {"/metrics", [this](const HttpRequest&) { return metrics(); }},
        {"/livez", [this](const HttpRequest&) { return livez(); }},
        {"/readyz", [this](const HttpRequest&) { return readyz(); }},
        {"/snapshot.json", [this](const HttpRequest&) { return snapshot(); }},
        {"/recent.json", [this](const HttpRequest& request) { return recent(request); }, true},
    };
    for (const PageFile& file : page_files()) {
        routes.push_back({std::string(file.path), [&file](const HttpRequest&) {
                              return HttpReply{200, std::string(file.text), file.content_type};
                          }});
    }
    return routes;
}

void ObservationSite::observe() {
    journal_.read(*plane_);
    const auto now = std::chrono::steady_clock::now();
    if (now < second_ends_) return;
    second_ends_ += std::chrono::seconds(1);
    // After a freeze of the host there is one long second.
    if (second_ends_ <= now) second_ends_ = now + std::chrono::seconds(1);
    const auto snapshot = shm::observe(shm_directory_, instance_);
    if (!snapshot) return;
    journal_.close_second(snapshot.value());
    const std::uint64_t known = recent_.last_number();
    recent_.add(snapshot.value(), journal_, Moment::now());
    if (recent_.last_number() > known) recent_json_.add(recent_.seconds().back());
}

HttpReply ObservationSite::metrics() const {
    const auto snapshot = shm::observe(shm_directory_, instance_);
    if (!snapshot) return {503, "# " + snapshot.error().message + "\n"};
    auto families = to_metrics(snapshot.value(), recent_, journal_);
    add_shared_memory(families, shm_directory_);
    return {200, prometheus::TextSerializer().Serialize(families),
            "text/plain; version=0.0.4; charset=utf-8"};
}

HttpReply ObservationSite::livez() const {
    const std::uint64_t age = shm::monotonic_ns() - health_->last_turn_ns.load(std::memory_order_relaxed);
    if (age < kLivenessLimitNs) return {200, "ok\n"};
    return {503, "the supervisor has not turned for " + std::to_string(age / 1'000'000) + " ms\n"};
}

HttpReply ObservationSite::readyz() const {
    const std::string state = serving(*health_);
    if (state == "draining") return {503, "draining\n"};
    if (health_->socket_lost.load(std::memory_order_relaxed))
        return {503, "the control socket was removed\n"};
    if (state == "ready") return {200, "ok\n"};
    return {503, "not every sampler runs\n"};
}

HttpReply ObservationSite::snapshot() const {
    auto snapshot = shm::observe(shm_directory_, instance_);
    if (!snapshot) return {503, snapshot.error().message + "\n"};
    // Nobody who asks here has said who they are.
    for (auto& session : snapshot.value().sessions) shm::hide_from_others(session);
    return {200, shm::to_json(snapshot.value()), kJson};
}

HttpReply ObservationSite::recent(const HttpRequest& request) const {
    const std::string_view after = query_value(request.query, "after");
    std::uint64_t number = 0;
    const auto read = std::from_chars(after.data(), after.data() + after.size(), number);
    if (!after.empty() && (read.ec != std::errc{} || read.ptr != after.data() + after.size())) {
        return {400,
                "after= wants the number of a second that is known already, as in /recent.json?after=120\n"};
    }
    return {200, recent_json_.answer(recent_, journal_, number, serving(*health_)), kJson};
}

}  // namespace croupier::daemon
