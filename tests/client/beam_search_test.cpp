// The beam search against references: one that ranks every child of every beam, and all paths.
#include "client/beam_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace croupier;
using Catch::Contains;
using client::BeamOptions;
using client::BeamSearch;
using client::EarlyStopping;

namespace {

using Tokens = std::vector<std::int32_t>;

std::uint32_t below(std::mt19937& random, std::uint32_t limit) {
    return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random);
}

struct Path {
    Tokens tokens;
    double logprob = 0.0;
    double score = 0.0;
};

// A row of log-probs for each path, always the same.
class Model {
  public:
    Model(std::uint32_t vocab, std::uint32_t seed, bool has_ties)
        : vocab_(vocab), seed_(seed), has_ties_(has_ties) {}

    std::uint32_t vocab() const { return vocab_; }
    std::vector<croupier_logprob> row(const Tokens& path) const {
        std::vector<std::uint32_t> seeds(path.begin(), path.end());
        seeds.push_back(seed_);
        std::seed_seq seed(seeds.begin(), seeds.end());
        std::mt19937 random(seed);
        std::vector<croupier_logprob> row;
        for (std::uint32_t id = 0; id < vocab_; ++id) {
            // Quarters add up exactly.
            const float value = has_ties_ ? static_cast<float>(below(random, 8)) / 4.0F
                                          : std::uniform_real_distribution<float>(0.0F, 4.0F)(random);
            row.push_back({static_cast<std::int32_t>(id), -value, 0});
        }
        return row;
    }

  private:
    std::uint32_t vocab_;
    std::uint32_t seed_;
    bool has_ties_;
};

bool is_stop(const BeamOptions& options, std::int32_t token) {
    return std::find(options.stop_ids.begin(), options.stop_ids.end(), token) != options.stop_ids.end();
}

double penalised(const BeamOptions& options, double logprob, std::size_t tokens) {
    return logprob / std::pow(static_cast<double>(tokens), options.length_penalty);
}

// The best `count` of them, in the order in which they are given where they are equal.
template <typename Key>
void keep_best(std::vector<Path>& paths, std::size_t count, Key key) {
    std::stable_sort(paths.begin(), paths.end(),
                     [&](const Path& one, const Path& other) { return key(one) > key(other); });
    if (paths.size() > count) paths.resize(count);
}

// transformers 5.24, GenerationMixin._beam_search, for one prompt.
std::vector<Path> searched_by_reference(const Model& model, const BeamOptions& options) {
    const std::size_t width = options.width;
    std::vector<Path> running = {{}};
    std::vector<Path> finished;
    for (std::size_t tokens = 1;; ++tokens) {
        std::vector<Path> all;
        for (const Path& beam : running) {
            for (const auto& each : model.row(beam.tokens)) {
                if (tokens <= options.min_tokens && is_stop(options, each.token)) continue;
                all.push_back({beam.tokens, beam.logprob + double{each.logprob}, 0.0});
                all.back().tokens.push_back(each.token);
            }
        }
        const std::size_t beams_to_keep = std::max<std::size_t>(2, 1 + options.stop_ids.size()) * width;
        keep_best(all, beams_to_keep, [](const Path& path) { return path.logprob; });
        running.clear();
        for (std::size_t place = 0; place < all.size(); ++place) {
            const bool ends = tokens == options.max_tokens || is_stop(options, all[place].tokens.back());
            if (!ends) running.push_back(all[place]);
            if (!ends || place >= width) continue;
            all[place].score = penalised(options, all[place].logprob, tokens);
            finished.push_back(all[place]);
        }
        if (running.size() > width) running.resize(width);
        keep_best(finished, width, [](const Path& path) { return path.score; });
        if (running.empty()) return finished;
        if (finished.size() < width) continue;
        const bool never = options.early_stopping == EarlyStopping::never && options.length_penalty > 0;
        const double possible =
            penalised(options, running.front().logprob, never ? options.max_tokens : tokens);
        if (options.early_stopping == EarlyStopping::yes || possible <= finished.back().score)
            return finished;
    }
}

// Of each row only as many log-probs as the search asks for.
std::vector<Path> searched(const Model& model, const BeamOptions& options, std::mt19937& random) {
    auto begun = BeamSearch::begin(options);
    REQUIRE(begun);
    BeamSearch search = begun.value();
    std::vector<Tokens> beams = {{}};
    while (!search.is_over()) {
        std::vector<std::vector<croupier_logprob>> best;
        std::vector<BeamSearch::Row> rows;
        for (const Tokens& beam : beams) {
            auto row = model.row(beam);
            std::stable_sort(row.begin(), row.end(),
                             [](const auto& one, const auto& other) { return one.logprob > other.logprob; });
            if (row.size() > search.candidates()) row.resize(search.candidates());
            std::shuffle(row.begin(), row.end(), random);
            best.push_back(row);
        }
        rows.reserve(best.size());
        for (const auto& each : best) rows.push_back({each, model.vocab() < search.candidates()});
        const auto stepped = search.step(rows);
        if (!stepped) FAIL(stepped.error().message);
        CHECK(search.beams_before() == beams.size());
        std::vector<Tokens> next;
        for (const auto& beam : search.beams()) {
            next.push_back(beams[beam.parent]);
            next.back().push_back(beam.token);
        }
        beams = next;
    }
    std::vector<Path> found;
    for (const auto& each : search.hypotheses())
        found.push_back({search.tokens_of(each), each.logprob, each.score});
    return found;
}

void check_same(const std::vector<Path>& found, const std::vector<Path>& expected) {
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].tokens == expected[i].tokens);
        CHECK(found[i].logprob == expected[i].logprob);
        CHECK(found[i].score == expected[i].score);
    }
}

BeamOptions random_options(std::mt19937& random, std::uint32_t vocab) {
    constexpr double kPenalties[] = {-1.0, 0.0, 0.5, 1.0, 2.0};
    BeamOptions options;
    options.width = 1 + below(random, 5);
    options.max_tokens = 1 + below(random, 6);
    options.min_tokens = below(random, 2) == 0 ? 0 : below(random, 4);
    options.length_penalty = kPenalties[below(random, std::size(kPenalties))];
    options.early_stopping = static_cast<EarlyStopping>(below(random, 3));
    const std::uint32_t stops = below(random, std::min(vocab, 3U) + 1);
    for (std::uint32_t id = 0; id < stops; ++id)
        options.stop_ids.push_back(static_cast<std::int32_t>(vocab - 1 - id));
    return options;
}

// All paths that end, each extended until it does.
void enumerate(const Model& model, const BeamOptions& options, const Path& path, std::vector<Path>& all) {
    for (const auto& each : model.row(path.tokens)) {
        Path child = {path.tokens, path.logprob + double{each.logprob}, 0.0};
        child.tokens.push_back(each.token);
        const std::size_t tokens = child.tokens.size();
        child.score = penalised(options, child.logprob, tokens);
        if (is_stop(options, each.token) && tokens <= options.min_tokens) continue;
        if (is_stop(options, each.token) || tokens == options.max_tokens) {
            all.push_back(child);
        } else {
            enumerate(model, options, child, all);
        }
    }
}

BeamOptions plain(std::uint32_t width) {
    BeamOptions options;
    options.width = width;
    options.max_tokens = 8;
    options.stop_ids = {2};
    return options;
}

std::string refusal_of(const BeamOptions& options) {
    const auto begun = BeamSearch::begin(options);
    return begun ? "" : begun.error().message;
}

}  // namespace

TEST_CASE("a search finds what one finds that ranks every child of every beam") {
    std::mt19937 random(49);
    for (std::uint32_t round = 0; round < 20000; ++round) {
        const Model model(1 + below(random, 9), round, round % 2 == 0);
        const BeamOptions options = random_options(random, model.vocab());
        CAPTURE(round, model.vocab(), options.width, options.max_tokens, options.min_tokens,
                options.length_penalty, static_cast<int>(options.early_stopping), options.stop_ids.size());
        check_same(searched(model, options, random), searched_by_reference(model, options));
    }
}

TEST_CASE("a search with room for all paths finds the best of them") {
    std::mt19937 random(7);
    for (std::uint32_t round = 0; round < 2000; ++round) {
        const Model model(1 + below(random, 4), round, round % 2 == 0);
        BeamOptions options = random_options(random, model.vocab());
        options.max_tokens = 1 + below(random, 4);
        std::vector<Path> all;
        enumerate(model, options, {}, all);
        std::sort(all.begin(), all.end(),
                  [](const Path& one, const Path& other) { return one.score > other.score; });
        std::map<Tokens, Path> by_tokens;
        for (const Path& path : all) by_tokens[path.tokens] = path;
        options.width = 256;
        const std::vector<Path> found = searched(model, options, random);
        REQUIRE(found.size() == all.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK(found[i].score == all[i].score);
            CHECK(by_tokens.at(found[i].tokens).score == found[i].score);
            by_tokens.erase(found[i].tokens);
        }
    }
}

TEST_CASE("equal beams are ordered by their parent, then by their token") {
    BeamSearch search = BeamSearch::begin(plain(2)).value();
    const std::vector<croupier_logprob> equal = {{7, -1.0F, 1}, {4, -1.0F, 1}, {9, -1.0F, 1}};
    const std::vector<BeamSearch::Row> first = {{equal, false}};
    REQUIRE(search.step(first));
    REQUIRE(search.beams().size() == 2);
    CHECK(search.beams()[0].token == 4);
    CHECK(search.beams()[1].token == 7);
    const std::vector<BeamSearch::Row> second = {{equal, false}, {equal, false}};
    REQUIRE(search.step(second));
    for (const auto& beam : search.beams()) CHECK(beam.parent == 0);
    CHECK(search.beams()[1].logprob == -2.0);
}

TEST_CASE("options that no search can have are refused by name") {
    BeamOptions options = plain(0);
    CHECK_THAT(refusal_of(options), Contains("width is 0; allowed: 1 to 1023"));
    options = plain(1024);
    CHECK_THAT(refusal_of(options), Contains("width is 1024; allowed: 1 to 1023"));
    options = plain(4);
    options.max_tokens = 0;
    CHECK_THAT(refusal_of(options), Contains("max_tokens is 0"));
    options = plain(4);
    options.stop_ids = {5, -1};
    CHECK_THAT(refusal_of(options), Contains("a stop id is -1"));
    for (const double penalty : {33.0, -33.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
        options = plain(4);
        options.length_penalty = penalty;
        CHECK_THAT(refusal_of(options), Contains("length_penalty is"));
    }
    options = plain(4);
    options.early_stopping = static_cast<EarlyStopping>(3);
    CHECK_THAT(refusal_of(options), Contains("early_stopping is 3"));
    options.early_stopping = EarlyStopping::never;
    options.stop_ids = {5, 5, 2};
    CHECK(BeamSearch::begin(options).value().candidates() == 6);
}

TEST_CASE("rows that bring too little or no log-probs are refused, and the search goes on with others") {
    BeamSearch search = BeamSearch::begin(plain(2)).value();
    std::vector<croupier_logprob> best = {{4, -1.0F, 1}, {7, -2.0F, 2}, {2, -3.0F, 3}};
    std::vector<BeamSearch::Row> rows = {{best, false}};
    const auto refused = [&](const std::string& text) {
        const auto stepped = search.step(rows);
        REQUIRE(!stepped);
        CHECK_THAT(stepped.error().message, Contains(text));
    };
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float bad : {std::nanf(""), -kInfinity, kInfinity, 0.5F}) {
        best[1].logprob = bad;
        refused("rows[0].best[1].logprob is");
    }
    best[1] = {-1, -2.0F, 2};
    refused("rows[0].best[1].token is -1; allowed: 0 or more");
    best[1] = {4, -2.0F, 2};
    refused("rows[0].best has token 4 twice");
    best[1] = {7, -2.0F, 2};
    rows[0].best = std::span(best).first(2);
    refused("rows[0].best has 2 log-probs, and a search of width 2 with 1 stop ids needs 3");
    rows[0].best = {};
    refused("rows[0].best has no log-probs: the decision has an error, or its sequence asks for none");
    rows[0].best = best;
    rows.push_back(rows[0]);
    refused("the step has 2 rows, and the search has 1 beams");
    rows.pop_back();
    REQUIRE(search.step(rows));
    rows.push_back(rows[0]);
    REQUIRE(search.step(rows));
    CHECK(search.beams()[0].logprob == -2.0);
}

TEST_CASE("a search whose rows leave nothing ends with what is finished") {
    BeamSearch search = BeamSearch::begin(plain(2)).value();
    const std::vector<croupier_logprob> best = {{2, -1.0F, 1}, {7, -2.0F, 2}};
    std::vector<BeamSearch::Row> rows = {{best, true}};
    REQUIRE(search.step(rows));
    REQUIRE(search.beams().size() == 1);
    rows[0].best = {};
    REQUIRE(search.step(rows));
    CHECK(search.is_over());
    REQUIRE(search.hypotheses().size() == 1);
    CHECK(search.hypotheses()[0].stopped);
    const auto again = search.step(rows);
    REQUIRE(!again);
    CHECK_THAT(again.error().message, Contains("the search is over after 2 tokens"));
}
