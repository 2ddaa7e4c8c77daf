#include "tools/program_beside.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

namespace croupier::tools {

int run_program_beside(char** argv) {
    std::error_code unknown;
    const auto own = std::filesystem::read_symlink("/proc/self/exe", unknown);
    const std::string program = (own.parent_path() / ("croupier-" + std::string(argv[1]))).string();
    ::execv(program.c_str(), argv + 1);
    std::fprintf(stderr, "croupier: cannot run %s: %s; %s\n", program.c_str(), std::strerror(errno),
                 kHowToGetPrograms);
    return 127;
}

}  // namespace croupier::tools
