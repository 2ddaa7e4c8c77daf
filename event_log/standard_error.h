// Where lines go: standard error, which systemd's journal reads, or a pipe that nobody may read any more.
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <mutex>

#include "event_log/line.h"

namespace croupier::event_log {

// A line that does not fit without waiting is left out and counted: a daemon that stands still for its log is
// worse than one without.
class StandardError : public spdlog::sinks::base_sink<std::mutex> {
  protected:
    void sink_it_(const spdlog::details::log_msg& message) override;
    void flush_() override {}

  private:
    std::uint64_t lost_ = 0;
};

// Whether standard error is the journal's own stream: it takes a priority before each line.
bool journal_listens();

Format current_format();

}  // namespace croupier::event_log
