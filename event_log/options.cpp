#include "event_log/options.h"

#include "command_line/choices.h"

namespace croupier::event_log {

void add_options(CLI::App& app, Settings& settings, const std::string& when) {
    command_line::Choices<Level> levels;
    for (const Level level : {Level::trace, Level::debug, Level::info, Level::warn, Level::error}) {
        levels.emplace_back(name_of(level), level);
    }
    command_line::add_choice(app, "--log-level", settings.least, levels,
                             (when.empty() ? "Least" : when + "least") + " severe level that is logged");
    command_line::add_choice(app, "--log-format", settings.format,
                             {{"text", Format::text}, {"json", Format::json}},
                             (when.empty() ? "Format" : when + "format") + " of log lines");
}

}  // namespace croupier::event_log
