#include "event_log/options.h"

#include <map>

namespace croupier::event_log {

void add_options(CLI::App& app, Settings& settings, const std::string& when) {
    std::map<std::string, Level> levels;
    for (const Level level : {Level::trace, Level::debug, Level::info, Level::warn, Level::error}) {
        levels.emplace(name_of(level), level);
    }
    app.add_option("--log-level", settings.least, when + "least severe level that is logged")
        ->transform(CLI::CheckedTransformer(levels))
        ->option_text("trace|debug|info|warn|error [info]");
    app.add_option("--log-format", settings.format, when + "form of the log's lines")
        ->transform(CLI::CheckedTransformer(
            std::map<std::string, Format>{{"text", Format::text}, {"json", Format::json}}))
        ->option_text("text|json [text]");
}

}  // namespace croupier::event_log
