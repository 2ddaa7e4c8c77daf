#include "shm/error.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace croupier::shm {

const char* errc_name(Errc code) {
    switch (code) {
        case Errc::not_found:
            return "not_found";
        case Errc::permission_denied:
            return "permission_denied";
        case Errc::no_memory:
            return "no_memory";
        case Errc::bad_magic:
            return "bad_magic";
        case Errc::wrong_version:
            return "wrong_version";
        case Errc::wrong_size:
            return "wrong_size";
        case Errc::corrupt_header:
            return "corrupt_header";
        case Errc::bad_geometry:
            return "bad_geometry";
        case Errc::already_held:
            return "already_held";
        case Errc::stale_epoch:
            return "stale_epoch";
        case Errc::session_closed:
            return "session_closed";
        case Errc::draining:
            return "draining";
        case Errc::ring_full:
            return "ring_full";
        case Errc::bad_argument:
            return "bad_argument";
        case Errc::unknown_sequence:
            return "unknown_sequence";
        case Errc::table_full:
            return "table_full";
        case Errc::daemon_gone:
            return "daemon_gone";
        case Errc::timed_out:
            return "timed_out";
        case Errc::refused:
            return "refused";
        case Errc::system_error:
            return "system_error";
        case Errc::peer_gone:
            return "peer_gone";
        case Errc::forked:
            return "forked";
    }
    return "unknown_error";
}

namespace {

std::string file_size_hint() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
    return "; pid " + std::to_string(::getpid()) + " may write files of at most " +
           std::to_string(limit.rlim_cur) +
           " bytes (RLIMIT_FSIZE): start it with `ulimit -f unlimited`, or LimitFSIZE=infinity in its unit";
}

}  // namespace

Error system_failure(const std::string& what, const std::string& path, int error_number) {
    Errc code = Errc::system_error;
    std::string hint;
    switch (error_number) {
        case ENOENT:
            code = Errc::not_found;
            break;
        case EACCES:
        case EPERM:
            code = Errc::permission_denied;
            hint = "; run as a user or group that the daemon's shm.mode and shm.group admit";
            break;
        case ENOSPC:
        case ENOMEM:
        case EDQUOT:
            code = Errc::no_memory;
            hint = "; free or enlarge that file system (in a container: --shm-size)";
            break;
        case EFBIG:
            code = Errc::no_memory;
            hint = file_size_hint();
            break;
        default:
            break;
    }
    return {code, what + " " + path + ": " + std::generic_category().message(error_number) + hint};
}

}  // namespace croupier::shm
