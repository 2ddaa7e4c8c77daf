#include "tools/relay/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <stdexcept>
#include <vector>

#include "shm/clock.h"

namespace croupier::tools {
namespace {

using fan_out::RelayCounts;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily family(const char* name, const char* help, MetricType type, double value) {
    ClientMetric metric;
    if (type == MetricType::Counter) {
        metric.counter.value = value;
    } else {
        metric.gauge.value = value;
    }
    return {name, help, type, {metric}};
}

double behind_seconds(const RelayCounts& counts) {
    const std::uint64_t caught_up = counts.caught_up_at_ns.load(std::memory_order_relaxed);
    const std::uint64_t now = shm::monotonic_ns();
    if (!counts.joined.load(std::memory_order_relaxed) || now < caught_up) return 0;
    return static_cast<double>(now - caught_up) * 1e-9;
}

class Counts : public prometheus::Collectable {
  public:
    explicit Counts(const RelayCounts& counts) : counts_(&counts) {}

    std::vector<MetricFamily> Collect() const override {
        const auto counter = [](const char* name, const char* help, const std::atomic<std::uint64_t>& value) {
            return family(name, help, MetricType::Counter,
                          static_cast<double>(value.load(std::memory_order_relaxed)));
        };
        const auto gauge = [](const char* name, const char* help, double value) {
            return family(name, help, MetricType::Gauge, value);
        };
        const RelayCounts& all = *counts_;
        return {
            counter("croupier_relay_groups_joined_total",
                    "Groups joined: one for each connection of a scheduler", all.groups),
            counter("croupier_relay_groups_lost_total",
                    "Groups that ended because the scheduler or its connection died", all.groups_lost),
            counter("croupier_relay_joins_refused_total", "Joins that a scheduler refused",
                    all.joins_refused),
            counter("croupier_relay_sessions_attached_total", "Sessions attached", all.attachments),
            counter("croupier_relay_records_total", "Records received from schedulers", all.records),
            counter("croupier_relay_record_bytes_total", "Bytes of these records", all.record_bytes),
            counter("croupier_relay_records_refused_total", "Records refused", all.records_refused),
            counter("croupier_relay_answers_total", "Messages sent to schedulers: answers and decided steps",
                    all.answers),
            family("croupier_relay_apply_seconds_total", "Time spent on applying records",
                   MetricType::Counter,
                   static_cast<double>(all.apply_ns.load(std::memory_order_relaxed)) * 1e-9),
            gauge("croupier_relay_behind_seconds", "Time since no record waited; 0 if none waits",
                  behind_seconds(all)),
            gauge("croupier_relay_answers_waiting", "Messages that the scheduler has no room for",
                  static_cast<double>(all.answers_waiting.load(std::memory_order_relaxed))),
            gauge("croupier_relay_steps_in_flight", "Steps in flight: published and not taken",
                  static_cast<double>(all.steps_in_flight.load(std::memory_order_relaxed))),
            gauge("croupier_relay_joined", "1 while the relay is in a scheduler's group",
                  all.joined.load(std::memory_order_relaxed) ? 1 : 0),
            gauge("croupier_relay_attached", "1 while the relay is a session's client",
                  all.attached.load(std::memory_order_relaxed) ? 1 : 0),
        };
    }

  private:
    const RelayCounts* counts_;
};

// The library does not say why it cannot listen.
std::unique_ptr<prometheus::Exposer> listening(const std::string& listen) {
    const auto colon = listen.rfind(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 == listen.size() ||
        listen.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
        throw std::runtime_error("--metrics is '" + listen +
                                 "'; it should be HOST:PORT, for instance 127.0.0.1:9465");
    }
    try {
        return std::make_unique<prometheus::Exposer>(listen, 1);
    } catch (const std::exception&) {
        throw std::runtime_error("cannot listen at " + listen +
                                 " for metrics: is the port taken (ss -ltnp), and the address this host's?");
    }
}

}  // namespace

RelayMetrics::RelayMetrics(const std::string& listen, const fan_out::Relay& relay)
    : counts_(std::make_shared<Counts>(relay.counts())), exposer_(listening(listen)) {
    exposer_->RegisterCollectable(counts_);
}

RelayMetrics::~RelayMetrics() = default;

}  // namespace croupier::tools
