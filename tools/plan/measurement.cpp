#include "tools/plan/measurement.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "command_line/progress.h"
#include "testing/file_text.h"
#include "tools/plan/measurement_json.h"
#include "tools/whole_file.h"

namespace croupier::tools {
namespace {

namespace fs = std::filesystem;

// Enough for tens of thousands of settings.
constexpr std::uint64_t kMostBytes = 16U << 20U;

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
    }
    return "unknown";
}

// The daemon starts one sampler fewer than the cores that it may use. Derived from a run, so that its rule is
// not copied here.
std::uint32_t cores_of(const MeasuredStep& with_own_choice) {
    return with_own_choice.samplers + 1;
}

// Includes two, the number that most plans recommend.
std::vector<std::uint32_t> usual_counts(std::uint32_t most) {
    const std::set<std::uint32_t> counts = {1, std::min(2U, most), std::max(1U, (most + 1) / 2), most};
    return {counts.begin(), counts.end()};
}

class Measuring {
  public:
    Measuring(const MeasuredSettings& settings, const SimPlace& place)
        : settings_(settings), place_(place), progress_("runs", 1) {}

    Measurement all() {
        find_cores();
        for (std::size_t mix = 0; mix < settings_.mixes.size(); ++mix) {
            for (std::size_t vocab = 0; vocab < settings_.vocabs.size(); ++vocab) {
                for (std::size_t batch = 0; batch < settings_.batches.size(); ++batch) {
                    for (std::size_t tp = 0; tp < settings_.ranks.size(); ++tp) {
                        Setting setting = settings_.other;
                        setting.requests.mix = settings_.mixes[mix];
                        setting.vocab = settings_.vocabs[vocab];
                        setting.batch = settings_.batches[batch];
                        setting.tp = settings_.ranks[tp];
                        with_each_count(setting, mix + vocab + batch + tp);
                    }
                }
            }
        }
        run_all();
        return std::move(measurement_);
    }

  private:
    struct Asked {
        Setting setting;
        std::uint32_t samplers = 1;
        std::vector<MeasuredStep> runs;
    };

    // In rounds, with each setting once per round, so that load from other programs affects all settings
    // alike.
    void run_all() {
        progress_.begin("measuring with croupier sim", asked_.size() * kMeasuringRuns);
        for (std::uint32_t seed = 1; seed <= kMeasuringRuns; ++seed) {
            for (Asked& asked : asked_) {
                asked.runs.push_back(run_sim_once(asked.setting, asked.samplers, place_, seed));
                progress_.advance(1);
            }
        }
        for (const Asked& asked : asked_) measurement_.steps.push_back(combine_runs(asked.runs));
    }

    // A minimal run, whose times are not used.
    void find_cores() {
        Setting smallest;
        smallest.requests.mix = "fixed";
        smallest.vocab = 256;
        smallest.batch = 1;
        smallest.stage_ms = 0;
        measurement_.host = {processor_name(), cores_of(run_sim_once(smallest, 0, place_, 1))};
    }

    // Alternates the stages like a checkerboard, so that every vocabulary, batch and so on is measured with
    // every stage, without extra runs.
    void with_each_count(Setting setting, std::size_t turn) {
        const std::uint32_t batch = setting.batch;
        for (const std::uint32_t samplers : counts_of(setting.tp)) {
            setting.batch = batch;
            setting.stage_ms = settings_.stages_ms[turn++ % settings_.stages_ms.size()];
            asked_.push_back({setting, samplers, {}});
            if (!settings_.starts || samplers >= batch) continue;
            setting.batch = samplers;
            asked_.push_back({setting, samplers, {}});
        }
    }

    std::vector<std::uint32_t> counts_of(std::uint32_t tp) const {
        if (!settings_.samplers.empty()) return settings_.samplers;
        return usual_counts(measurement_.host.most_samplers(tp));
    }

    const MeasuredSettings& settings_;
    const SimPlace& place_;
    command_line::Progress progress_;
    std::vector<Asked> asked_;
    Measurement measurement_;
};

// Checked before opening, because opening a FIFO waits for its writer.
void check_readable(const std::string& path) {
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    if (!fs::exists(status)) throw std::runtime_error(failed.message());
    if (fs::is_directory(status)) throw std::runtime_error("it is a folder, not a file");
    if (!fs::is_regular_file(status)) throw std::runtime_error("it is not a regular file");
    const std::uint64_t bytes = fs::file_size(path);
    if (bytes <= kMostBytes) return;
    throw std::runtime_error(fmt::format("it has {} bytes; a measurement has at most {}", bytes, kMostBytes));
}

nlohmann::json json_in(const std::string& path) {
    check_readable(path);
    const auto text = testing::text_of(path);
    if (!text) throw std::runtime_error("it cannot be read");
    try {
        return nlohmann::json::parse(*text);
    } catch (const nlohmann::json::parse_error& fault) {
        if (fault.byte > text->size()) throw std::runtime_error("its JSON is truncated");
        throw std::runtime_error(fmt::format("it is not valid JSON at byte {}", fault.byte));
    } catch (const nlohmann::json::exception&) {
        throw std::runtime_error("it contains a number that is too large");
    }
}

}  // namespace

std::uint32_t Host::most_samplers(std::uint32_t tp) const {
    return cores > tp + 1 ? cores - tp - 1 : 1;
}

Measurement measure(const MeasuredSettings& settings, const SimPlace& place) {
    return Measuring(settings, place).all();
}

void save(const Measurement& measurement, const std::string& path) {
    WholeFile file(path);
    file.stream() << measurement_to_json(measurement).dump(1) << '\n';
    file.commit();
}

Measurement load_measurement(const std::string& path) {
    try {
        return measurement_from_json(json_in(path));
    } catch (const std::exception& fault) {
        throw std::runtime_error(path + ": " + fault.what() +
                                 "; create one with `croupier plan measure --save FILE`");
    }
}

}  // namespace croupier::tools
