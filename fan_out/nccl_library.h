// Loads NCCL when it is needed, so that a bundle also runs on hosts without it.
#pragma once

#include <nccl.h>

#include <string>

#include "shm/error.h"

namespace croupier::fan_out {

struct NcclLibrary {
    decltype(&ncclGetUniqueId) get_unique_id = nullptr;
    decltype(&ncclCommInitRankConfig) init_rank = nullptr;
    decltype(&ncclCommGetAsyncError) async_error = nullptr;
    decltype(&ncclCommAbort) abort = nullptr;
    decltype(&ncclBroadcast) broadcast = nullptr;
    decltype(&ncclGetErrorString) error_string = nullptr;

    // Loads it once in a process.
    static shm::Result<const NcclLibrary*> load();

    shm::Result<bool> done(ncclResult_t status, const std::string& what) const;
};

}  // namespace croupier::fan_out
