#include "daemon/logging.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

namespace croupier::daemon {
namespace {

class JsonFormatter : public spdlog::formatter {
  public:
    void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
        const auto since_epoch = std::chrono::duration<double>(message.time.time_since_epoch()).count();
        const nlohmann::ordered_json line = {
            {"time", since_epoch},
            {"level", std::string(spdlog::level::to_string_view(message.level).data())},
            {"pid", ::getpid()},
            {"message", std::string(message.payload.data(), message.payload.size())}};
        const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
        to.append(text.data(), text.data() + text.size());
    }
    std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// Standard error may be a pipe that nobody reads any more. A line that does not fit without waiting is left
// out and counted: a daemon that stands still for its log is worse than one without.
class PatientSink : public spdlog::sinks::base_sink<std::mutex> {
  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        if (left_out_ != 0) {
            const std::string said =
                std::to_string(left_out_) + " lines were left out: standard error took no more\n";
            if (!write({said.data(), said.size()})) {
                ++left_out_;
                return;
            }
            left_out_ = 0;
        }
        if (!write({line.data(), line.size()})) ++left_out_;
    }
    void flush_() override {}

  private:
    static bool write(std::string_view text) {
        while (!text.empty()) {
            pollfd item{STDERR_FILENO, POLLOUT, 0};
            // Anything else beside it: the other end is gone, and writing would be SIGPIPE.
            if (::poll(&item, 1, 0) != 1 || item.revents != POLLOUT) return false;
            // So much a pipe takes at once when it says that it takes anything.
            const auto written =
                ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
            if (written <= 0) return false;
            text.remove_prefix(static_cast<std::size_t>(written));
        }
        return true;
    }

    std::uint64_t left_out_ = 0;
};

spdlog::level::level_enum level_of(config::LogLevel level) {
    switch (level) {
        case config::LogLevel::trace:
            return spdlog::level::trace;
        case config::LogLevel::debug:
            return spdlog::level::debug;
        case config::LogLevel::info:
            return spdlog::level::info;
        case config::LogLevel::warn:
            return spdlog::level::warn;
        case config::LogLevel::error:
            return spdlog::level::err;
    }
    return spdlog::level::info;
}

}  // namespace

void configure_log(const config::Log& log) {
    spdlog::set_level(level_of(log.level));
    if (log.format == config::LogFormat::json) {
        spdlog::set_formatter(std::make_unique<JsonFormatter>());
    } else {
        spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ [%P] %v");
    }
}

void set_up_log(const config::Log& log) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("croupier", std::make_shared<PatientSink>()));
    configure_log(log);
}

}  // namespace croupier::daemon
