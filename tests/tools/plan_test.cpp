// `croupier plan`: the model beside steps whose times are known, its file, what it says, and the command
// itself beside a real daemon.
#include "tools/plan/plan.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/plane.h"
#include "proto/segment_layout.h"
#include "testing/workplace.h"
#include "tools/plan/measurement_json.h"
#include "tools/plan/step_spans.h"

namespace croupier::tools {
namespace {

using Json = nlohmann::json;

constexpr double kStartUs = 60.0;

// Most cost nearly the same, a few twice that.
ColumnTimes columns_of_a_host() {
    ColumnTimes columns;
    columns.buckets[7] = 90;
    columns.buckets[8] = 10;
    columns.mean_us = columns.usual_us();
    return columns;
}

// An imagined host: a row's cost grows with its vocabulary, with the samplers that read beside it, and with
// what a step writes between two readings.
double column_us(std::uint32_t vocab, std::uint32_t batch, std::uint32_t samplers) {
    const double row_us = 3e-4 * vocab * (1.0 + 1e-8 * vocab * batch);
    return (4.0 + row_us) * (1.0 + 0.1 * std::log2(samplers));
}

MeasuredStep step_of(std::uint32_t vocab, std::uint32_t batch, std::uint32_t samplers) {
    MeasuredStep step;
    step.setting.vocab = vocab;
    step.setting.batch = batch;
    step.samplers = samplers;
    step.steps = 100;
    step.columns = columns_of_a_host();
    const double share = median_of(step_spans(step.columns, batch, samplers)) / step.columns.usual_us();
    step.p50_us = kStartUs + share * column_us(vocab, batch, samplers);
    step.p99_us = 2.0 * step.p50_us;
    step.sampler_bytes = 30U << 20U;
    step.supervisor_bytes = 4U << 20U;
    return step;
}

Measurement imagined() {
    Measurement measurement;
    measurement.host = {"an imagined one", 16};
    for (const std::uint32_t vocab : {32000U, 151936U}) {
        for (const std::uint32_t batch : {16U, 256U}) {
            for (const std::uint32_t samplers : {1U, 4U, 14U})
                measurement.steps.push_back(step_of(vocab, batch, samplers));
        }
    }
    return measurement;
}

Setting setting_of(std::uint32_t vocab, std::uint32_t batch) {
    Setting setting;
    setting.vocab = vocab;
    setting.batch = batch;
    return setting;
}

std::string refusal_of(const Json& json) {
    try {
        (void)measurement_from_json(json);
    } catch (const std::exception& fault) {
        return fault.what();
    }
    return "";
}

std::string refusal_of(const Measurement& measurement, const PlanQuestion& question) {
    try {
        (void)make_plan(question, measurement);
    } catch (const std::exception& fault) {
        return fault.what();
    }
    return "";
}

}  // namespace

TEST_CASE("plan: a step is played to what its columns add up to") {
    const ColumnTimes columns = columns_of_a_host();
    const double alone = median_of(step_spans(columns, 64, 1));
    CHECK(alone == Approx(64 * columns.usual_us()).epsilon(0.1));
    const double four = median_of(step_spans(columns, 64, 4));
    CHECK(four > alone / 4);
    CHECK(four < 1.2 * alone / 4);
    CHECK(step_spans(columns, 64, 4) == step_spans(columns, 64, 4));
    // A column cannot be shared.
    CHECK(median_of(step_spans(columns, 4, 4)) == Approx(median_of(step_spans(columns, 4, 8))));
}

TEST_CASE("plan: who is ready takes the columns behind a dear one") {
    ColumnTimes columns;
    columns.buckets[6] = 63;  // 8 to 16 us
    columns.buckets[16] = 1;  // 8 to 16 ms
    columns.mean_us = (63 * 12.0 + 12288.0) / 64;
    const auto spans = step_spans(columns, 64, 2);
    // With its own share behind it a step with a dear column would take a share longer than that column.
    CHECK(spans.back() < 4.5 * 16384.0);
    CHECK(median_of(spans) < 1.1 * 16384.0);
}

TEST_CASE("plan: what was measured is predicted, and what lies between") {
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

TEST_CASE("plan: one disturbed run moves no plan far") {
    Measurement measurement = imagined();
    measurement.steps[4].p50_us *= 3.0;
    for (const std::uint32_t samplers : {1U, 2U, 8U, 14U}) {
        const StepModel model(measurement.steps, setting_of(64000, 64));
        INFO(samplers);
        CHECK(model.predict(samplers).p50_us == Approx(step_of(64000, 64, samplers).p50_us).epsilon(0.15));
    }
}

TEST_CASE("plan: ranks that land early save reading, as far as it was measured") {
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

TEST_CASE("plan: the fewest samplers that keep a step within the share of a stage, and two at least") {
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

TEST_CASE("plan: no more samplers than columns, cores or measurements") {
    Measurement measurement = imagined();
    PlanQuestion question;
    question.setting = setting_of(151936, 256);
    question.setting.stage_ms = 0.001;
    CHECK(make_plan(question, measurement).chosen.samplers == 14);
    question.setting.tp = 4;
    CHECK(make_plan(question, measurement).chosen.samplers == 11);
    CHECK(make_plan(question, measurement).notes.size() == 1);
    question.setting.batch = 1;
    CHECK(make_plan(question, measurement).chosen.samplers == 1);
    question.samplers = 3;
    CHECK(refusal_of(measurement, question).find("more than the batch of 1 have nothing to do") !=
          std::string::npos);
    measurement.host.cores = 1;
    question = {};
    question.setting = setting_of(151936, 256);
    CHECK(make_plan(question, measurement).chosen.samplers == 1);
}

TEST_CASE("plan: what nobody measured is refused, with what would measure it") {
    const Measurement measurement = imagined();
    PlanQuestion question;
    question.setting = setting_of(262144, 64);
    CHECK(refusal_of(measurement, question).find("croupier plan measure --vocab 262144") !=
          std::string::npos);
    question.setting = setting_of(151936, 64);
    question.setting.requests.transport = "lean";
    const std::string refusal = refusal_of(measurement, question);
    CHECK(refusal.find("nothing is measured of: mix mixed, bf16 lean") != std::string::npos);
    CHECK(refusal.find("mix mixed, bf16 rows") != std::string::npos);
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

TEST_CASE("plan: what a host of 16 cores measured predicts the settings that it did not measure") {
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

TEST_CASE("plan: small vocabularies of a host of 16 cores are predicted neither too high nor too low") {
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

TEST_CASE("plan: what a host of 16 cores measured predicts each of its runs from the others") {
    const Measurement host = load_measurement(std::string(kResults) + "plan-20261123-16-cores.json");
    REQUIRE(host.steps.size() == 48);
    Errors errors;
    for (const MeasuredStep& left_out : host.steps) {
        std::vector<MeasuredStep> others;
        for (const MeasuredStep& each : host.steps) {
            if (&each != &left_out && each.setting.requests == left_out.setting.requests)
                others.push_back(each);
        }
        errors.add(StepModel(others, left_out.setting).predict(left_out.samplers).p50_us, left_out.p50_us);
    }
    CAPTURE(errors.worst, errors.mean());
    CHECK(errors.worst < 0.36);
    CHECK(errors.mean() < 0.12);
}

TEST_CASE("plan: memory is the segment's own layout, and Kubernetes is told whole units") {
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
    // What samplers keep of their last columns grows with them.
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

TEST_CASE("plan: a measurement's file comes back as it was, and a bad one is refused by name") {
    const Json good = Json::parse(measurement_to_json(imagined()).dump());
    CHECK(Json::parse(measurement_to_json(measurement_from_json(good)).dump()) == good);

    CHECK(refusal_of(Json(3)).find("no measurement") != std::string::npos);
    const auto broken = [&](const std::string& pointer, const Json& value) {
        Json json = good;
        json[Json::json_pointer(pointer)] = value;
        return refusal_of(json);
    };
    CHECK(broken("/version", 2).find("its version is 2, this croupier reads 1") != std::string::npos);
    CHECK(broken("/steps", Json::array()).find("`steps`") != std::string::npos);
    CHECK(broken("/steps/3/vocab", 0).find("`steps`[3]: `vocab` is 0; allowed") != std::string::npos);
    CHECK(broken("/steps/3/samplers", -1).find("`samplers` is -1") != std::string::npos);
    CHECK(broken("/steps/3/p50_us", "fast").find("`p50_us` is \"fast\"") != std::string::npos);
    CHECK(broken("/steps/3/p50_us", std::nan("")).find("`p50_us`") != std::string::npos);
    CHECK(broken("/steps/3/mix", "--help").find("`mix` is no name") != std::string::npos);
    CHECK(broken("/steps/3/mix", "a\x1b[2Jb").find("`mix` is no name") != std::string::npos);
    CHECK(broken("/steps/3/column_buckets", Json::array({1})).find("`column_buckets`") != std::string::npos);
    CHECK(broken("/steps/3/column_buckets/0", -4).find("`column_buckets`[0]") != std::string::npos);
    CHECK(broken("/steps/3/batch", 2.5).find("`batch` is 2.5; allowed: a whole number") != std::string::npos);
    CHECK(broken("/steps/3/steps", 0).find("`steps` is 0; allowed") != std::string::npos);
    CHECK(broken("/steps/3/p50_us", 0).find("`p50_us` is 0; allowed") != std::string::npos);
    CHECK(broken("/steps/3/p50_us", -4.5).find("`p50_us` is -4.5") != std::string::npos);
    CHECK(broken("/steps/3/p99_us", 1e300).find("`p99_us` is 1e+300") != std::string::npos);
    CHECK(broken("/steps/3/sampler_bytes", 1e30).find("`sampler_bytes` is 1e+30") != std::string::npos);
    CHECK(broken("/steps/3/runs", 0).find("`runs` is 0") != std::string::npos);
    CHECK(broken("/host/cores", 0).find("`cores` is 0") != std::string::npos);
    Json none = good;
    for (Json& count : none["steps"][3]["column_buckets"]) count = 0;
    CHECK(refusal_of(none).find("`steps`[3]: `column_buckets` counts no column") != std::string::npos);
    Json before = good;
    for (Json& step : before["steps"]) step.erase("runs");
    CHECK(measurement_from_json(before).steps.at(0).runs == 1);
    Json without = good;
    without["steps"][0].erase("batch");
    CHECK(refusal_of(without).find("`steps`[0] has no `batch`") != std::string::npos);
}

TEST_CASE("plan: a file that is no measurement is refused at once, and it is said why") {
    const testing::Workplace place;
    const auto said = [&](const std::string& file, const std::string& what) {
        const testing::Ended ended = place.run("plan --from " + file, "timeout 20 ");
        INFO(file << ": " << ended.output);
        CHECK(ended.status == 1);
        CHECK(ended.output.find("plan: " + file + ": " + what) != std::string::npos);
        CHECK(ended.output.find("`croupier plan measure --save FILE` writes one") != std::string::npos);
    };
    const std::string good = measurement_to_json(imagined()).dump(1);
    place.write("good.json", good);
    CHECK(place.run("plan --from good.json").status == 0);
    place.write("truncated.json", good.substr(0, good.size() / 2));
    said("truncated.json", "it ends before its JSON does");
    place.write("empty.json", "");
    said("empty.json", "it ends before its JSON does");
    place.write("text.json", "{\"format\": oops}");
    said("text.json", "it is no JSON at byte 12");
    place.write("huge.json", good.substr(0, good.rfind('}')) + ", \"more\": 1e999}");
    said("huge.json", "a number in it is larger than any");
    place.write("plan.json", R"({"format": "croupier-plan", "version": 1})");
    said("plan.json", "it is no measurement of `croupier plan`");
    place.write("list.json", "[1, 2]");
    said("list.json", "it is no measurement of `croupier plan`");
    place.write("deep.json", std::string(100'000, '['));
    said("deep.json", "it ends before its JSON does");
    place.write("large.json", "");
    std::filesystem::resize_file(place.path() / "large.json", 1ULL << 30U);
    said("large.json", "it has 1073741824 bytes, a measurement at most 16777216");
    said("/dev/null", "it is no regular file");
    said(".", "it is a folder");
    said("absent.json", "there is no such file");
    REQUIRE(::mkfifo((place.path() / "pipe").c_str(), 0600) == 0);
    said("pipe", "it is no regular file");
}

TEST_CASE("plan: a measurement is saved whole, or what was there stays") {
    const testing::Workplace place;
    const std::string path = place.path() / "host.json";
    place.write("host.json", "the one of yesterday");
    place.write("linked.json", "");
    save(imagined(), path);
    CHECK(load_measurement(path).steps.size() == imagined().steps.size());
    CHECK_FALSE(std::filesystem::exists(path + ".new"));
    // A link stays one: what it names is replaced.
    std::filesystem::remove(place.path() / "linked.json");
    std::filesystem::create_symlink("host.json", place.path() / "linked.json");
    save(imagined(), place.path() / "linked.json");
    CHECK(std::filesystem::is_symlink(place.path() / "linked.json"));
    place.write("host.json", "the one of yesterday");
    CHECK(place.run("plan --shm-dir /nonexistent --save host.json").status == 1);
    CHECK(place.bytes_of("host.json") == "the one of yesterday");
    CHECK_FALSE(std::filesystem::exists(path + ".new"));
    CHECK_THROWS_WITH(save(imagined(), "/dev/full"), Catch::Contains("cannot write /dev/full"));
}

TEST_CASE("plan: runs of one setting are taken together by their means") {
    MeasuredStep one = step_of(32000, 16, 4);
    MeasuredStep other = one;
    one.p50_us = 100.0;
    other.p50_us = 124.0;
    other.p99_us = one.p99_us + 10.0;
    other.columns.mean_us += 2.0;
    other.columns.buckets[3] += 7;
    other.sampler_bytes += 5;
    const MeasuredStep both = taken_together(std::vector<MeasuredStep>{one, other});
    CHECK(both.runs == 2);
    CHECK(both.steps == 200);
    CHECK(both.p50_us == Approx(112.0));
    CHECK(both.p99_us == Approx(one.p99_us + 5.0));
    CHECK(both.columns.mean_us == Approx(one.columns.mean_us + 1.0));
    CHECK(both.columns.buckets[3] == one.columns.buckets[3] + other.columns.buckets[3]);
    CHECK(both.columns.buckets[7] == 2 * one.columns.buckets[7]);
    CHECK(both.sampler_bytes == other.sampler_bytes);
}

TEST_CASE("plan: the command measures, keeps what it measured, plans the same of it, and checks itself") {
    const testing::Workplace place;
    const std::string engine = "--vocab 512 --batch 4 --stage-ms 1 --mix fixed ";
    const testing::Ended measured =
        place.run("plan " + engine + "--json --check --save here.json 2>/dev/null");
    INFO(measured.output);
    REQUIRE(measured.status == 0);
    const Json plan = Json::parse(measured.output);
    CHECK(plan.at("samplers") >= 1);
    CHECK(plan.at("check").at("runs") == kCheckingRuns);
    CHECK(plan.at("check").at("steps") >= 64 * kCheckingRuns);
    CHECK(plan.at("runs").get<std::uint32_t>() % kMeasuringRuns == 0);
    CHECK(plan.at("check").at("p50_us") > 0.0);
    CHECK(plan.at("process_bytes") > 1U << 20U);

    const testing::Ended again = place.run("plan " + engine + "--from here.json --json");
    REQUIRE(again.status == 0);
    CHECK(Json::parse(again.output).at("step") == plan.at("step"));
    const testing::Ended text = place.run("plan " + engine + "--from here.json");
    CHECK(text.output.find("T_cycle = 1.00 ms") != std::string::npos);
    CHECK(place.run("plan " + engine + "--from here.json --kubernetes").output.find("limits:") !=
          std::string::npos);
    CHECK(place.run("plan --from here.json --vocab 1024").status == 1);
}

TEST_CASE("plan: what the command cannot do is said, and nothing is written") {
    const testing::Workplace place;
    const auto said = [&](const std::string& arguments, const char* what) {
        const testing::Ended ended = place.run("plan " + arguments);
        INFO(ended.output);
        CHECK(ended.status != 0);
        CHECK(ended.output.find(what) != std::string::npos);
    };
    said("--from nothing.json", "nothing.json: there is no such file");
    said("--vocab 512 --batch 4 --mix nonsense --save new.json", "nonsense");
    said("--vocab 3", "--vocab");
    said("--rows some.bf16", "--hot");
    // Before it measures: a run there would say something else.
    said("--shm-dir /nonexistent --save /nonexistent/x.json", "cannot write /nonexistent/x.json");
    said("measure --shm-dir /nonexistent --save /nonexistent/x.json", "cannot write /nonexistent/x.json");
    said("--shm-dir /nonexistent --save .", "cannot write .");
    said("--shm-dir /nonexistent --batch 2 --samplers 8", "--samplers is 8");
    said("measure --mix fixed,nonsense --save new.json", "nonsense not in {greedy,plain,full,fixed,");
    said("measure --vocab 512 --batch 4", "--save");
    place.write("bad.json", "{\"format\": \"\xff\xfe\"}");
    said("--from bad.json", "bad.json: it is no measurement");
    CHECK_FALSE(std::filesystem::exists(place.path() / "new.json"));
    const Json answer = Json::parse(place.run("plan --from bad.json --json").output);
    CHECK(answer.at("error").get<std::string>().find("bad.json") != std::string::npos);
}

}  // namespace croupier::tools
