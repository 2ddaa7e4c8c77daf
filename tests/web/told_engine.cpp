// An engine that does what its standard input tells it, for tests that look at a daemon from outside:
//   web_told_engine ENDPOINT NAME SEQUENCES
// Commands: "steps N" whole steps, "submit" one step without its logits, "write" those logits. Each is
// answered with a line "done"; at the end of the input the session is closed.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "testing/small_engine.h"

namespace {

using croupier::testing::EngineShape;
using croupier::testing::SmallEngine;

void obey(SmallEngine& engine, const std::string& command) {
    if (command == "steps") {
        int count = 0;
        std::cin >> count;
        engine.steps(count);
    } else if (command == "submit") {
        engine.submit();
    } else if (command == "write") {
        engine.write();
        engine.collect();
    } else {
        throw std::invalid_argument("steps, submit and write are known, not " + command);
    }
    std::cout << "done" << std::endl;
}

void run(const char* endpoint, const char* name, std::uint32_t sequences) {
    EngineShape shape;
    shape.max_length = 4096;
    SmallEngine engine(endpoint, name, shape);
    engine.admit(sequences);
    std::cout << "done" << std::endl;
    for (std::string command; std::cin >> command;) obey(engine, command);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 4) throw std::invalid_argument("three arguments: ENDPOINT NAME SEQUENCES");
    run(argv[1], argv[2], static_cast<std::uint32_t>(std::stoul(argv[3])));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
