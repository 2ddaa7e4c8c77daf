#include <cstdio>
#include <exception>

#include "sim/command.h"

int main(int argc, char** argv) {
    try {
        return croupier::sim::run_command(argc, argv);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "croupier sim: %s\n", failure.what());
        return 1;
    }
}
