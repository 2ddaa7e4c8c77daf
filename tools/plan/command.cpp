#include "tools/plan/command.h"

#include <spdlog/fmt/fmt.h>
#include <sys/statvfs.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "command_line/choices.h"
#include "command_line/number_between.h"
#include "proto/geometry.h"
#include "proto/plane.h"
#include "sim/request_mixes.h"
#include "tools/plan/measurement_json.h"
#include "tools/plan/plan.h"
#include "tools/whole_file.h"

namespace croupier::tools {
namespace {

constexpr const char* kPlanHelp =
    R"(Plans the number of samplers for an engine on this host. Predicts the time of a step, whether it is hidden
behind a pipeline stage, and the memory. Short runs of `croupier sim` measure steps with one sampler, two,
half and all of those that fit; a model fitted to these runs predicts the rest. --check runs sim with the
recommended number of samplers and prints the error of the prediction.

Examples:
  croupier plan
      plan for 64 columns of 151,936 logits and a stage of 20 ms
  croupier plan --vocab 128256 --batch 256 --tp 4 --stage-ms 12 --check
  croupier plan --batch 256 --json
      print JSON; its key `kubernetes` has the resources of a pod
  croupier plan --batch 256 --kubernetes
      print the resources of a pod as YAML
  croupier plan measure --batch 16,64,256 --save host.json
  croupier plan --from host.json --batch 128
      plan for the host on which host.json was measured

docs/operations.md explains the output.)";

constexpr const char* kMeasureHelp =
    R"(Runs `croupier sim` three times for every combination, for one to four seconds each. Plans interpolate between
measured settings: for each option, give the smallest and the largest value that you will plan for.

Examples:
  croupier plan measure --vocab 32000,151936 --batch 16,64,256 --tp 1,4 \
      --stage-ms 5,20 --mix fixed,mixed --save host.json)";

// Longer stages would only make the measurement slower: samplers sleep through most of them.
constexpr double kLongestMeasuredStageMs = 20.0;

struct PlanOptions {
    PlanQuestion question;
    SimPlace place;
    std::string from;
    std::string save;
    bool check = false;
    bool json = false;
    bool kubernetes = false;
};

struct MeasureOptions {
    MeasuredSettings settings{{"mixed"}, {151936}, {64}, {1}, {5.0, kLongestMeasuredStageMs}, {}, {}, false};
    SimPlace place;
    std::string save;
};

int run(const std::function<void()>& work, bool json) {
    try {
        work();
        return 0;
    } catch (const std::exception& error) {
        if (json) {
            const nlohmann::json answer = {{"error", error.what()}};
            std::cout << answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
        } else {
            std::cerr << "plan: " << error.what() << "\n";
        }
        return 1;
    }
}

std::vector<std::string> mixes() {
    return {sim::kRequestMixes.begin(), sim::kRequestMixes.end()};
}

void add_requests(CLI::App& command, Requests& requests, SimPlace& place) {
    command.add_option("--dtype", requests.dtype, "Data type of the logits")
        ->capture_default_str()
        ->check(command_line::one_of({"bf16", "fp16", "fp32"}));
    command.add_option("--transport", requests.transport, "What writers send: whole rows, or lean steps")
        ->capture_default_str()
        ->check(command_line::one_of({"rows", "lean"}));
    command.add_flag("--summaries", requests.summaries, "Writers also store the largest logit of each tile");
    command.add_option("--wait", requests.wait, "How samplers wait")
        ->capture_default_str()
        ->check(command_line::one_of({"spin", "adaptive", "sleep"}));
    command.add_option("--shm-dir", place.shm_dir,
                       "Directory for the segments of the runs (default: that of sim)");
}

void add_room(CLI::App& command, PlanQuestion& question) {
    SessionRoom& room = question.room;
    command.add_option("--sessions", room.sessions, "Number of engines that share the daemon")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxSessions));
    command.add_option("--steps-in-flight", room.steps_in_flight, "Slots in each session's rings")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxSlots));
    command.add_option("--max-sequences", room.max_sequences, "Most sequences in a session at a time")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxSequences));
    command
        .add_option("--max-length", room.max_length, "Longest sequence in tokens, prompt and output together")
        ->capture_default_str()
        ->check(CLI::Range(2U, proto::kMaxLength));
    auto* rows = command.add_option("--rows", question.hot_set.rows,
                                    "Files with bf16 rows of the model, to check whether a hot set helps");
    auto* hot = command.add_option("--hot", question.hot_set.hot,
                                   "The model's hotness order (`croupier hotset build`)");
    rows->needs(hot);
    hot->needs(rows);
}

void add_engine(CLI::App& command, PlanQuestion& question) {
    Setting& setting = question.setting;
    command.add_option("--vocab", setting.vocab, "Tokens in the vocabulary")
        ->capture_default_str()
        ->check(CLI::Range(256U, proto::kMaxVocab));
    command.add_option("--batch", setting.batch, "Columns per step")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxBatch));
    command.add_option("--tp", setting.tp, "Tensor-parallel ranks")
        ->capture_default_str()
        ->check(CLI::Range(1U, proto::kMaxTp));
    command.add_option("--stage-ms", setting.stage_ms, "Duration of a pipeline stage (T_cycle), in ms")
        ->capture_default_str()
        ->check(command_line::number_between(0.001, 10000.0));
    command
        .add_option("--mix", setting.requests.mix,
                    "Sampling parameters of the requests (see `croupier sim --mix`)")
        ->capture_default_str()
        ->check(command_line::one_of(mixes()));
    command
        .add_option("--samplers", question.samplers,
                    "Number of samplers; 0 chooses the smallest sufficient number")
        ->capture_default_str()
        ->check(CLI::Range(0U, proto::kMaxSamplers));
    command.add_option("--of-stage", question.share_of_stage, "Share of a stage that the decisions may take")
        ->capture_default_str()
        ->check(command_line::number_between(0.01, 1.0));
}

MeasuredSettings settings_of(const PlanQuestion& question) {
    const Setting& setting = question.setting;
    MeasuredSettings settings{{setting.requests.mix},
                              {setting.vocab},
                              {setting.batch},
                              {setting.tp},
                              {std::min(setting.stage_ms, kLongestMeasuredStageMs)},
                              {},
                              setting,
                              true};
    if (question.samplers > 0) settings.samplers = {question.samplers};
    if (question.samplers > 1) settings.samplers.insert(settings.samplers.begin(), 1);
    return settings;
}

// Adds a note if this host's shared memory is too small for the plan.
void note_room(Plan& plan, const std::string& directory) {
    struct statvfs room {};
    if (::statvfs(directory.c_str(), &room) != 0) return;
    const std::uint64_t free = std::uint64_t{room.f_bavail} * room.f_frsize;
    if (free >= plan.memory.shm_bytes) return;
    plan.notes.push_back(fmt::format(
        "{} has only {} MiB free on this host: enlarge it (docker: --shm-size; tmpfs: -o remount,size=)",
        directory, free >> 20U));
}

void check_samplers(const PlanQuestion& question) {
    if (question.samplers <= question.setting.batch) return;
    throw std::runtime_error(fmt::format(
        "--samplers is {}, but a batch of {} keeps only that many busy: use --samplers {} or --batch {}",
        question.samplers, question.setting.batch, question.setting.batch, question.samplers));
}

void check_summaries(const Requests& requests) {
    if (!requests.summaries || requests.transport == "rows") return;
    throw std::runtime_error("--summaries needs --transport rows: lean steps have no use for them");
}

// Checked before measuring, which takes minutes. A FIFO is skipped: opening it here would end its reader.
void check_can_save(const std::string& path) {
    if (path.empty() || std::filesystem::is_fifo(path)) return;
    const WholeFile tried(path);
}

void plan(const PlanOptions& options) {
    check_summaries(options.question.setting.requests);
    check_can_save(options.save);
    if (options.from.empty()) check_samplers(options.question);
    const Measurement measurement = options.from.empty()
                                        ? measure(settings_of(options.question), options.place)
                                        : load_measurement(options.from);
    if (!options.save.empty()) save(measurement, options.save);
    PlanQuestion question = options.question;
    question.hot_set.vocab = question.setting.vocab;
    Plan plan = make_plan(question, measurement);
    if (options.from.empty())
        note_room(plan, options.place.shm_dir.empty() ? "/dev/shm" : options.place.shm_dir);
    if (options.check)
        plan.check = run_sim(question.setting, plan.chosen.samplers, options.place, kCheckingRuns);
    std::cout << (options.json         ? plan_json(plan) + "\n"
                  : options.kubernetes ? plan_kubernetes(plan)
                                       : plan_text(plan));
}

void add_measure(CLI::App& plan, int& status) {
    auto options = std::make_shared<MeasureOptions>();
    auto* command =
        plan.add_subcommand("measure", "Measure the cost of steps on this host and save it to a file");
    command->footer(kMeasureHelp);
    MeasuredSettings& settings = options->settings;
    const auto list = [command](const char* name, auto& values, const char* what) {
        return command->add_option(name, values, what)
            ->delimiter(',')
            ->expected(1, 64)
            ->capture_default_str();
    };
    list("--vocab", settings.vocabs, "Vocabulary sizes")->check(CLI::Range(256U, proto::kMaxVocab));
    list("--batch", settings.batches, "Columns per step")->check(CLI::Range(1U, proto::kMaxBatch));
    list("--tp", settings.ranks, "Tensor-parallel ranks")->check(CLI::Range(1U, proto::kMaxTp));
    list("--mix", settings.mixes, "Request mixes (see `croupier sim --mix`)")
        ->check(command_line::one_of(mixes()));
    list("--samplers", settings.samplers,
         "Numbers of samplers (default: one, two, half and all of those that fit)")
        ->check(CLI::Range(1U, proto::kMaxSamplers));
    list("--stage-ms", settings.stages_ms,
         "Stage durations in ms; runs alternate between them, so more values need no more runs")
        ->check(command_line::number_between(0.0, 10000.0));
    add_requests(*command, settings.other.requests, options->place);
    command->add_option("--save", options->save, "Output file, replaced atomically")->required();
    command->callback([options, &status] {
        status = run(
            [&] {
                check_summaries(options->settings.other.requests);
                check_can_save(options->save);
                save(measure(options->settings, options->place), options->save);
            },
            false);
    });
}

}  // namespace

void add_plan_command(CLI::App& app, int& status) {
    auto options = std::make_shared<PlanOptions>();
    auto* command =
        app.add_subcommand("plan", "Plan the number of samplers, and predict step time and memory");
    command->footer(kPlanHelp);
    add_engine(*command, options->question);
    add_requests(*command, options->question.setting.requests, options->place);
    add_room(*command, options->question);
    command->add_option("--from", options->from,
                        "Use a saved measurement (`plan measure` or --save) instead of measuring");
    command->add_option("--save", options->save, "Save the measurement to this file")->excludes("--from");
    command->add_flag("--check", options->check,
                      "Verify the plan with croupier sim and print the prediction error");
    auto* json = command->add_flag("--json", options->json, "Print one JSON object");
    command
        ->add_flag("--kubernetes", options->kubernetes, "Print a pod's resources and memory volume as YAML")
        ->excludes(json);
    add_measure(*command, status);
    command->callback([command, options, &status] {
        if (command->get_subcommands().empty()) status = run([&] { plan(*options); }, options->json);
    });
}

}  // namespace croupier::tools
