// `croupier hotset build` and `show` as processes.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "shm/hotness_file.h"
#include "testing/workplace.h"

namespace croupier::tools {

using namespace testing;
namespace {

using Ids = std::vector<std::int32_t>;

class Traces : public Workplace {
  public:
    using Workplace::write;

    Ended hotset(const std::string& arguments, const std::string& before = "") const {
        return run("hotset " + arguments, before);
    }
    // Builds a file from traces of a model with 50 ids, and returns its bytes.
    std::string built(const std::string& traces) const {
        const Ended ended = hotset("build " + traces + " --vocab 50 --model tiny -o built.hot");
        INFO(ended.output);
        REQUIRE(ended.status == 0);
        return bytes_of("built.hot");
    }
    std::string refusal(const std::string& traces) const {
        const Ended ended = hotset("build " + traces + " --vocab 50 --model tiny -o refused.hot");
        CHECK(ended.status == 1);
        CHECK_FALSE(std::filesystem::exists(path() / "refused.hot"));
        return ended.output;
    }
    proto::HotnessOrder order(const char* name) const {
        auto loaded = shm::load_hotness(path() / name, std::nullopt);
        REQUIRE(loaded);
        return loaded.value().order;
    }
    void write(const char* name, const Ids& ids) const {
        write(name, std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0])));
    }
};

Ids random_ids(unsigned seed, std::size_t count) {
    std::mt19937 random(seed);
    std::geometric_distribution<std::int32_t> draw(0.15);
    Ids ids(count);
    for (std::int32_t& id : ids) id = (draw(random) * 7 + 3) % 50;
    return ids;
}

Ids operator+(Ids left, const Ids& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

std::string in_lines(const Ids& ids) {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); i += 7) {
        const Ids part(ids.begin() + static_cast<std::ptrdiff_t>(i),
                       ids.begin() + static_cast<std::ptrdiff_t>(std::min(i + 7, ids.size())));
        text += nlohmann::json(part).dump() + "\n";
    }
    return text;
}

}  // namespace

TEST_CASE("ids are ordered by count, and ids without occurrences come last in order") {
    const Traces here;
    here.write("a.i32", Ids{4, 2, 4, 49, 4, 2, 0});
    here.built("a.i32 --smoothing 0.25");
    const proto::HotnessOrder order = here.order("built.hot");
    CHECK(order.model == "tiny");
    CHECK(order.smoothing == 0.25);
    CHECK(Ids(order.ids.begin(), order.ids.begin() + 6) == Ids{4, 2, 0, 49, 1, 3});
    CHECK(order.counts[0] == 3);
    CHECK(order.counts[3] == 1);
    CHECK(order.counts[4] == 0);
    CHECK(order.counted() == 7);
}

TEST_CASE("JSON lines are lists of ids or objects with ids") {
    const Traces here;
    here.write("a.jsonl",
               "[1, 2]\n\n"
               "{\"tokens\": [3], \"prompt\": [4, 4], \"output\": [], \"history\": [5], \"next\": 6}\r\n"
               "{\"next\": 7, \"prompt\": null, \"flags\": [\"greedy\"], \"seed\": 99999}\n"
               "[]");
    const std::string lines = here.built("a.jsonl");
    here.write("b.i32", Ids{1, 2, 3, 4, 4, 5, 6, 7});
    CHECK(here.built("b.i32") == lines);
    const Ended ended = here.hotset("build - --vocab 50 --model tiny -o piped.hot", "cat a.jsonl | ");
    CHECK(ended.status == 0);
    CHECK(here.bytes_of("piped.hot") == lines);
}

TEST_CASE("merging with a weight equals repeating the trace") {
    const Traces here;
    const Ids first = random_ids(1, 400000);  // more than is read at a time
    const Ids second = random_ids(2, 3000);
    here.write("first.i32", first);
    here.write("second.jsonl", in_lines(second));
    here.write("both.i32", first + second + second + second);
    const std::string whole = here.built("both.i32");
    CHECK(here.built("first.i32 second.jsonl --weight 1 --weight 3") == whole);
    CHECK(here.built("--weight 3 --weight 1 second.jsonl first.i32") == whole);
    CHECK(here.built("first.i32 second.jsonl") != whole);
    REQUIRE(here.hotset("build second.jsonl --vocab 50 --model tiny -o second.hot").status == 0);
    CHECK(here.built("second.hot first.i32 --weight 3 --weight 1") == whole);
}

TEST_CASE("building is deterministic, and a file built from itself is identical") {
    const Traces here;
    here.write("a.i32", random_ids(3, 1000));
    const std::string once = here.built("a.i32 --weight 0.3");
    CHECK(here.built("a.i32 --weight 0.3") == once);
    here.write("again.hot", once);
    CHECK(here.built("again.hot") == once);
}

TEST_CASE("an id outside the vocabulary is refused with file, position and value") {
    const Traces here;
    here.write("high.i32", Ids{1, 2, 50});
    CHECK_THAT(here.refusal("high.i32"),
               Catch::Contains("'high.i32': the token at byte 8 is 50; allowed: 0 to 49"));
    Ids late(300000, 1);
    late.back() = -1;
    here.write("late.i32", late);
    CHECK_THAT(here.refusal("late.i32"), Catch::Contains("the token at byte 1199996 is -1"));
    const auto line = [&](const std::string& text) {
        here.write("a.jsonl", "[1]\n" + text + "\n");
        return here.refusal("a.jsonl");
    };
    CHECK_THAT(line("[3, 50]"),
               Catch::Contains("a.jsonl, line 2: the list[1] is 50; allowed: token ids, 0 to 49"));
    CHECK_THAT(line("{\"output\": [1, -2]}"), Catch::Contains("line 2: output[1] is -2"));
    CHECK_THAT(line("{\"next\": 1.5}"), Catch::Contains("line 2: next is 1.5"));
    CHECK_THAT(line("{\"prompt\": \"hello\"}"), Catch::Contains("line 2: prompt is \"hello\""));
    CHECK_THAT(line("{\"tokens\": [[1]]}"), Catch::Contains("line 2: tokens[0] is a list of 1"));
    CHECK_THAT(line("{\"token\": 1}"), Catch::Contains("line 2: is an object without token ids"));
    CHECK_THAT(line("7"), Catch::Contains("line 2: is 7; allowed: a list"));
    CHECK_THAT(line("[1, 2"), Catch::Contains("line 2: not JSON"));
}

TEST_CASE("invalid traces and options are refused, and no file is written") {
    const Traces here;
    here.write("a.i32", Ids{1});
    here.write("odd.i32", std::string(7, '\0'));
    here.write("empty.jsonl", std::string("\n[]\n"));
    here.write("a.txt", std::string("1 2 3"));
    CHECK_THAT(here.refusal("odd.i32"), Catch::Contains("has 7 bytes"));
    CHECK_THAT(here.refusal("empty.jsonl"), Catch::Contains("contains no token"));
    CHECK_THAT(here.refusal("a.txt"), Catch::Contains("has an unknown format"));
    CHECK_THAT(here.refusal("nowhere.i32"), Catch::Contains("'nowhere.i32'"));
    CHECK_THAT(here.refusal("."), Catch::Contains("not a regular file"));
    CHECK_THAT(here.refusal("a.i32 --weight 1 --weight 2"), Catch::Contains("2 times for 1 traces"));
    CHECK_THAT(here.refusal("a.i32 --weight 0"), Catch::Contains("--weight is 0; allowed: above 0"));
    CHECK_THAT(here.hotset("build nowhere.i32 --vocab 50 --model tiny -o no/a.hot").output,
               Catch::Contains("no such folder"));
    CHECK_THAT(here.refusal("a.i32 --smoothing -1"), Catch::Contains("--smoothing is -1"));
}

TEST_CASE("hotness files are merged only if model and vocabulary are equal") {
    const Traces here;
    here.write("a.i32", Ids{1});
    REQUIRE(here.hotset("build a.i32 --vocab 50 --model other -o other.hot").status == 0);
    REQUIRE(here.hotset("build a.i32 --vocab 51 --model tiny -o large.hot").status == 0);
    CHECK_THAT(here.refusal("a.i32 other.hot"), Catch::Contains("model is 'other', should be 'tiny'"));
    CHECK_THAT(here.refusal("a.i32 large.hot"), Catch::Contains("vocab is 51, should be 50"));
    std::string damaged = here.bytes_of("other.hot");
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    here.write("damaged.hot", damaged);
    CHECK_THAT(here.refusal("damaged.hot"), Catch::Contains("checksum is 0x"));
}

TEST_CASE("croupier hotset show prints what hot sets cover, as text and as JSON") {
    const Traces here;
    here.write("a.i32", Ids{4, 4, 4, 130, 130, 0, 639, 70});
    REQUIRE(here.hotset("build a.i32 --smoothing 0.16 --vocab 640 --model tiny -o built.hot").status == 0);
    const Ended text = here.hotset("show built.hot --vocab 640");
    CHECK(text.status == 0);
    CHECK_THAT(text.output, Catch::Contains("the hotness order of 'tiny'") &&
                                Catch::Contains("640 ids, 5 of them counted") &&
                                Catch::Contains("hottest: 4 (3), 130 (2), 0 (1)") &&
                                Catch::Contains("100% |"));
    const auto json = nlohmann::json::parse(here.hotset("show built.hot --tp 2 --json").output);
    const auto& first = json.at("coverage").at(0);
    // The block with the ids 0 to 63.
    CHECK(first.at("hot") == 64);
    CHECK(first.at("counted").get<double>() == Approx(4.0 / 8));
    CHECK(first.at("smoothed").get<double>() == Approx((4.0 + 64 * 0.16) / (8 + 640 * 0.16)));
    CHECK(first.at("prefixes") == Ids{1, 0});
    const auto& last = json.at("coverage").back();
    CHECK(last.at("hot") == 640);
    CHECK(last.at("smoothed").get<double>() == Approx(1.0));
    CHECK(last.at("prefixes") == Ids{5, 5});
    CHECK(json.at("ids_counted") == 5);
    CHECK(json.at("hottest").at(0).at("id") == 4);
    CHECK_FALSE(json.at("hottest").at(0).contains("text"));
    here.write("tokenizer.json", std::string(R"({"model": {"vocab": {"the": 4, "\n": 130}}})"));
    CHECK_THAT(here.hotset("show built.hot --tokenizer tokenizer.json").output,
               Catch::Contains(R"(hottest: 4 "the" (3), 130 "\n" (2), 0 (1))"));
    const Ended named = here.hotset("show built.hot --tokenizer tokenizer.json --json");
    CHECK(nlohmann::json::parse(named.output).at("hottest").at(1).at("text") == R"("\n")");
    here.write("other.json", std::string(R"({"model": {"vocab": {"far": 640}}})"));
    const Ended other = here.hotset("show built.hot --tokenizer other.json");
    CHECK(other.status == 1);
    CHECK_THAT(other.output, Catch::Contains("the token \"far\" has the id 640"));
}

TEST_CASE("croupier hotset show refuses invalid files and options") {
    const Traces here;
    here.write("a.i32", Ids{1});
    here.built("a.i32");
    const Ended other = here.hotset("show built.hot --vocab 51");
    CHECK(other.status == 1);
    CHECK_THAT(other.output, Catch::Contains("built.hot: vocab is 50, should be 51"));
    CHECK_THAT(here.hotset("show built.hot --tp 51").output, Catch::Contains("--tp is 51; allowed: 1 to 50"));
    const Ended trace = here.hotset("show a.i32 --json");
    CHECK(trace.status == 1);
    CHECK_THAT(nlohmann::json::parse(trace.output).at("error").get<std::string>(),
               Catch::Contains("a.i32: it has 4 bytes"));
}

}  // namespace croupier::tools
