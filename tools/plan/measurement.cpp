#include "tools/plan/measurement.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

#include "tools/plan/measurement_json.h"
#include "tools/progress.h"

namespace croupier::tools {
namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
    }
    return "unknown";
}

// The daemon starts one a core but one, of the cores that it may use: it is asked, not imitated.
std::uint32_t cores_of(const MeasuredStep& with_own_choice) {
    return with_own_choice.samplers + 1;
}

std::vector<std::uint32_t> one_half_all(std::uint32_t most) {
    const std::set<std::uint32_t> counts = {1, std::max(1U, (most + 1) / 2), most};
    return {counts.begin(), counts.end()};
}

class Measuring {
  public:
    Measuring(const MeasuredSettings& settings, const SimPlace& place)
        : settings_(settings), place_(place), progress_("runs", 1) {}

    Measurement all() {
        find_cores();
        std::uint64_t counts = 0;
        for (const std::uint32_t tp : settings_.ranks) counts += counts_of(tp).size();
        progress_.begin("measuring with croupier sim",
                        settings_.mixes.size() * settings_.vocabs.size() * settings_.batches.size() * counts);
        for (const std::string& mix : settings_.mixes) {
            for (const std::uint32_t vocab : settings_.vocabs) {
                for (const std::uint32_t batch : settings_.batches) {
                    for (const std::uint32_t tp : settings_.ranks) one(mix, vocab, batch, tp);
                }
            }
        }
        return std::move(measurement_);
    }

  private:
    // A run so small that its times are nobody's.
    void find_cores() {
        Setting smallest;
        smallest.requests.mix = "fixed";
        smallest.vocab = 256;
        smallest.batch = 1;
        smallest.stage_ms = 0;
        measurement_.host = {processor_name(), cores_of(run_sim(smallest, 0, place_))};
    }

    void one(const std::string& mix, std::uint32_t vocab, std::uint32_t batch, std::uint32_t tp) {
        Setting setting = settings_.other;
        setting.requests.mix = mix;
        setting.vocab = vocab;
        setting.batch = batch;
        setting.tp = tp;
        for (const std::uint32_t samplers : counts_of(tp)) {
            setting.batch = batch;
            measurement_.steps.push_back(run_sim(setting, samplers, place_));
            progress_.advance(1);
            if (!settings_.starts || samplers >= batch) continue;
            setting.batch = samplers;
            measurement_.steps.push_back(run_sim(setting, samplers, place_));
        }
    }

    std::vector<std::uint32_t> counts_of(std::uint32_t tp) const {
        if (!settings_.samplers.empty()) return settings_.samplers;
        return one_half_all(measurement_.host.most_samplers(tp));
    }

    const MeasuredSettings& settings_;
    const SimPlace& place_;
    Progress progress_;
    Measurement measurement_;
};

}  // namespace

std::uint32_t Host::most_samplers(std::uint32_t tp) const {
    return cores > tp + 1 ? cores - tp - 1 : 1;
}

Measurement measure(const MeasuredSettings& settings, const SimPlace& place) {
    return Measuring(settings, place).all();
}

void save(const Measurement& measurement, const std::string& path) {
    const std::string beside = path + ".new";
    {
        std::ofstream file(beside);
        file << measurement_to_json(measurement).dump(1) << '\n';
        if (!file.flush()) throw std::runtime_error("cannot write " + beside);
    }
    if (std::rename(beside.c_str(), path.c_str()) != 0) {
        (void)std::remove(beside.c_str());
        throw std::runtime_error("cannot write " + path);
    }
}

Measurement load_measurement(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + " cannot be read");
    const auto json = nlohmann::json::parse(file, nullptr, false);
    try {
        return measurement_from_json(json);
    } catch (const std::exception& fault) {
        throw std::runtime_error(path + ": " + fault.what() +
                                 "; `croupier plan measure --save FILE` writes one");
    }
}

}  // namespace croupier::tools
