// The measurement file of `croupier plan`: replaced atomically, checked when read.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/workplace.h"
#include "tests/tools/imagined_host.h"
#include "tools/plan/measurement_json.h"
#include "tools/plan/sim_run.h"

namespace croupier::tools {
namespace {

using Json = nlohmann::json;

std::string refusal_of(const Json& json) {
    try {
        (void)measurement_from_json(json);
    } catch (const std::exception& fault) {
        return fault.what();
    }
    return "";
}

}  // namespace

TEST_CASE("plan: a measurement survives a round trip, and invalid fields are named") {
    const Json good = Json::parse(measurement_to_json(imagined()).dump());
    CHECK(Json::parse(measurement_to_json(measurement_from_json(good)).dump()) == good);

    CHECK(refusal_of(Json(3)).find("not a measurement") != std::string::npos);
    const auto broken = [&](const std::string& pointer, const Json& value) {
        Json json = good;
        json[Json::json_pointer(pointer)] = value;
        return refusal_of(json);
    };
    CHECK(broken("/version", 2).find("its version is 2; this croupier reads version 1") != std::string::npos);
    CHECK(broken("/steps", Json::array()).find("`steps`") != std::string::npos);
    CHECK(broken("/steps/3/vocab", 0).find("`steps`[3]: `vocab` is 0; allowed") != std::string::npos);
    CHECK(broken("/steps/3/samplers", -1).find("`samplers` is -1") != std::string::npos);
    CHECK(broken("/steps/3/p50_us", "fast").find("`p50_us` is \"fast\"") != std::string::npos);
    CHECK(broken("/steps/3/p50_us", std::nan("")).find("`p50_us`") != std::string::npos);
    CHECK(broken("/steps/3/mix", "--help").find("`mix` is not a name") != std::string::npos);
    CHECK(broken("/steps/3/mix", "a\x1b[2Jb").find("`mix` is not a name") != std::string::npos);
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
    for (Json& count : none["steps"][3]["column_buckets"]) count = 0U;
    CHECK(refusal_of(none).find("`steps`[3]: `column_buckets` is all zeros") != std::string::npos);
    Json before = good;
    for (Json& step : before["steps"]) step.erase("runs");
    CHECK(measurement_from_json(before).steps.at(0).runs == 1);
    Json without = good;
    without["steps"][0].erase("batch");
    CHECK(refusal_of(without).find("`steps`[0] has no `batch`") != std::string::npos);
}

TEST_CASE("plan: a file that is not a measurement is refused at once, with the reason") {
    const testing::Workplace place;
    const auto said = [&](const std::string& file, const std::string& what) {
        const testing::Ended ended = place.run("plan --from " + file, "timeout 20 ");
        INFO(file << ": " << ended.output);
        CHECK(ended.status == 1);
        CHECK(ended.output.find("plan: " + file + ": " + what) != std::string::npos);
        CHECK(ended.output.find("create one with `croupier plan measure --save FILE`") != std::string::npos);
    };
    const std::string good = measurement_to_json(imagined()).dump(1);
    place.write("good.json", good);
    CHECK(place.run("plan --from good.json").status == 0);
    place.write("truncated.json", good.substr(0, good.size() / 2));
    said("truncated.json", "its JSON is truncated");
    place.write("empty.json", "");
    said("empty.json", "its JSON is truncated");
    place.write("text.json", "{\"format\": oops}");
    said("text.json", "it is not valid JSON at byte 12");
    place.write("huge.json", good.substr(0, good.rfind('}')) + ", \"more\": 1e999}");
    said("huge.json", "it contains a number that is too large");
    place.write("plan.json", R"({"format": "croupier-plan", "version": 1})");
    said("plan.json", "it is not a measurement of `croupier plan`");
    place.write("list.json", "[1, 2]");
    said("list.json", "it is not a measurement of `croupier plan`");
    place.write("deep.json", std::string(100'000, '['));
    said("deep.json", "its JSON is truncated");
    place.write("large.json", "");
    std::filesystem::resize_file(place.path() / "large.json", 1ULL << 30U);
    said("large.json", "it has 1073741824 bytes; a measurement has at most 16777216");
    said("/dev/null", "it is not a regular file");
    said(".", "it is a folder");
    said("absent.json", "No such file or directory");
    REQUIRE(::mkfifo((place.path() / "pipe").c_str(), 0600) == 0);
    said("pipe", "it is not a regular file");
}

TEST_CASE("plan: a measurement replaces the old file atomically") {
    const testing::Workplace place;
    const std::string path = place.path() / "host.json";
    place.write("host.json", "the old one");
    place.write("linked.json", "");
    save(imagined(), path);
    CHECK(load_measurement(path).steps.size() == imagined().steps.size());
    CHECK_FALSE(std::filesystem::exists(path + ".new"));
    // A link stays a link; its target is replaced.
    std::filesystem::remove(place.path() / "linked.json");
    std::filesystem::create_symlink("host.json", place.path() / "linked.json");
    save(imagined(), place.path() / "linked.json");
    CHECK(std::filesystem::is_symlink(place.path() / "linked.json"));
    place.write("host.json", "the old one");
    CHECK(place.run("plan --shm-dir /dev/null/no --save host.json").status == 1);
    CHECK(place.bytes_of("host.json") == "the old one");
    CHECK_FALSE(std::filesystem::exists(path + ".new"));
    CHECK_THROWS_WITH(save(imagined(), "/dev/full"), Catch::Contains("cannot write /dev/full"));
}

TEST_CASE("plan: runs of one setting are combined by their means") {
    MeasuredStep one = step_of(32000, 16, 4);
    MeasuredStep other = one;
    one.p50_us = 100.0;
    other.p50_us = 124.0;
    other.p99_us = one.p99_us + 10.0;
    other.columns.mean_us += 2.0;
    other.columns.buckets[3] += 7;
    other.sampler_bytes += 5;
    const MeasuredStep both = combine_runs(std::vector<MeasuredStep>{one, other});
    CHECK(both.runs == 2);
    CHECK(both.steps == 200);
    CHECK(both.p50_us == Approx(112.0));
    CHECK(both.p99_us == Approx(one.p99_us + 5.0));
    CHECK(both.columns.mean_us == Approx(one.columns.mean_us + 1.0));
    CHECK(both.columns.buckets[3] == one.columns.buckets[3] + other.columns.buckets[3]);
    CHECK(both.columns.buckets[7] == 2 * one.columns.buckets[7]);
    CHECK(both.sampler_bytes == other.sampler_bytes);
    // One disturbed run of five has no effect.
    MeasuredStep disturbed = one;
    disturbed.p50_us = 9000.0;
    const MeasuredStep five = combine_runs(std::vector<MeasuredStep>{one, disturbed, other, one, other});
    CHECK(five.p50_us == Approx((100.0 + 124.0 + 124.0) / 3));
}

}  // namespace croupier::tools
