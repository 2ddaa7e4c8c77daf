#include "daemon/logging.h"

#include <unistd.h>

#include <csignal>

#include "config/schema.h"

namespace croupier::daemon {
namespace {

using event_log::Event;
using event_log::Format;
using event_log::Level;
using event_log::Settings;

constexpr int kFormatShift = 8;

Level level_of(config::LogLevel level) {
    switch (level) {
        case config::LogLevel::trace:
            return Level::trace;
        case config::LogLevel::debug:
            return Level::debug;
        case config::LogLevel::info:
            return Level::info;
        case config::LogLevel::warn:
            return Level::warn;
        case config::LogLevel::error:
            return Level::error;
    }
    return Level::info;
}

int as_value(Settings settings) {
    return static_cast<int>(settings.least) | static_cast<int>(settings.format) << kFormatShift;
}

Settings from_value(int value) {
    return {static_cast<Level>(value & 0xff), static_cast<Format>(value >> kFormatShift)};
}

void on_settings(int /*signal*/, siginfo_t* info, void* /*context*/) {
    // A SIGHUP of anybody else, such as a terminal's, says nothing.
    if (info->si_code == SI_QUEUE && info->si_pid == ::getppid()) {
        event_log::configure(from_value(info->si_value.sival_int));
    }
}

}  // namespace

Settings settings_of(const config::Log& log) {
    return {level_of(log.level), log.format == config::LogFormat::json ? Format::json : Format::text};
}

void log_configuration(const config::LoadResult& loaded) {
    event_log::write(Event::starting, {{"version", CROUPIER_VERSION}, {"file", loaded.file}},
                     "croupierd {} starts with {}", CROUPIER_VERSION, loaded.origin());
    const config::Config& config = *loaded.config;
    const config::Config unset = config::default_config();
    for (const config::Key& key : config::keys()) {
        const std::string value = key.write(config);
        if (value == key.write(unset)) continue;
        const bool quoted = value.size() >= 2 && value.front() == '"';
        const std::string text = quoted ? value.substr(1, value.size() - 2) : value;
        event_log::write(Event::setting, {{"key", key.path}, {"value", text}}, "{} is {}", key.path, text);
    }
}

void log_problems(const std::string& file, const std::vector<config::Problem>& problems) {
    for (const auto& problem : problems)
        event_log::write(Event::config_problem, {{"file", file}}, "{}", config::to_string(problem));
}

bool tell_log_settings(pid_t sampler, Settings settings) {
    sigval value{};
    value.sival_int = as_value(settings);
    return ::sigqueue(sampler, SIGHUP, value) == 0;
}

void follow_log_settings() {
    struct sigaction action {};
    action.sa_sigaction = on_settings;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(SIGHUP, &action, nullptr);
}

}  // namespace croupier::daemon
