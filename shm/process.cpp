#include "shm/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "shm/file.h"

namespace croupier::shm {
namespace {

// Fields of /proc/PID/stat are counted from the state, which follows the name; proc(5) has it as field 3.
constexpr int kStartTime = 22 - 3;

std::uint64_t start_time(const char* stat_path) {
    const FileDescriptor file(::open(stat_path, O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> buffer{};
    const auto length = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
    if (length <= 0) return 0;
    std::string_view rest(buffer.data(), static_cast<std::size_t>(length));
    // A name may hold blanks and brackets.
    const auto name_end = rest.rfind(") ");
    if (name_end == std::string_view::npos) return 0;
    rest.remove_prefix(name_end + 2);
    for (int field = 0; field < kStartTime; ++field) {
        const auto blank = rest.find(' ');
        if (blank == std::string_view::npos) return 0;
        rest.remove_prefix(blank + 1);
    }
    std::uint64_t ticks = 0;
    std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
    return ticks;
}

std::uint64_t own_pid_namespace() {
    struct stat status {};
    return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

ProcessIdentity this_process() {
    return {::getpid(), start_time("/proc/self/stat"), own_pid_namespace()};
}

bool await_end(const ProcessIdentity& process, std::chrono::milliseconds patience) {
    if (process.pid <= 0 || process.pid == ::getpid() || process.pid_namespace == 0) return true;
    if (process.pid_namespace != own_pid_namespace()) return true;
    // By number of the call: the C library of Debian 12 has it, older ones do not.
    const FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!handle.valid()) return true;
    // Looked at after the handle was had, which now stands for whoever bears the number.
    const std::string stat_path = "/proc/" + std::to_string(process.pid) + "/stat";
    if (start_time(stat_path.c_str()) != process.started) return true;
    pollfd ended{handle.get(), POLLIN, 0};
    return ::poll(&ended, 1, static_cast<int>(patience.count())) == 1;
}

}  // namespace croupier::shm
