// A sampler's side of /explain: the decision that was asked for is copied before its commit, when its row
// still lies in its slot, and left for the supervisor after it, when nobody waits for the sampler any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/capture.h"
#include "sampler/request.h"
#include "sampler/row_view.h"
#include "sampler/workspace.h"
#include "shm/capture_exchange.h"

namespace croupier::daemon {

struct AskedCapture {
    std::uint64_t number = 0;
    std::uint64_t uid = 0;
};

// One thread's copy of a decision.
class CapturedColumn {
  public:
    // By the thread that has just decided the column with this workspace. False: a part of the row is not
    // there, and the workspace says which blocks (LeanBlocks::missing).
    bool keep_row(const sampler::RowView& row, sampler::Workspace& workspace);
    void keep_request(const sampler::Request& request, std::span<const std::int32_t> stop_words,
                      bool randoms_supplied, request::DecisionPath path);
    // Where the memory ended too: the decision is not kept then.
    void forget();
    bool is_kept() const { return kept_; }

    std::vector<std::byte> take(const AskedCapture& asked, std::uint64_t session_id, std::uint64_t step,
                                std::uint32_t column, const proto::Decision& decision);

  private:
    proto::CapturedHead head_{};
    std::vector<std::byte> bytes_;
    bool kept_ = false;
};

class Captures {
  public:
    // Nobody asks.
    Captures() = default;
    // Of an instance that does not allow it: the same.
    static Captures attach(const std::string& directory, const std::string& instance);

    // What is asked of the session. Costs one relaxed load while nothing is asked of any.
    std::optional<AskedCapture> asked(std::uint64_t session_id) const;
    // After the commit. The file's failure costs the request its answer, and nothing else.
    void give(const AskedCapture& asked, const std::vector<std::byte>& captured) const;

  private:
    std::optional<shm::CaptureExchange> queue_;
};

}  // namespace croupier::daemon
