#include "tests/fan_out/transports.h"

#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <string>

#include "tests/gpu_writer/worker_memory.h"

namespace croupier::testing {

using fan_out::Transport;

std::uint32_t most_members(Transport transport) {
    return transport == Transport::nccl ? std::min(4U, cuda_devices()) : 4;
}

bool can_run(Transport transport) {
    if (transport == Transport::zmq) return true;
    static const bool has_nccl = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) != nullptr;
    const std::string lacks = cuda_devices() < 2 ? "fewer than two CUDA devices"
                              : has_nccl         ? ""
                                                 : "no libnccl.so.2";
    if (lacks.empty()) return true;
    const char* wanted = std::getenv("CROUPIER_TEST_GPU");
    if (wanted != nullptr && std::string(wanted) == "required") FAIL("NCCL cannot run: " << lacks);
    static std::set<std::string> said;
    if (said.insert(Catch::getResultCapture().getCurrentTestName()).second) {
        WARN("NCCL skipped: " << lacks);
    }
    return false;
}

}  // namespace croupier::testing
