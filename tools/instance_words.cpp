#include "tools/instance_words.h"

#include "host/host_view.h"

namespace croupier::tools {

std::string inspection_error(const std::string& instance, const shm::Error& error) {
    if (error.code != shm::Errc::not_found) return error.message;
    return error.message + "; is croupierd running, with the instance name '" + instance +
           "'? -i and --shm-dir name its keys `instance` and `shm.dir`";
}

bool daemon_is_stopped(pid_t pid) {
    host::HostView process;
    process.process = std::to_string(pid);
    // The pid may belong to a different process if the daemon runs in another PID namespace.
    return process.read_of_process("comm") == "croupierd" && host::is_stopped(process);
}

}  // namespace croupier::tools
