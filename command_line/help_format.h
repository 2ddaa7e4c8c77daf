// How --help looks, alike in every program: lines that fit the terminal, and options by their names and
// units.
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
    // Paragraphs are wrapped; headings ("Examples:") and indented lines, which are examples and tables, stay
    // as they are.
    std::string make_footer(const CLI::App* app) const override;

  private:
    std::string row(const std::string& left, const std::string& right) const;

    std::size_t width_;
};

}  // namespace croupier::command_line
