#include "command_line/parse.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command_line/help_format.h"
#include "command_line/text_width.h"
#include "config/nearest.h"

namespace croupier::command_line {
namespace {

// Longer lines are hard to read, however wide the terminal is.
constexpr std::size_t kWidest = 100;

using Words = std::vector<std::string>;

// "croupier hotset build"
std::string name_of(const CLI::App& app) {
    return app.get_parent() == nullptr ? app.get_name() : name_of(*app.get_parent()) + " " + app.get_name();
}

Words commands_of(const CLI::App& app) {
    Words names;
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    return names;
}

// Names without dashes. Options that --help hides are left out.
Words options_of(const CLI::App& app) {
    Words names;
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty()) continue;
        const Words& of_option = option->get_lnames();
        names.insert(names.end(), of_option.begin(), of_option.end());
    }
    return names;
}

void set_format(CLI::App& app, const std::shared_ptr<HelpFormat>& format) {
    app.formatter(format);
    for (CLI::App* command : app.get_subcommands({})) set_format(*command, format);
}

int print_help(CLI::App& app) {
    const CLI::App* parent = app.get_parent();
    std::cout << app.help(parent == nullptr ? "" : name_of(*parent)) << std::flush;
    return 0;
}

int refuse(const CLI::App& app, const std::string& why, const char* listed) {
    std::cerr << name_of(app) << ": " << why << "'" << name_of(app) << " --help' lists the " << listed
              << "\n";
    return kWrongCommandLine;
}

int refuse_word(const CLI::App& app, const std::string& word) {
    const Words commands = commands_of(app);
    const std::size_t begin = word.find_first_not_of('-');
    const bool is_option = word.front() == '-' && begin != std::string::npos;
    const std::string shown = is_option ? word.substr(0, word.find('=')) : word;
    const auto meant =
        is_option ? config::nearest(shown.substr(begin), options_of(app)) : config::nearest(shown, commands);
    std::string why = is_option ? "no option" : commands.empty() ? "unexpected argument" : "no command";
    why += " '" + shown + "'; ";
    if (meant) why += "did you mean '" + std::string(is_option ? "--" : "") + *meant + "'? ";
    return refuse(app, why, is_option || commands.empty() ? "options" : "commands");
}

// The command that received an unknown word.
const CLI::App* command_with_unknown_word(const CLI::App& app) {
    if (!app.remaining().empty()) return &app;
    for (const CLI::App* command : app.get_subcommands()) {
        if (const CLI::App* found = command_with_unknown_word(*command)) return found;
    }
    return nullptr;
}

CLI::App& innermost(CLI::App& app) {
    const auto parsed = app.get_subcommands();
    return parsed.empty() ? app : innermost(*parsed.back());
}

int explain(CLI::App& app, const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    if (const CLI::App* command = command_with_unknown_word(app))
        return refuse_word(*command, command->remaining().front());
    CLI::App& command = innermost(app);
    const bool lacks_command = command.get_require_subcommand_min() > 0 && command.get_subcommands().empty();
    if (lacks_command) return print_help(command);
    std::string what = error.what();
    // Replaces CLI11's message "--batch: 1 required UINT:UINT in [1 - 4096] missing".
    if (error.get_name() == "ArgumentMismatch" && what.ends_with(" missing"))
        what = what.substr(0, what.find(": ")) + " needs a value";
    return refuse(command, what + "; ", "options");
}

// Prints the help for `help hotset build`; `words` are those after `help`.
int help(CLI::App& app, const Words& words) {
    CLI::App* asked = &app;
    for (const std::string& word : words) {
        const Words commands = commands_of(*asked);
        if (std::find(commands.begin(), commands.end(), word) == commands.end())
            return refuse_word(*asked, word);
        asked = asked->get_subcommand(word);
    }
    return print_help(*asked);
}

}  // namespace

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
    const std::size_t width = std::min(terminal_width(STDOUT_FILENO), kWidest);
    set_format(app, std::make_shared<HelpFormat>(width));
    if (argc > 1 && std::string(argv[1]) == "help") return help(app, Words(argv + 2, argv + argc));
    try {
        app.parse(argc, argv);
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        return explain(app, error);
    }
}

}  // namespace croupier::command_line
