// A sampler's view of a segment, as a sampler makes it.
#pragma once

#include <memory>
#include <string>

#include "daemon/worker/session_view.h"

namespace croupier::testing {

inline shm::Result<std::unique_ptr<daemon::SessionView>> attached_view(const std::string& path,
                                                                       proto::StateTotals& totals) {
    CROUPIER_TRY_VALUE(segment, shm::Segment::attach(path, shm::Access::read_write));
    return daemon::SessionView::make(std::move(segment), 1, totals);
}

}  // namespace croupier::testing
