#include "tools/doctor/gpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace croupier::tools::doctor {
namespace {

constexpr const char* kDevices = "/sys/bus/pci/devices";
constexpr const char* kNvidia = "0x10de";
constexpr const char* kDisplayClass = "0x03";

LinkSide link_of(const host::HostView& host, const std::string& folder, const std::string& which) {
    // "32.0 GT/s PCIe", or "Unknown".
    const auto speed = host.read(folder + "/" + which + "_link_speed");
    const auto width = host.read(folder + "/" + which + "_link_width");
    LinkSide side;
    if (speed) side.gigatransfers = std::atof(speed->c_str());
    if (width) side.width = static_cast<std::uint32_t>(std::strtoul(width->c_str(), nullptr, 10));
    // What the kernel writes where the device does not tell.
    if (side.width == 255) side.width = 0;
    return side;
}

template <typename Number>
Number lesser_known(Number a, Number b) {
    return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

// In /sys a device lies in the folder of the bridge that it hangs on.
LinkSide most_of_both_ends(const host::HostView& host, const std::string& folder) {
    LinkSide most = link_of(host, folder, "max");
    std::error_code failure;
    const auto real = std::filesystem::canonical(host.path(folder), failure);
    if (failure) return most;
    host::HostView above = host;
    above.root.clear();  // the path is resolved already
    const LinkSide slot = link_of(above, real.parent_path().string(), "max");
    most.gigatransfers = lesser_known(most.gigatransfers, slot.gigatransfers);
    most.width = lesser_known(most.width, slot.width);
    return most;
}

}  // namespace

std::vector<Gpu> gpus_of(const host::HostView& host) {
    std::vector<Gpu> gpus;
    for (const std::string& address : host.list(kDevices)) {
        const std::string folder = std::string(kDevices) + "/" + address;
        if (host.read(folder + "/vendor") != kNvidia) continue;
        if (!host.read(folder + "/class").value_or("").starts_with(kDisplayClass)) continue;
        Gpu gpu;
        gpu.address = address;
        if (const auto node = host.read(folder + "/numa_node")) gpu.node = std::atoi(node->c_str());
        gpu.now = link_of(host, folder, "current");
        gpu.most = most_of_both_ends(host, folder);
        gpus.push_back(gpu);
    }
    return gpus;
}

std::uint32_t node_distance(const host::HostView& host, std::int32_t from, std::int32_t to) {
    std::istringstream row(
        host.read("/sys/devices/system/node/node" + std::to_string(from) + "/distance").value_or(""));
    // A column for each node that is there, and numbers may be left out.
    std::vector<std::int32_t> nodes;
    for (const std::string& name : host.list("/sys/devices/system/node")) {
        if (name.starts_with("node") && name.size() > 4 &&
            name.find_first_not_of("0123456789", 4) == std::string::npos) {
            nodes.push_back(std::atoi(name.c_str() + 4));
        }
    }
    std::sort(nodes.begin(), nodes.end());
    std::uint32_t distance = 0;
    for (const std::int32_t node : nodes) {
        if (!(row >> distance)) return 0;
        if (node == to) return distance;
    }
    return 0;
}

}  // namespace croupier::tools::doctor
