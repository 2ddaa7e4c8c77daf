// The format of --help in every program: wrapped to the terminal, with the allowed values of each option.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace croupier::command_line {

class HelpFormat : public CLI::Formatter {
  public:
    explicit HelpFormat(std::size_t width) : width_(width) {}

    std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
    std::string make_description(const CLI::App* app) const override;
    std::string make_option(const CLI::Option* option, bool is_positional) const override;
    std::string make_subcommand(const CLI::App* command) const override;
    // Wraps paragraphs. Headings ("Examples:") and indented lines (examples and tables) are kept as they are.
    std::string make_footer(const CLI::App* app) const override;

  private:
    std::string row(const std::string& left, const std::string& right) const;

    std::size_t width_;
};

}  // namespace croupier::command_line
