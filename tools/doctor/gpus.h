// The GPUs of a host by its PCI bus: without a driver's library, which may be missing or hang.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/host_view.h"

namespace croupier::tools::doctor {

struct LinkSide {
    double gigatransfers = 0;  // a second, each lane; 0: not told
    std::uint32_t width = 0;
};

struct Gpu {
    std::string address;  // "0000:3b:00.0"
    std::int32_t node = -1;
    LinkSide now;
    LinkSide most;  // of what the card and the slot above it can both do
};

// NVIDIA's; others bring no logits.
std::vector<Gpu> gpus_of(const host::HostView& host);

// Between two NUMA nodes, as the firmware says (10: within one); 0: not told.
std::uint32_t node_distance(const host::HostView& host, std::int32_t from, std::int32_t to);

}  // namespace croupier::tools::doctor
