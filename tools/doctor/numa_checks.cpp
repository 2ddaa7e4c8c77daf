// Where samplers, segments and GPUs lie to each other, and the GPUs' links.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/doctor/checks.h"
#include "tools/doctor/gpus.h"

namespace croupier::tools::doctor {
namespace {

std::string distance_in_words(const host::HostView& host, std::int32_t from, std::int32_t to) {
    const std::uint32_t distance = node_distance(host, from, to);
    return distance == 0 ? "" : fmt::format(" (distance {}; 10 is one node)", distance);
}

std::string cores_of_node(const host::HostView& host, std::int32_t node) {
    return host.read(fmt::format("/sys/devices/system/node/node{}/cpulist", node))
        .value_or("those of the node");
}

std::string in_words(const LinkSide& side) {
    return fmt::format("x{} at {:g} GT/s", side.width, side.gigatransfers);
}

}  // namespace

Finding check_sampler_nodes(const Examined& examined) {
    const std::int32_t segment = examined.segment_node;
    std::map<std::int32_t, std::size_t> samplers_on;
    for (const std::int32_t node : examined.sampler_nodes) ++samplers_on[node];
    if (samplers_on.empty() || samplers_on.begin()->first < 0) {
        return skipped("this host does not report the NUMA nodes of its cores");
    }
    const std::vector<Fact> facts = {{"segment_node", static_cast<std::int64_t>(segment)},
                                     {"sampler_nodes", static_cast<std::int64_t>(samplers_on.size())}};
    const auto near = samplers_on.find(segment);
    const std::size_t on_segment = near == samplers_on.end() ? 0 : near->second;
    if (on_segment == examined.sampler_cores.size()) {
        return fine(fmt::format("samplers and segments are on node {}", segment), facts);
    }
    const std::int32_t far = std::find_if(samplers_on.begin(), samplers_on.end(), [&](const auto& each) {
                                 return each.first != segment;
                             })->first;
    return slower(
        fmt::format("{} of {} samplers are not on the segments' node, {}, but on node {}{}",
                    examined.sampler_cores.size() - on_segment, examined.sampler_cores.size(), segment, far,
                    distance_in_words(examined.host, far, segment)),
        fmt::format("set samplers.cores to \"{}\" and samplers.count to match, or set another shm.node",
                    cores_of_node(examined.host, segment)),
        facts);
}

Finding check_gpu_nodes(const Examined& examined) {
    const auto gpus = gpus_of(examined.host);
    if (gpus.empty()) return skipped("no NVIDIA GPU is on this host's PCI bus");
    const std::int32_t segment = examined.segment_node;
    std::set<std::int32_t> nodes;
    for (const Gpu& gpu : gpus) nodes.insert(gpu.node);
    std::vector<Fact> facts = {{"gpus", static_cast<std::int64_t>(gpus.size())},
                               {"segment_node", static_cast<std::int64_t>(segment)}};
    if (*nodes.begin() < 0) {
        return skipped(
            fmt::format("the node of GPU {} is unknown (numa_node is -1), as in many virtual machines",
                        gpus.front().address));
    }
    const std::int32_t nearest = *std::min_element(nodes.begin(), nodes.end(), [&](auto a, auto b) {
        return node_distance(examined.host, a, segment) < node_distance(examined.host, b, segment);
    });
    facts.emplace_back("distance", static_cast<std::int64_t>(node_distance(examined.host, nearest, segment)));
    if (nodes.count(segment) == 0) {
        return slower(fmt::format("the GPUs are on node {}, segments and samplers on node {}{}", nearest,
                                  segment, distance_in_words(examined.host, nearest, segment)),
                      fmt::format("set shm.node: {} and samplers.cores: \"{}\"", nearest,
                                  cores_of_node(examined.host, nearest)),
                      facts);
    }
    if (nodes.size() > 1) {
        return fine(
            fmt::format(
                "GPUs are on {} nodes, segments on node {}; an engine that uses one node's GPUs may be "
                "faster with a daemon of its own on that node",
                nodes.size(), segment),
            facts);
    }
    return fine(fmt::format("{} GPU{} and the segments on node {}", gpus.size(), gpus.size() == 1 ? "" : "s",
                            segment),
                facts);
}

Finding check_links(const Examined& examined) {
    const auto gpus = gpus_of(examined.host);
    if (gpus.empty()) return skipped("no NVIDIA GPU is on this host's PCI bus");
    std::string narrow;
    std::string idle;
    std::vector<Fact> facts = {{"gpus", static_cast<std::int64_t>(gpus.size())}};
    for (const Gpu& gpu : gpus) {
        const std::string now = in_words(gpu.now);
        facts.emplace_back(gpu.address, now + " of " + in_words(gpu.most));
        if (gpu.now.width == 0) continue;
        if (gpu.now.width < gpu.most.width) {
            narrow += fmt::format("{}{} has {} of x{}", narrow.empty() ? "" : ", ", gpu.address, now,
                                  gpu.most.width);
        } else if (gpu.now.gigatransfers < gpu.most.gigatransfers && idle.empty()) {
            idle = fmt::format(
                "; {} is at {:g} of {:g} GT/s, as idle GPUs are to save power: check again under "
                "load",
                gpu.address, gpu.now.gigatransfers, gpu.most.gigatransfers);
        }
    }
    if (!narrow.empty()) {
        return slower("a PCIe link uses fewer lanes than it could: " + narrow,
                      "reseat the card or its riser, and check the firmware for bifurcation", facts);
    }
    const auto known =
        std::find_if(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.now.width != 0; });
    if (known == gpus.end()) return skipped("the GPUs' links are unknown, as in many virtual machines");
    return fine(
        fmt::format("{} link{}, {}{}", gpus.size(), gpus.size() == 1 ? "" : "s", in_words(known->now), idle),
        facts);
}

}  // namespace croupier::tools::doctor
