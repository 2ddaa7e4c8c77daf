#include "host/placement.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <tuple>

#include "host/control_group.h"

namespace croupier::host {
namespace {

struct TopologyDeleter {
    void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

struct BitmapDeleter {
    void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

// hwloc takes its root folder from the environment.
class OtherRoot {
  public:
    explicit OtherRoot(const HostView& host) : set_(!host.is_real()) {
        if (set_) ::setenv(kVariable, host.root.c_str(), 1);
    }
    ~OtherRoot() {
        if (set_) ::unsetenv(kVariable);
    }
    OtherRoot(const OtherRoot&) = delete;
    OtherRoot& operator=(const OtherRoot&) = delete;

  private:
    static constexpr const char* kVariable = "HWLOC_FSROOT";
    bool set_;
};

Topology load_topology(const HostView& host) {
    const OtherRoot root(host);
    hwloc_topology_t raw = nullptr;
    if (hwloc_topology_init(&raw) != 0) return nullptr;
    Topology topology(raw);
    if (hwloc_topology_load(raw) != 0) return nullptr;
    return topology;
}

bool read_allowed_cores(const HostView& host, hwloc_bitmap_t cores) {
    const auto list = field_of(host.read_of_process("status").value_or(""), "Cpus_allowed_list");
    return list && hwloc_bitmap_list_sscanf(cores, list->c_str()) == 0;
}

// Returns false if the mask is unknown, which means no restriction.
bool bound_to(hwloc_topology_t topology, const HostView& host, hwloc_bitmap_t cores) {
    if (host.is_this_process()) return hwloc_get_cpubind(topology, cores, HWLOC_CPUBIND_PROCESS) == 0;
    return read_allowed_cores(host, cores);
}

void count_cores(hwloc_topology_t topology, const std::string& list,
                 std::map<std::int32_t, std::size_t>& cores_on) {
    const Bitmap cores(hwloc_bitmap_alloc());
    if (list.empty() || hwloc_bitmap_list_sscanf(cores.get(), list.c_str()) != 0) return;
    for (int core = hwloc_bitmap_first(cores.get()); core >= 0; core = hwloc_bitmap_next(cores.get(), core)) {
        const hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(topology, static_cast<unsigned>(core));
        if (unit != nullptr) ++cores_on[hwloc_bitmap_first(unit->nodeset)];
    }
}

std::int32_t node_of_most(const std::map<std::int32_t, std::size_t>& cores_on) {
    const auto most = std::max_element(cores_on.begin(), cores_on.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == cores_on.end() ? -1 : most->first;
}

// Processing units in hwloc's logical order: neighbours share caches and a NUMA node.
std::vector<std::uint32_t> cores_in(hwloc_topology_t topology, const HostView& host) {
    Bitmap bound(hwloc_bitmap_alloc());
    const bool known = bound_to(topology, host, bound.get());
    std::vector<std::uint32_t> cores;
    for (hwloc_obj_t unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, nullptr); unit != nullptr;
         unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) {
        if (!known || hwloc_bitmap_isset(bound.get(), unit->os_index) != 0) cores.push_back(unit->os_index);
    }
    return cores;
}

struct ThreadOfCore {
    std::uint32_t unit;
    hwloc_obj_t core;  // nullptr: unknown
    int node;
    std::size_t number;  // among the usable threads of the core
};

// Of each node first one thread of each core, then the second threads: a process that waits on one thread of
// a core slows down the other thread.
std::vector<ThreadOfCore> spread(hwloc_topology_t topology, const std::vector<std::uint32_t>& units) {
    std::map<hwloc_obj_t, std::size_t> seen;
    std::vector<ThreadOfCore> threads;
    for (const std::uint32_t unit : units) {
        const hwloc_obj_t found = hwloc_get_pu_obj_by_os_index(topology, unit);
        const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, found);
        const int node = hwloc_bitmap_first(found->nodeset);
        threads.push_back({unit, core, node, core == nullptr ? 0 : seen[core]++});
    }
    std::stable_sort(threads.begin(), threads.end(), [](const ThreadOfCore& a, const ThreadOfCore& b) {
        return std::tie(a.node, a.number) < std::tie(b.node, b.number);
    });
    return threads;
}

// Without the first core, or its first thread, if enough are left.
void leave_first_core(std::vector<ThreadOfCore>& threads, std::size_t wanted) {
    const ThreadOfCore first = threads.front();
    const auto of_core = [&](const ThreadOfCore& thread) {
        return thread.unit == first.unit || (first.core != nullptr && thread.core == first.core);
    };
    const auto own = static_cast<std::size_t>(std::count_if(threads.begin(), threads.end(), of_core));
    if (threads.size() >= wanted + own)
        std::erase_if(threads, of_core);
    else if (threads.size() > wanted)
        threads.erase(threads.begin());
}

std::vector<std::uint32_t> choose_cores(std::size_t wanted, const std::vector<std::uint32_t>& allowed,
                                        const HostView& host) {
    const Topology topology = load_topology(host);
    std::vector<std::uint32_t> cores =
        topology ? cores_in(topology.get(), host) : std::vector<std::uint32_t>();
    if (!allowed.empty()) {
        std::erase_if(cores, [&](std::uint32_t core) {
            return std::find(allowed.begin(), allowed.end(), core) == allowed.end();
        });
        // If the list names no usable core, use it as it is and let binding fail.
        if (cores.empty()) return allowed;
    }
    if (cores.empty()) return {0};
    auto threads = spread(topology.get(), cores);
    if (allowed.empty()) leave_first_core(threads, wanted);
    cores.clear();
    for (const ThreadOfCore& thread : threads) cores.push_back(thread.unit);
    return cores;
}

}  // namespace

std::vector<std::uint32_t> usable_cores(const HostView& host) {
    const Topology topology = load_topology(host);
    return topology ? cores_in(topology.get(), host) : std::vector<std::uint32_t>();
}

std::vector<std::string> place_samplers(std::uint32_t samplers, std::uint32_t threads_each,
                                        const std::vector<std::uint32_t>& allowed, const HostView& host) {
    const auto cores = choose_cores(std::size_t{samplers} * threads_each, allowed, host);
    std::vector<std::string> lists(samplers);
    std::size_t next = 0;
    for (auto& list : lists) {
        for (std::uint32_t thread = 0; thread < threads_each; ++thread) {
            if (!list.empty()) list += ",";
            list += std::to_string(cores[next++ % cores.size()]);
        }
    }
    return lists;
}

std::uint32_t default_sampler_count(std::uint32_t threads_each, const HostView& host) {
    std::size_t cores = std::max<std::size_t>(1, usable_cores(host).size());
    if (const auto quota = cpu_quota(host))
        cores = std::clamp<std::size_t>(static_cast<std::size_t>(*quota), 1, cores);
    return std::max(1U, static_cast<std::uint32_t>((cores - 1) / threads_each));
}

std::vector<std::int32_t> nodes_of(const std::vector<std::string>& core_lists, const HostView& host) {
    std::vector<std::int32_t> nodes;
    const Topology topology = load_topology(host);
    for (const std::string& list : core_lists) {
        std::map<std::int32_t, std::size_t> cores_on;
        if (topology) count_cores(topology.get(), list, cores_on);
        nodes.push_back(node_of_most(cores_on));
    }
    return nodes;
}

std::int32_t node_of(const std::vector<std::string>& core_lists, const HostView& host) {
    const Topology topology = load_topology(host);
    if (!topology) return -1;
    std::map<std::int32_t, std::size_t> cores_on;
    for (const std::string& list : core_lists) count_cores(topology.get(), list, cores_on);
    return node_of_most(cores_on);
}

std::optional<std::size_t> allowed_cores(const HostView& host) {
    const Bitmap cores(hwloc_bitmap_alloc());
    if (!read_allowed_cores(host, cores.get())) return std::nullopt;
    return static_cast<std::size_t>(std::max(0, hwloc_bitmap_weight(cores.get())));
}

bool bind_this_process(const std::string& cores) {
    const Topology topology = load_topology({});
    Bitmap set(hwloc_bitmap_alloc());
    if (!topology || hwloc_bitmap_list_sscanf(set.get(), cores.c_str()) != 0) return false;
    if (hwloc_set_cpubind(topology.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0) return false;
    // Keeps scratch memory near the cores. Fails harmlessly on machines without NUMA.
    hwloc_set_membind(topology.get(), set.get(), HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_PROCESS);
    return true;
}

std::int32_t first_core(const std::string& cores) {
    Bitmap set(hwloc_bitmap_alloc());
    if (cores.empty() || hwloc_bitmap_list_sscanf(set.get(), cores.c_str()) != 0) return -1;
    return hwloc_bitmap_first(set.get());
}

}  // namespace croupier::host
