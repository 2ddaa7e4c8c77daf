// Measures random requests as steps of a real session: a daemon with samplers, and a real writer. All columns
// of a step have the request, with other seeds, histories and rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bench/cliffs/histories.h"
#include "bench/cliffs/request_cost.h"
#include "bench/cliffs/step_logits.h"
#include "croupier/client.hpp"
#include "measurement/laid_rows.h"
#include "shm/segment.h"
#include "testing/own_daemon.h"

namespace croupier::bench {

struct SessionMeasure {
    bool cuda = false;
    std::uint32_t columns = 256;
    std::uint32_t samplers = 14;
    std::uint32_t steps = 20;
    std::uint32_t verified = 1;  // columns of the first step, by the reference
};

class SessionCosts {
  public:
    // The rows and the histories must outlive this object. Starts the daemon.
    SessionCosts(const measurement::BenchRows& rows, const Histories& histories, const SessionMeasure& how);
    SessionCosts(const SessionCosts&) = delete;
    SessionCosts& operator=(const SessionCosts&) = delete;
    ~SessionCosts();

    // Opens another session where the request's dtype is not that of the request before.
    RequestCost measure(const DrawnRequest& drawn);

  private:
    // Of one dtype.
    struct Open {
        measurement::LaidRows rows;
        double read_us;
        std::optional<client::Session> session;
        std::unique_ptr<shm::Segment> segment;
        std::unique_ptr<StepLogits> logits;
    };

    client::Session open_session(proto::Dtype dtype) const;
    Open& open_for(proto::Dtype dtype);
    void close() noexcept;
    std::vector<std::uint64_t> add_sequences(const DrawnRequest& drawn);
    double take_step(const DrawnRequest& drawn, const std::vector<std::uint64_t>& uids, bool first,
                     RequestCost& cost);
    void verify(const DrawnRequest& drawn, const client::Step& step, std::uint32_t column, RequestCost& cost);
    std::uint64_t block_requests() const;
    void describe_plan(const DrawnRequest& drawn, double tries, RequestCost& cost);

    const measurement::BenchRows& rows_;
    const Histories& histories_;
    SessionMeasure how_;
    testing::OwnDaemon daemon_;
    std::optional<Open> open_;
    BenchSequence sequence_;  // what is asked of a column
    std::uint64_t next_uid_ = 1;
};

}  // namespace croupier::bench
