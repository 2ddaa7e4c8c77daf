#include "tools/plan/sim_run.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "measurement/percentiles.h"
#include "testing/child_process.h"
#include "testing/file_text.h"
#include "tools/program_beside.h"

namespace croupier::tools {
namespace {

namespace fs = std::filesystem;

// Enough for the two microbatches of a fixed mix, from their first token to their last.
constexpr std::uint32_t kOutputMost = 32;
constexpr std::uint32_t kSteps = 2 * kOutputMost;
constexpr std::uint32_t kPromptMost = 2048;

class OutputFile {
  public:
    OutputFile() : path_((fs::temp_directory_path() / "croupier-plan-XXXXXX").string()) {
        const int descriptor = ::mkstemp(path_.data());
        if (descriptor < 0) throw std::runtime_error("cannot create a file like " + path_);
        ::close(descriptor);
    }
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile() {
        std::error_code ignored;
        fs::remove(path_, ignored);
    }
    const std::string& path() const { return path_; }
    std::string text() const { return testing::text_of(path_).value_or(""); }

  private:
    std::string path_;
};

std::string last_line_of(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

std::vector<std::string> arguments_of(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                                      std::uint32_t seed) {
    const Requests& requests = setting.requests;
    const std::string program = (fs::read_symlink("/proc/self/exe").parent_path() / "croupier-sim").string();
    std::vector<std::string> arguments = {program,       "--json",           "--verify", "never",
                                          "--mix",       requests.mix,       "--dtype",  requests.dtype,
                                          "--transport", requests.transport, "--wait",   requests.wait};
    const auto add = [&](const char* option, const auto& value) {
        arguments.emplace_back(option);
        arguments.push_back(fmt::format("{}", value));
    };
    add("--vocab", setting.vocab);
    add("--batch", setting.batch);
    add("--tp", setting.tp);
    add("--stage-ms", setting.stage_ms);
    add("--samplers", samplers);
    add("--steps", kSteps);
    add("--seed", seed);
    add("--output-max", kOutputMost);
    add("--prompt-max", kPromptMost);
    add("--timeout-s", place.timeout_s);
    if (requests.summaries) arguments.emplace_back("--summaries");
    if (!place.shm_dir.empty()) add("--shm-dir", place.shm_dir);
    return arguments;
}

}  // namespace

MeasuredStep measured_step_of(const std::string& last_line, const Setting& setting) {
    const auto json = nlohmann::json::parse(last_line, nullptr, false);
    if (!json.is_object() || !json.contains("daemon")) {
        throw std::runtime_error("the last line of croupier sim is not its report: " + last_line);
    }
    if (!json.value("ok", false)) {
        throw std::runtime_error("croupier sim failed: " + json.value("fault", last_line));
    }
    MeasuredStep measured;
    measured.setting = setting;
    const auto& daemon = json.at("daemon");
    measured.samplers = daemon.at("samplers");
    measured.steps = json.at("full_batches");
    measured.p50_us = json.at("full_batch_us").at("p50");
    measured.p99_us = json.at("full_batch_us").at("p99");
    measured.columns.mean_us = daemon.at("column_mean_us");
    measured.columns.buckets = daemon.at("column_buckets").get<decltype(measured.columns.buckets)>();
    measured.sampler_bytes = daemon.at("sampler_bytes");
    measured.supervisor_bytes = daemon.at("supervisor_bytes");
    if (measured.steps == 0) throw std::runtime_error("croupier sim had no step with a full batch");
    return measured;
}

MeasuredStep run_sim_once(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                          std::uint32_t seed) {
    const auto arguments = arguments_of(setting, samplers, place, seed);
    if (::access(arguments.front().c_str(), X_OK) != 0) {
        throw std::runtime_error("cannot run " + arguments.front() + ", which runs the measurements; " +
                                 kHowToGetPrograms);
    }
    const OutputFile output;
    // If this program dies, SIGTERM makes sim shut its daemon down.
    const int status = testing::ChildProcess::execute(arguments, output.path(), SIGTERM).wait();
    const std::string said = output.text();
    if (status != 0)
        throw std::runtime_error("croupier sim failed: " + (said.empty() ? "it printed nothing" : said));
    return measured_step_of(last_line_of(said), setting);
}

MeasuredStep run_sim(const Setting& setting, std::uint32_t samplers, const SimPlace& place,
                     std::uint32_t runs) {
    std::vector<MeasuredStep> all;
    all.reserve(runs);
    for (std::uint32_t run = 0; run < runs; ++run)
        all.push_back(run_sim_once(setting, samplers, place, run + 1));
    return combine_runs(all);
}

MeasuredStep combine_runs(std::span<const MeasuredStep> runs) {
    MeasuredStep all = runs.front();
    for (const MeasuredStep& run : runs.subspan(1)) {
        all.runs += run.runs;
        all.steps += run.steps;
        std::transform(run.columns.buckets.begin(), run.columns.buckets.end(), all.columns.buckets.begin(),
                       all.columns.buckets.begin(), std::plus<>());
        all.sampler_bytes = std::max(all.sampler_bytes, run.sampler_bytes);
        all.supervisor_bytes = std::max(all.supervisor_bytes, run.supervisor_bytes);
    }
    const auto middle = [runs](auto of) {
        std::vector<double> values;
        std::transform(runs.begin(), runs.end(), std::back_inserter(values), of);
        return measurement::middle_mean(std::move(values));
    };
    all.p50_us = middle([](const MeasuredStep& run) { return run.p50_us; });
    all.p99_us = middle([](const MeasuredStep& run) { return run.p99_us; });
    all.columns.mean_us = middle([](const MeasuredStep& run) { return run.columns.mean_us; });
    return all;
}

}  // namespace croupier::tools
