#include "config/conflicts.h"

#include "config/schema.h"
#include "config/texts.h"

namespace croupier::config {

namespace {

constexpr const char* secret_key = "control.curve.secret_key_file";
constexpr const char* authorized_keys = "control.curve.authorized_keys_file";

// TCP is open to everyone who can route to the host, and CURVE is the only authentication.
void require_curve(const Config& config, std::vector<Conflict>& conflicts) {
    const std::string& endpoint = config.control.endpoint;
    const Curve& curve = config.control.curve;
    const bool authenticated = !curve.secret_key_file.empty() && !curve.authorized_keys_file.empty();
    if (!is_tcp(endpoint) || authenticated) return;
    conflicts.push_back({{"control.endpoint", secret_key, authorized_keys},
                         quoted(endpoint) + " is a TCP endpoint, which needs both " + secret_key + " and " +
                             authorized_keys + "; set them, or use an ipc:// endpoint"});
}

}  // namespace

std::vector<Conflict> find_conflicts(const Config& config) {
    std::vector<Conflict> conflicts;
    const Sessions& sessions = config.sessions;
    if (sessions.max_segment_bytes > sessions.max_total_bytes) {
        const std::string segment = "sessions.max_segment_bytes";
        const std::string total = "sessions.max_total_bytes";
        conflicts.push_back({{segment, total},
                             find_key(segment)->write(config) + " is more than " + total + ", which is " +
                                 find_key(total)->write(config) + "; it may be at most that"});
    }
    if (config.hot_set.least > config.hot_set.most) {
        conflicts.push_back({{"hot_set.least", "hot_set.most"},
                             std::to_string(config.hot_set.least) + " is more than hot_set.most, which is " +
                                 std::to_string(config.hot_set.most) + "; it may be at most that"});
    }
    if (config.metrics.explain && config.metrics.listen == "off") {
        conflicts.push_back({{"metrics.explain", "metrics.listen"},
                             "is true, and metrics.listen is off; /explain needs an address to be asked at"});
    }
    require_curve(config, conflicts);
    const Curve& curve = config.control.curve;
    if (curve.secret_key_file.empty() != curve.authorized_keys_file.empty() &&
        !is_tcp(config.control.endpoint)) {
        const bool secret_missing = curve.secret_key_file.empty();
        conflicts.push_back(
            {{secret_missing ? authorized_keys : secret_key, secret_missing ? secret_key : authorized_keys},
             std::string("is set without ") + (secret_missing ? secret_key : authorized_keys) +
                 "; set both, or neither"});
    }
    return conflicts;
}

}  // namespace croupier::config
