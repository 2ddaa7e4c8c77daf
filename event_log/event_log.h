// What a program says of itself on standard error: one line an event, for people and for collectors. A
// terminal gets Format::text in a short form.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <initializer_list>

#include "event_log/events.h"
#include "event_log/line.h"

namespace croupier::event_log {

struct Settings {
    Level least = Level::info;
    Format format = Format::text;
    bool operator==(const Settings&) const = default;
};

// May be called again, also by a signal's handler: what is logged from then on follows.
void configure(Settings settings);
Settings settings();

// Whether a line of this event goes out; one that is over its limit is counted.
bool admit(Event event);
void emit(Event event, std::span<const Field> fields, std::string_view message);

// From any thread. Texts of peers and files may stand in it as they are.
template <typename... Values>
void write(Event event, std::initializer_list<Field> fields, fmt::format_string<Values...> message,
           Values&&... values) {
    if (!admit(event)) return;
    emit(event, {fields.begin(), fields.size()}, fmt::format(message, std::forward<Values>(values)...));
}

// Regularly: says what was over its limit a second ago or longer.
void report_left_out();
// At the end: says all of it.
void report_all_left_out();

}  // namespace croupier::event_log
