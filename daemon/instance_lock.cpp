#include "daemon/instance_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "shm/plane.h"

namespace croupier::daemon {

using shm::Errc;
using shm::fail;

shm::Result<shm::FileDescriptor> lock_instance(const std::string& run_dir, const std::string& instance) {
    std::error_code failure;
    std::filesystem::create_directories(run_dir, failure);
    if (failure) return shm::system_failure("cannot create run_dir", run_dir, failure.value());
    const std::string path = run_dir + "/" + instance + ".lock";
    shm::FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!file.valid()) return shm::system_failure("cannot open", path, errno);
    if (!shm::try_lock_byte(file, 0)) {
        std::array<char, 32> holder{};
        const auto length = ::pread(file.get(), holder.data(), holder.size() - 1, 0);
        const std::string pid(holder.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
        return fail(Errc::already_held, "instance " + instance + " already runs with pid " + pid +
                                            "; stop it, or give this one another `instance`");
    }
    const std::string pid = std::to_string(::getpid());
    if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), pid.data(), pid.size(), 0) < 0) {
        return shm::system_failure("cannot write", path, errno);
    }
    return file;
}

shm::Result<bool> await_orphans(const std::string& shm_directory, const std::string& instance) {
    auto plane = shm::Plane::attach(shm_directory, instance, shm::Access::read_only);
    if (!plane) return true;  // none, or of another version: then no sampler of it is ours
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (std::uint32_t index = 0; index < proto::kMaxSamplers; ++index) {
        while (plane.value().sampler_alive(index)) {
            if (std::chrono::steady_clock::now() > deadline) {
                const auto pid = plane.value().header().samplers[index].pid.load();
                return fail(Errc::already_held,
                            "sampler " + std::to_string(index) + " (pid " + std::to_string(pid) +
                                ") of the dead daemon does not end; kill it and start again");
            }
            // A lock that the kernel drops at a process's death can only be looked at.
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    return true;
}

}  // namespace croupier::daemon
