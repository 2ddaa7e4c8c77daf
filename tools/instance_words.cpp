#include "tools/instance_words.h"

#include "host/host_view.h"

namespace croupier::tools {

std::string cannot_look_at(const std::string& instance, const shm::Error& error) {
    if (error.code != shm::Errc::not_found) return error.message;
    return error.message + "; is croupierd running, and its instance called '" + instance + "'?";
}

bool daemon_is_stopped(pid_t pid) {
    host::HostView process;
    process.process = std::to_string(pid);
    // In another PID namespace the number is another process's.
    return process.read_of_process("comm") == "croupierd" && host::is_stopped(process);
}

}  // namespace croupier::tools
