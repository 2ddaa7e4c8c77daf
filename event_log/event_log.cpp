#include "event_log/event_log.h"

#include <spdlog/logger.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "event_log/budget.h"
#include "event_log/standard_error.h"

namespace croupier::event_log {
namespace {

// One word, so that a signal's handler may set it.
std::atomic<Settings> present{Settings{}};
static_assert(std::atomic<Settings>::is_always_lock_free);

struct Log {
    std::mutex mutex;
    Budget budget;
    const bool journal = journal_listens();
    const bool terminal = ::isatty(STDERR_FILENO) != 0;
    spdlog::logger out{"croupier", std::make_shared<StandardError>()};
};

Log& log() {
    static Log log;
    return log;
}

// As syslog counts them, down from the worst.
constexpr std::array<int, 6> kPriorities = {7, 7, 6, 4, 3, 2};

void say_left_out(const std::vector<LeftOut>& all) {
    for (const LeftOut& left : all) {
        const std::string_view name = info_of(left.event).name;
        const std::array<Field, 2> fields = {{{"of_event", name}, {"lines", left.lines}}};
        emit(Event::lines_left_out, fields,
             fmt::format("{} more lines of the event {} were left out", left.lines, name));
    }
}

std::vector<LeftOut> left_out(Budget::Clock::time_point before) {
    const std::lock_guard lock(log().mutex);
    return log().budget.take_left_out(before);
}

}  // namespace

Format current_format() {
    return settings().format;
}

void configure(Settings settings) {
    present.store(settings, std::memory_order_relaxed);
}

Settings settings() {
    return present.load(std::memory_order_relaxed);
}

bool admit(Event event) {
    if (info_of(event).level < settings().least) return false;
    report_left_out();
    const std::lock_guard lock(log().mutex);
    return log().budget.admit(event, Budget::Clock::now());
}

void emit(Event event, std::span<const Field> fields, std::string_view message) {
    const auto level = static_cast<std::size_t>(info_of(event).level);
    const Said said{event, message, fields, std::chrono::system_clock::now(), ::getpid()};
    const Format format = current_format();
    std::string line = log().terminal && format == Format::text ? short_line_of(said) : line_of(said, format);
    if (log().journal) line.insert(0, fmt::format("<{}>", kPriorities.at(level)));
    log().out.log(spdlog::level::critical, line);
}

void report_left_out() {
    say_left_out(left_out(Budget::Clock::now()));
}

void report_all_left_out() {
    say_left_out(left_out(Budget::Clock::time_point::max()));
}

}  // namespace croupier::event_log
