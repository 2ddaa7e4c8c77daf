#include "measurement/environment.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

namespace croupier::measurement {
namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "unknown";
}

}  // namespace

nlohmann::json environment() {
    return {{"processor", processor_name()},
            {"cores", std::thread::hardware_concurrency()},
            {"version", CROUPIER_VERSION}};
}

}  // namespace croupier::measurement
