#include "fan_out/nccl_library.h"

#include <dlfcn.h>

namespace croupier::fan_out {
namespace {

using shm::Errc;

constexpr const char* kFile = "libnccl.so.2";

template <typename Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

shm::Result<NcclLibrary> load_library() {
    void* library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return shm::fail(Errc::not_found,
                         std::string("NCCL is not on this host: use zmq (") + ::dlerror() + ")");
    }
    NcclLibrary found;
    const bool whole = find(library, "ncclGetUniqueId", found.get_unique_id) &&
                       find(library, "ncclCommInitRankConfig", found.init_rank) &&
                       find(library, "ncclCommGetAsyncError", found.async_error) &&
                       find(library, "ncclCommAbort", found.abort) &&
                       find(library, "ncclBroadcast", found.broadcast) &&
                       find(library, "ncclGetErrorString", found.error_string);
    if (whole) return found;
    return shm::fail(Errc::wrong_version, std::string("this host's ") + kFile +
                                              " is older than 2.14, which the fan-out needs: use zmq");
}

}  // namespace

shm::Result<const NcclLibrary*> NcclLibrary::load() {
    static const shm::Result<NcclLibrary> library = load_library();
    if (!library) return library.error();
    return &library.value();
}

shm::Result<bool> NcclLibrary::done(ncclResult_t status, const std::string& what) const {
    if (status == ncclSuccess || status == ncclInProgress) return true;
    return shm::fail(Errc::system_error, what + ": " + error_string(status));
}

}  // namespace croupier::fan_out
