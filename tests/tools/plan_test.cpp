// `croupier plan`: predictions for steps whose times are known, and its messages.
#include "tools/plan/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "proto/lean_part.h"
#include "proto/plane.h"
#include "proto/segment_layout.h"
#include "tests/tools/imagined_host.h"
#include "tools/plan/step_spans.h"

namespace croupier::tools {
namespace {

using Json = nlohmann::json;

std::string refusal_of(const Measurement& measurement, const PlanQuestion& question) {
    try {
        (void)make_plan(question, measurement);
    } catch (const std::exception& fault) {
        return fault.what();
    }
    return "";
}

}  // namespace

TEST_CASE("plan: a simulated step takes as long as its columns in total") {
    const ColumnTimes columns = columns_of_a_host();
    const double alone = median_of(step_spans(columns, 64, 1));
    CHECK(alone == Approx(64 * columns.usual_us()).epsilon(0.1));
    const double four = median_of(step_spans(columns, 64, 4));
    CHECK(four > alone / 4);
    CHECK(four < 1.2 * alone / 4);
    CHECK(step_spans(columns, 64, 4) == step_spans(columns, 64, 4));
    // A single column cannot be shared.
    CHECK(median_of(step_spans(columns, 4, 4)) == Approx(median_of(step_spans(columns, 4, 8))));
}

TEST_CASE("plan: an idle sampler takes over columns queued behind an expensive one") {
    ColumnTimes columns;
    columns.buckets[6] = 63;  // 8 to 16 us
    columns.buckets[16] = 1;  // 8 to 16 ms
    columns.mean_us = (63 * 12.0 + 12288.0) / 64;
    const auto spans = step_spans(columns, 64, 2);
    // If the slow sampler kept its columns, the step would take longer than the expensive column by a whole
    // share.
    CHECK(spans.back() < 4.5 * 16384.0);
    CHECK(median_of(spans) < 1.1 * 16384.0);
}

TEST_CASE("plan: predictions match measured settings, and settings between them") {
    const Measurement measurement = imagined();
    for (const MeasuredStep& step : measurement.steps) {
        const StepModel model(measurement.steps, step.setting);
        CHECK(model.predict(step.samplers).p50_us == Approx(step.p50_us).epsilon(0.01));
        CHECK(model.predict(step.samplers).p99_us == Approx(step.p99_us).epsilon(0.01));
        CHECK(model.notes().empty());
    }
    for (const std::uint32_t vocab : {64000U, 128256U}) {
        for (const std::uint32_t batch : {32U, 64U, 200U}) {
            for (const std::uint32_t samplers : {1U, 2U, 6U, 8U, 12U}) {
                const StepModel model(measurement.steps, setting_of(vocab, batch));
                const MeasuredStep truth = step_of(vocab, batch, samplers);
                INFO(vocab << ' ' << batch << ' ' << samplers);
                CHECK(model.predict(samplers).p50_us == Approx(truth.p50_us).epsilon(0.01));
                CHECK(model.predict(samplers).p99_us == Approx(2.0 * truth.p50_us).epsilon(0.01));
            }
        }
    }
}

TEST_CASE("plan: one disturbed run changes predictions little") {
    Measurement measurement = imagined();
    measurement.steps[4].p50_us *= 3.0;
    for (const std::uint32_t samplers : {1U, 2U, 8U, 14U}) {
        const StepModel model(measurement.steps, setting_of(64000, 64));
        INFO(samplers);
        CHECK(model.predict(samplers).p50_us == Approx(step_of(64000, 64, samplers).p50_us).epsilon(0.15));
    }
}

TEST_CASE("plan: ranks that write early save reading time, within the measured range") {
    Measurement measurement = imagined();
    const std::size_t alone = measurement.steps.size();
    for (std::size_t i = 0; i < alone; ++i) {
        MeasuredStep step = measurement.steps[i];
        const double share =
            (step.p50_us - kStartUs) / column_us(step.setting.vocab, step.setting.batch, step.samplers);
        step.setting.tp = 4;
        step.p50_us -= share * 1e-4 * step.setting.vocab * 0.75;
        measurement.steps.push_back(step);
    }
    Setting setting = setting_of(151936, 256);
    const double one_rank = StepModel(measurement.steps, setting).predict(4).p50_us;
    CHECK(one_rank == Approx(step_of(151936, 256, 4).p50_us).epsilon(0.01));
    setting.tp = 2;
    const double two_ranks = StepModel(measurement.steps, setting).predict(4).p50_us;
    setting.tp = 4;
    const double four_ranks = StepModel(measurement.steps, setting).predict(4).p50_us;
    CHECK(one_rank - two_ranks == Approx(2.0 * (two_ranks - four_ranks)).epsilon(0.01));
    setting.tp = 8;
    const StepModel beyond(measurement.steps, setting);
    CHECK(beyond.predict(4).p50_us == four_ranks);
    CHECK(beyond.notes().size() == 1);
}

TEST_CASE("plan: a step takes longer after a longer stage, within the measured range") {
    const auto longer_us = [](const MeasuredStep& step, double stage_ms) {
        const double share =
            (step.p50_us - kStartUs) / column_us(step.setting.vocab, step.setting.batch, step.samplers);
        return std::log2(stage_ms / 5.0) * (6.0 + share * (0.4 + 2e-5 * step.setting.vocab));
    };
    Measurement measurement = imagined();
    bool rests = false;
    for (MeasuredStep& step : measurement.steps) {
        step.setting.stage_ms = std::exchange(rests, !rests) ? 20.0 : 5.0;
        step.p50_us += longer_us(step, step.setting.stage_ms);
    }
    for (const std::uint32_t vocab : {32000U, 151936U}) {
        const MeasuredStep step = step_of(vocab, 64, 4);
        const auto model_of = [&](double stage_ms) {
            Setting setting = step.setting;
            setting.stage_ms = stage_ms;
            return StepModel(measurement.steps, setting);
        };
        for (const double stage_ms : {5.0, 8.0, 20.0}) {
            const double us = step.p50_us + longer_us(step, stage_ms);
            INFO(vocab << " logits, " << stage_ms << " ms");
            CHECK(model_of(stage_ms).predict(4).p50_us == Approx(us).epsilon(0.02));
            CHECK(model_of(stage_ms).notes().empty());
        }
        for (const auto& [beyond, nearest] : {std::pair(0.001, 5.0), std::pair(90.0, 20.0)}) {
            CHECK(model_of(beyond).predict(4).p50_us == model_of(nearest).predict(4).p50_us);
            REQUIRE(model_of(beyond).notes().size() == 1);
            CHECK(model_of(beyond).notes()[0].find(nearest == 5.0 ? "that of 5," : "that of 20,") !=
                  std::string::npos);
        }
    }
}

TEST_CASE("plan: measurements with one stage predict the same time for every stage") {
    Measurement measurement = imagined();
    const double before = StepModel(measurement.steps, setting_of(64000, 64)).predict(4).p50_us;
    for (const double measured_ms : {0.0, 5.0}) {
        for (MeasuredStep& step : measurement.steps) step.setting.stage_ms = measured_ms;
        for (const double stage_ms : {0.001, 5.0, 20.0}) {
            Setting setting = setting_of(64000, 64);
            setting.stage_ms = stage_ms;
            const StepModel model(measurement.steps, setting);
            CHECK(model.predict(4).p50_us == before);
            CHECK(model.notes().size() == (stage_ms == measured_ms ? 0 : 1));
        }
    }
}

TEST_CASE("plan: chooses the smallest sufficient number of samplers, and at least two") {
    const Measurement measurement = imagined();
    PlanQuestion question;
    question.setting = setting_of(151936, 256);
    std::uint32_t before = 14;
    for (const double stage_ms : {2.5, 5.0, 10.0, 40.0, 1000.0}) {
        question.setting.stage_ms = stage_ms;
        const Plan plan = make_plan(question, measurement);
        INFO(stage_ms);
        CHECK(plan.chosen.samplers <= before);
        before = plan.chosen.samplers;
        CHECK(plan.enough == (plan.chosen.p50_us <= plan.stage_us() / 2));
        if (!plan.enough) CHECK(plan.chosen.samplers == plan.most_samplers);
        if (!plan.enough || plan.chosen.samplers == 2) continue;
        question.samplers = plan.chosen.samplers - 1;
        CHECK_FALSE(make_plan(question, measurement).enough);
        question.samplers = 0;
    }
    CHECK(before == 2);
}

TEST_CASE("plan: never chooses more samplers than columns, cores or measurements allow") {
    Measurement measurement = imagined();
    PlanQuestion question;
    question.setting = setting_of(151936, 256);
    question.setting.stage_ms = 0.001;
    CHECK(make_plan(question, measurement).chosen.samplers == 14);
    question.setting.tp = 4;
    CHECK(make_plan(question, measurement).chosen.samplers == 11);
    // One note for the ranks and one for the stage.
    CHECK(make_plan(question, measurement).notes.size() == 2);
    question.setting.batch = 1;
    CHECK(make_plan(question, measurement).chosen.samplers == 1);
    question.samplers = 3;
    CHECK(refusal_of(measurement, question).find("a batch of 1 keeps only that many busy") !=
          std::string::npos);
    measurement.host.cores = 1;
    question = {};
    question.setting = setting_of(151936, 256);
    CHECK(make_plan(question, measurement).chosen.samplers == 1);
}

TEST_CASE("plan: refuses unmeasured settings and says how to measure them") {
    const Measurement measurement = imagined();
    PlanQuestion question;
    question.setting = setting_of(262144, 64);
    CHECK(refusal_of(measurement, question).find(",262144 --save FILE`") != std::string::npos);
    question.setting = setting_of(151936, 64);
    question.setting.requests.transport = "lean";
    const std::string refusal = refusal_of(measurement, question);
    CHECK(refusal.find("there is no measurement for: mix mixed, bf16 lean") != std::string::npos);
    CHECK(refusal.find("mix mixed, bf16 rows") != std::string::npos);
    CHECK(refusal.find("`croupier plan measure --mix mixed --transport lean --save FILE`") !=
          std::string::npos);
    question.setting.requests.transport = "rows";
    question.setting.batch = 1024;
    const Plan plan = make_plan(question, measurement);
    REQUIRE(plan.notes.size() == 1);
    CHECK(plan.notes[0].find("that of 256") != std::string::npos);
}

namespace {

constexpr const char* kResults = CROUPIER_SOURCE_DIR "/bench/results/";

struct Errors {
    double worst = 0.0;
    double sum = 0.0;
    int count = 0;

    void add(double predicted, double measured) {
        const double error = std::abs(predicted / measured - 1.0);
        worst = std::max(worst, error);
        sum += error;
        ++count;
    }
    double mean() const { return sum / count; }
};

}  // namespace

TEST_CASE("plan: a measurement with 16 cores predicts settings that it does not contain") {
    const Measurement host = load_measurement(std::string(kResults) + "plan-20261123-16-cores.json");
    std::ifstream file(std::string(kResults) + "plan-grid-20261123-16-cores.json");
    const Json grid = Json::parse(file);
    Errors errors;
    for (const Json& each : grid.at("settings")) {
        Setting setting = setting_of(each.at("vocab"), each.at("batch"));
        setting.requests.mix = each.at("mix");
        setting.tp = each.at("tp");
        const Prediction prediction = StepModel(host.steps, setting).predict(each.at("samplers"));
        INFO(each.dump() << ": " << prediction.p50_us);
        const double measured = each.at("measured_us");
        CHECK(prediction.p50_us == Approx(measured).epsilon(0.22));
        errors.add(prediction.p50_us, measured);
    }
    CHECK(errors.count == 12);
    CHECK(errors.mean() < 0.09);
}

// All runs of the second measurement have the same stage, so the stage terms of the model stay zero.
TEST_CASE("plan: measurements with one stage give the recorded predictions") {
    const Measurement host = load_measurement(std::string(kResults) + "plan-20261123-16-cores-2.json");
    std::ifstream file(std::string(kResults) + "plan-grid-20261123-16-cores-2.json");
    const Json grid = Json::parse(file);
    CHECK(grid.at("settings").size() == 12);
    for (const Json& each : grid.at("settings")) {
        Setting setting = setting_of(each.at("vocab"), each.at("batch"));
        setting.requests.mix = each.at("mix");
        setting.tp = each.at("tp");
        setting.stage_ms = each.at("stage_ms");
        const StepModel model(host.steps, setting);
        INFO(each.dump());
        CHECK(model.predict(each.at("samplers")).p50_us == Approx(each.at("predicted_us").get<double>()));
        CHECK(model.notes().size() == (setting.stage_ms == 5.0 ? 0 : 1));
    }
}

TEST_CASE("plan: predictions for small vocabularies on 16 cores are unbiased") {
    const Measurement host = load_measurement(std::string(kResults) + "plan-20261123-16-cores.json");
    double sum = 0.0;
    int count = 0;
    for (const MeasuredStep& step : host.steps) {
        if (step.setting.vocab != 32000) continue;
        sum += StepModel(host.steps, step.setting).predict(step.samplers).p50_us / step.p50_us - 1.0;
        ++count;
    }
    CHECK(count == 24);
    CHECK(std::abs(sum / count) < 0.03);
}

TEST_CASE("plan: each run of a measurement with 16 cores is predicted from the others") {
    for (const auto& [name, settings] : {std::pair("plan-20261123-16-cores.json", std::size_t{48}),
                                         std::pair("plan-20261123-16-cores-2.json", std::size_t{72})}) {
        const Measurement host = load_measurement(std::string(kResults) + name);
        REQUIRE(host.steps.size() == settings);
        Errors errors;
        for (const MeasuredStep& left_out : host.steps) {
            std::vector<MeasuredStep> others;
            for (const MeasuredStep& each : host.steps) {
                if (&each != &left_out && each.setting.requests == left_out.setting.requests)
                    others.push_back(each);
            }
            errors.add(StepModel(others, left_out.setting).predict(left_out.samplers).p50_us,
                       left_out.p50_us);
        }
        CAPTURE(name, errors.worst, errors.mean());
        CHECK(errors.worst < 0.36);
        CHECK(errors.mean() < 0.12);
    }
}

TEST_CASE("plan: memory follows the segment's layout, and Kubernetes values are rounded up") {
    PlanQuestion question;
    question.setting = setting_of(151936, 64);
    question.room.sessions = 3;
    const Plan plan = make_plan(question, imagined());
    proto::Geometry geometry;
    geometry.vocab = 151936;
    geometry.max_batch = 64;
    geometry.slots = 2;
    geometry.max_sequences = 256;
    geometry.max_length = 8192;
    geometry.mask_rows = 64;
    geometry.has_order = 1;
    proto::fill_even_shards(geometry);
    CHECK(plan.memory.segment_bytes == proto::layout_of(geometry).total_bytes);
    CHECK(plan.memory.shm_bytes > 4 * plan.memory.segment_bytes);
    CHECK(plan.memory.shm_bytes < 4 * plan.memory.segment_bytes + (4U << 20U));
    // The records of recent columns grow with the number of samplers.
    question.samplers = 14;
    const Plan wide = make_plan(question, imagined());
    REQUIRE(plan.chosen.samplers < 14);
    CHECK(wide.memory.shm_bytes - plan.memory.shm_bytes ==
          proto::plane_bytes(14, 1) - proto::plane_bytes(plan.chosen.samplers, 1));
    CHECK(kubernetes_shm_mib(plan) << 20U >= plan.memory.shm_bytes);
    CHECK(kubernetes_memory_mib(plan) << 20U >= plan.memory.shm_bytes + plan.memory.process_bytes);
    CHECK(kubernetes_cpus(plan) == plan.chosen.samplers + 1);
    const std::string yaml = plan_kubernetes(plan);
    CHECK(yaml.find("sizeLimit: " + std::to_string(kubernetes_shm_mib(plan)) + "Mi") != std::string::npos);
    const Json json = Json::parse(plan_json(plan));
    CHECK(json.at("kubernetes").at("cpu") == std::to_string(kubernetes_cpus(plan)));
    CHECK(json.at("shm").at("bytes") == plan.memory.shm_bytes);
}

}  // namespace croupier::tools
