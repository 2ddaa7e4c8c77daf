#include "daemon/logging.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

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
    spdlog::set_default_logger(spdlog::stderr_logger_mt("croupier"));
    configure_log(log);
}

}  // namespace croupier::daemon
