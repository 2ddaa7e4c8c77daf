// The text output of `croupier sim`: while it runs, at its end, on failure and on interruption.
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "testing/on_terminal.h"
#include "testing/workplace.h"

namespace croupier {
namespace {

using testing::Ended;
using testing::OnTerminal;

constexpr int kInterrupted = 130;

// Checks the text between carriage returns and line feeds.
void check_no_line_wraps(const std::string& output, std::size_t columns) {
    std::string line;
    for (std::size_t at = 0; at < output.size(); ++at) {
        if (output[at] == '\r' || output[at] == '\n') {
            INFO(line);
            CHECK(line.size() <= columns);
            line.clear();
        } else if (output.compare(at, 3, "\033[K") == 0) {
            at += 2;
        } else {
            line += output[at];
        }
    }
}

}  // namespace

TEST_CASE("sim: the demo updates one line, fits the terminal and suggests next commands") {
    for (const std::uint16_t columns : {std::uint16_t{80}, std::uint16_t{40}}) {
        OnTerminal sim({"sim", "--demo", "--vocab", "4096", "--batch", "8", "--steps", "100", "--stage-ms",
                        "2", "--prompt-max", "64"},
                       columns);
        const std::string output = sim.rest();
        INFO(output);
        CHECK(sim.wait() == 0);
        // Commands are not wrapped, so that they can be copied.
        check_no_line_wraps(output.substr(0, output.find("What to try next")), columns);
        CHECK(output.find("] ") != std::string::npos);
        CHECK(output.find("What to try next:\r\n") != std::string::npos);
        // Nothing scrolls until the summary.
        CHECK(output.find('\n') > output.find("requests   "));
        for (const char* dropped : {"streams", "an error", "given up", "left in shm"})
            CHECK(output.find(dropped) == std::string::npos);
    }
}

TEST_CASE("sim: without a terminal the demo prints plain lines") {
    const testing::Workplace place;
    const Ended ended = place.run("sim --demo --vocab 512 --batch 4 --steps 20 --prompt-max 64");
    INFO(ended.output);
    CHECK(ended.status == 0);
    CHECK(ended.output.find_first_of("\r\033") == std::string::npos);
    CHECK(ended.output.find(" tokens, none differ\n") != std::string::npos);
}

TEST_CASE("sim: Ctrl-C is not a failure, and reports how much was verified") {
    OnTerminal sim({"sim", "--vocab", "4096", "--batch", "8", "--steps", "1000000", "--stage-ms", "5"});
    REQUIRE(sim.shows(" tokens/s"));
    sim.type("\x03");
    const std::string output = sim.rest();
    INFO(output);
    CHECK(output.find("interrupted after ") != std::string::npos);
    CHECK(output.find("verified") != std::string::npos);
    CHECK(output.find("failed") == std::string::npos);
    CHECK(sim.wait() == kInterrupted);
}

TEST_CASE("sim: a run reports that it is waiting for a daemon") {
    OnTerminal sim({"sim", "--endpoint", "ipc:///nowhere/control.sock", "--vocab", "512", "--steps", "1"});
    REQUIRE(
        sim.shows("croupier sim: waiting for a daemon: there was no socket at ipc:///nowhere/control.sock"));
    sim.type("\x03");
    REQUIRE(sim.shows("interrupted before the first token"));
    CHECK(sim.wait() == kInterrupted);
}

TEST_CASE("sim: a run that cannot start prints only the reason") {
    const testing::Workplace place;
    const Ended ended = place.run("sim --vocab 512 --steps 1 --shm-dir /dev/null/no");
    INFO(ended.output);
    CHECK(ended.status == 1);
    CHECK(ended.output.starts_with("croupier sim: run failed: croupierd ended: "));
    CHECK(ended.output.find("/dev/null/no") != std::string::npos);
    CHECK(std::count(ended.output.begin(), ended.output.end(), '\n') == 1);
}

TEST_CASE("sim: some requests end with an intended error, but only with sim's own daemon") {
    const testing::Workplace place;
    const std::string many = "sim --vocab 256 --batch 32 --steps 200 --prompt-max 8 --output-max 16";
    CHECK(place.run(many).output.find("ended with an intended error: a NaN, or no token left)") !=
          std::string::npos);
    CHECK(place.run(many + " --demo").output.find("error") == std::string::npos);
}

TEST_CASE(
    "sim, plan: what belongs to whole rows is refused by name beside lean steps, before anything starts") {
    const testing::Workplace place;
    for (const char* option : {"--summaries", "--order random", "--randoms ring", "--tile 1"}) {
        const Ended ended = place.run(std::string("sim --transport lean --vocab 512 --steps 1 ") + option);
        INFO(ended.output);
        CHECK(ended.status != 0);
        const std::string words = option;
        const std::string name = words.substr(0, words.find(' '));
        CHECK(ended.output.find(name + ": needs --transport rows") != std::string::npos);
        CHECK(ended.output.find("croupierd") == std::string::npos);
    }
    for (const char* command : {"plan", "plan measure --save here.json"}) {
        const Ended ended = place.run(std::string(command) + " --transport lean --summaries");
        INFO(ended.output);
        CHECK(ended.status == 1);
        CHECK(ended.output.find("--summaries needs --transport rows") != std::string::npos);
    }
}

}  // namespace croupier
