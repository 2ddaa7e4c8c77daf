// Every program's command line: its help, and its messages for unknown words.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <sstream>
#include <string>
#include <vector>

#include "testing/on_terminal.h"
#include "testing/workplace.h"

namespace croupier {
namespace {

using testing::Ended;
using testing::Workplace;

constexpr std::size_t kWidest = 80;

// "  status   Show a daemon" below "Subcommands:"
std::vector<std::string> commands_in(const std::string& help) {
    std::vector<std::string> commands;
    std::istringstream lines(help);
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line == "Subcommands:") {
            inside = true;
        } else if (line.empty()) {
            inside = false;
        } else if (inside && line[2] != ' ') {
            commands.push_back(line.substr(2, line.find(' ', 2) - 2));
        }
    }
    return commands;
}

void check_lines(const std::string& help, std::size_t widest) {
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= widest);
        CHECK(std::none_of(line.begin(), line.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }));
    }
}

// Checks the help of a command and of its subcommands. Returns the number of commands.
std::size_t check_help(const Workplace& place, const std::string& program, const std::string& command) {
    const Ended shown = place.run(command + " --help", "", program);
    INFO(program << " " << command << "\n" << shown.output);
    CHECK(shown.status == 0);
    check_lines(shown.output, kWidest);
    CHECK(shown.output.find("->") == std::string::npos);
    const auto examples = shown.output.find("Examples:\n");
    if (examples != std::string::npos) {
        const std::string own = program + (command.empty() ? "" : " " + command);
        CHECK(shown.output.find(own, examples) != std::string::npos);
    }
    std::size_t count = 1;
    const std::string before = command.empty() ? "" : command + " ";
    for (const std::string& inner : commands_in(shown.output)) {
        std::string whole = before;
        whole.append(inner);
        count += check_help(place, program, whole);
    }
    return count;
}

Ended refused(const Workplace& place, const std::string& arguments, const std::string& program = "croupier") {
    Ended ended = place.run(arguments, "", program);
    INFO(ended.output);
    CHECK(ended.status == (arguments.starts_with("doctor") ? 3 : 2));
    // One line.
    CHECK(std::count(ended.output.begin(), ended.output.end(), '\n') == 1);
    return ended;
}

}  // namespace

TEST_CASE("every command's help fits 80 columns and has no control bytes, and examples are its own") {
    const Workplace place;
    CHECK(check_help(place, "croupier", "") > 20);
    CHECK(check_help(place, "croupierd", "") == 1);
    for (const char* command : {"bench", "bench ipc", "cleanup", "hotset", "ping", "stat", "sim", "status"})
        CHECK(place.run(std::string(command) + " --help").output.find("Examples:\n") != std::string::npos);
}

TEST_CASE("help is as wide as the terminal") {
    for (const std::uint16_t columns : {std::uint16_t{50}, std::uint16_t{80}, std::uint16_t{95}}) {
        testing::OnTerminal terminal({"top", "--help"}, columns);
        std::string help = terminal.rest();
        help.erase(std::remove(help.begin(), help.end(), '\r'), help.end());
        const std::string options = help.substr(0, help.find("Examples:"));
        INFO(options);
        CHECK(options.find("--interval") != std::string::npos);
        check_lines(options, columns);
        CHECK(terminal.wait() == 0);
    }
}

TEST_CASE("help, help COMMAND and a command without its subcommand print help") {
    const Workplace place;
    const std::string help = place.run("--help").output;
    for (const char* words : {"", "help"}) {
        const Ended shown = place.run(words);
        CHECK(shown.status == 0);
        CHECK(shown.output == help);
    }
    CHECK(place.run("help status").output == place.run("status --help").output);
    CHECK(place.run("help hotset build").output == place.run("hotset build --help").output);
    CHECK(place.run("hotset").output == place.run("hotset --help").output);
    CHECK(place.run("help sim").output == place.run("sim --help").output);
    CHECK(place.run("help bench ipc").output == place.run("bench ipc --help").output);
    CHECK(place.run("help", "", "croupierd").output == place.run("--help", "", "croupierd").output);
    CHECK(place.run("status --help").output.find("Usage: croupier status ") != std::string::npos);
}

TEST_CASE("an unknown word is answered with the nearest known one") {
    const Workplace place;
    const auto says = [&](const std::string& arguments, const std::string& what,
                          const std::string& program = "croupier") {
        CHECK(refused(place, arguments, program).output == what + "\n");
    };
    says("nosuch", "croupier: no command 'nosuch'; 'croupier --help' lists the commands");
    says("docter",
         "croupier: no command 'docter'; did you mean 'doctor'? 'croupier --help' lists the commands");
    says("help docter",
         "croupier: no command 'docter'; did you mean 'doctor'? 'croupier --help' lists the commands");
    says("--nosuch", "croupier: no option '--nosuch'; 'croupier --help' lists the options");
    says("hotset bild",
         "croupier hotset: no command 'bild'; did you mean 'build'? 'croupier hotset --help' lists the "
         "commands");
    says("status --jsno",
         "croupier status: no option '--jsno'; did you mean '--json'? 'croupier status --help' lists the "
         "options");
    says("status now",
         "croupier status: unexpected argument 'now'; 'croupier status --help' lists the options");
    says("sim --vocb=3",
         "croupier sim: no option '--vocb'; did you mean '--vocab'? 'croupier sim --help' lists the options");
    says("bench icp",
         "croupier bench: no command 'icp'; did you mean 'ipc'? 'croupier bench --help' lists the commands");
    says("--confg x",
         "croupierd: no option '--confg'; did you mean '--config'? 'croupierd --help' lists the options",
         "croupierd");
    // Internal options of the supervisor are never suggested.
    CHECK(refused(place, "--supervisr 3", "croupierd").output.find("did you mean") == std::string::npos);
}

TEST_CASE("a request file that is not there is named, with what should be in it") {
    const Workplace place;
    const Ended ended = place.run("explain nofile");
    CHECK(ended.status != 0);
    CHECK(ended.output.find("cannot read 'nofile': No such file or directory; it should be a request") !=
          std::string::npos);
}

TEST_CASE("an option with named values lists them in its help and in its error") {
    const Workplace place;
    const std::string help = place.run("sim --help").output;
    for (const char* names :
         {"--transport {rows,lean}", "--order {identity,random}", "--chaos {samplers,daemon,writer,client}",
          "--verify {all,after,sample,never}"}) {
        INFO(names);
        CHECK(help.find(names) != std::string::npos);
    }
    CHECK(help.find("[default rows]") != std::string::npos);
    CHECK(help.find("[1 to 16384; default 64]") != std::string::npos);
    // The number behind a name is not accepted as a value.
    for (const char* wrong : {"nonsense", "3", "\x03"}) {
        const Ended ended = refused(place, std::string("sim --transport '") + wrong + "'");
        CHECK(ended.output ==
              "croupier sim: --transport: '" + std::string(wrong) +
                  "' is invalid; allowed: rows, lean; 'croupier sim --help' lists the options\n");
    }
    CHECK(refused(place, "sim --mix nonsense").output.find("allowed: greedy, plain, full,") !=
          std::string::npos);
    CHECK(refused(place, "relay --root x --records-over tcp").output.find("allowed: zmq, nccl") !=
          std::string::npos);
    CHECK(refused(place, "doctor --skip nothing").output.find("allowed: ") != std::string::npos);
    CHECK(refused(place, "sim --batch").output.find("croupier sim: --batch needs a value; ") == 0);
}

}  // namespace croupier
