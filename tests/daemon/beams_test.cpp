// A whole beam search through a daemon: the sequences are those of the beams, and none is left.
#include "croupier/beams.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>

#include "gpu_writer/rank_writer.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"
#include "testing/small_engine.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

using Tokens = std::vector<std::int32_t>;
using Uids = std::vector<std::uint64_t>;

constexpr std::uint32_t kVocab = 200;
constexpr std::int32_t kEos = 3;

// Logits after a prompt and outputs, in steps of a quarter, so that some are equal.
std::vector<float> row_after(std::int32_t prompt, const Tokens& output) {
    std::vector<std::uint32_t> seeds(output.begin(), output.end());
    seeds.push_back(static_cast<std::uint32_t>(prompt));
    std::seed_seq seed(seeds.begin(), seeds.end());
    std::mt19937 random(seed);
    std::vector<float> row(kVocab);
    for (float& logit : row) logit = static_cast<float>(random() % 32) / 4.0F;
    row[kEos] = static_cast<float>(random() % 40) / 4.0F;
    return row;
}

// Every third id is allowed, or few.
std::vector<std::uint32_t> mask_after(const Tokens& output, bool few) {
    std::vector<std::uint32_t> words((kVocab + 31) / 32);
    const std::uint32_t stride = few ? 60 : 3;
    for (auto id = static_cast<std::uint32_t>(output.size() % 3); id < kVocab; id += stride)
        words[id / 32] |= 1U << (id % 32);
    return words;
}

struct Case {
    croupier::client::BeamsOptions options;
    bool lean = false;
    bool masked = false;
    bool few = false;
};

Case case_of(std::uint32_t number) {
    Case made;
    made.options.width = 1 + number % 6;
    made.options.max_tokens = 3 + number % 11;
    made.options.min_tokens = number % 4;
    made.options.early_stopping = number % 3;
    made.options.length_penalty = 0.5 * static_cast<double>(number % 5) - 0.5;
    made.options.stop_ids = &kEos;
    made.options.stop_count = 1;
    made.lean = number % 2 == 1;
    made.masked = number % 3 == 2;
    made.few = number % 9 == 8;
    return made;
}

// Of all allowed tokens.
std::vector<croupier_logprob> logprobs_of(const Case& of, std::int32_t prompt, const Tokens& output) {
    const auto row = row_after(prompt, output);
    const auto words = mask_after(output, of.few);
    std::vector<croupier_logprob> all;
    double total = 0.0;
    for (std::uint32_t id = 0; id < kVocab; ++id) {
        if (of.masked && (words[id / 32] >> (id % 32) & 1U) == 0) continue;
        total += std::exp(double{row[id]});
        all.push_back({static_cast<std::int32_t>(id), row[id], 0});
    }
    for (auto& each : all) each.logprob = static_cast<float>(each.logprob - std::log(total));
    return all;
}

// The same search over whole rows that this process computes.
std::vector<client::Hypothesis> expected(const Case& of, std::int32_t prompt) {
    client::Beams beams(of.options);
    std::vector<Tokens> outputs = {{}};
    while (!outputs.empty()) {
        std::vector<std::vector<croupier_logprob>> all;
        std::vector<croupier_beam_row> rows;
        all.reserve(outputs.size());
        rows.reserve(outputs.size());
        for (const Tokens& output : outputs) all.push_back(logprobs_of(of, prompt, output));
        for (const auto& each : all)
            rows.push_back({each.data(), static_cast<std::uint32_t>(each.size()), 1});
        std::vector<Tokens> next;
        for (const croupier_beam& beam : beams.step(rows)) {
            next.push_back(outputs[beam.parent]);
            next.back().push_back(beam.token);
        }
        outputs = next;
    }
    return beams.hypotheses();
}

const Pieces& pieces() {
    static const Pieces all = small_alphabet_pieces(kVocab);
    return all;
}

class Engine {
  public:
    Engine(const std::string& endpoint, const Case& of, std::uint32_t max_sequences)
        : of_(of), session_(options(endpoint, of, max_sequences)) {
        auto attached = gpu_writer::RankWriter::attach(session_.segment_path(), 0);
        if (!attached) throw std::runtime_error(attached.error().message);
        writer_ = std::make_unique<gpu_writer::RankWriter>(std::move(attached).value());
    }

    client::Session& session() { return session_; }

    void admit(std::uint64_t uid, std::int32_t prompt, std::uint32_t logprobs) {
        client::Sequence made;
        made.uid = uid;
        made.prompt = {prompt};
        made.params.temperature = 0.0;
        made.params.logprobs = logprobs;
        session_.add(made);
    }

    // One step of sequences, each with its prompt.
    client::Step step(const std::vector<std::pair<std::uint64_t, std::int32_t>>& of) {
        std::vector<croupier_column> columns;
        std::vector<std::vector<float>> rows;
        std::vector<std::vector<std::uint32_t>> masks;
        for (const auto& [uid, prompt] : of) {
            rows.push_back(row_after(prompt, session_.output(uid)));
            masks.push_back(mask_after(session_.output(uid), of_.few));
            columns.push_back({uid, of_.masked ? masks.back().data() : nullptr, 1, 0});
        }
        const std::uint64_t step = session_.submit(columns);
        std::vector<const void*> pointers;
        pointers.reserve(rows.size());
        for (const auto& row : rows) pointers.push_back(row.data());
        need(writer_->send(step, pointers));
        auto decided = session_.wait(20000);
        REQUIRE(decided);
        return *decided;
    }

    std::size_t live() const { return session_.live().size(); }

  private:
    static client::OpenOptions options(const std::string& endpoint, const Case& of, std::uint32_t sequences) {
        client::OpenOptions options;
        options.endpoint = endpoint.c_str();
        options.name = "beams";
        options.vocab = kVocab;
        options.dtype = CROUPIER_FP32;
        options.max_sequences = sequences;
        options.max_batch = 32;
        options.mask_rows = 32;
        options.max_length = 64;
        options.max_logprobs = 16;
        if (of.lean) options.transport = CROUPIER_TRANSPORT_LEAN;
        static const TokenizerFile tokenizer(tiktoken_file(pieces()));
        options.tokenizer = tokenizer.path().c_str();
        return options;
    }

    Case of_;
    client::Session session_;
    std::unique_ptr<gpu_writer::RankWriter> writer_;
};

// One of several searches in a session.
struct Search {
    Search(const Case& of, std::uint64_t first_uid, std::int32_t of_prompt)
        : beams(of.options), uids(of.options.width), prompt(of_prompt), outputs{{}} {
        for (std::size_t i = 0; i < uids.size(); ++i) uids[i] = first_uid + i;
    }
    bool is_over() const { return outputs.empty(); }

    // `best`: of its beams.
    void take(Engine& engine, std::span<const std::vector<croupier_logprob>> best, bool masked) {
        std::vector<croupier_beam_row> rows;
        for (const auto& each : best)
            rows.push_back({each.data(), static_cast<std::uint32_t>(each.size()), masked ? 1U : 0U});
        const auto next = beams.step(rows);
        beams.fork(engine.session(), uids);
        std::vector<Tokens> longer;
        for (const croupier_beam& beam : next) {
            longer.push_back(outputs[beam.parent]);
            longer.back().push_back(beam.token);
        }
        outputs = longer;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            CHECK(engine.session().output(uids[i]) == outputs[i]);
            const std::string unfinished = unfinished_of(pieces(), {&prompt, 1});
            const auto text = reference_text(pieces(), {}, unfinished, outputs[i], OtherEnd::none);
            CHECK(engine.session().text(uids[i]) == text.released);
        }
    }

    client::Beams beams;
    Uids uids;
    std::int32_t prompt;
    std::vector<Tokens> outputs;
};

void check_same(const std::vector<client::Hypothesis>& found, const std::vector<client::Hypothesis>& wanted) {
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].tokens == wanted[i].tokens);
        CHECK(found[i].stopped == wanted[i].stopped);
        CHECK(found[i].score == Approx(wanted[i].score).epsilon(1e-5));
    }
}

}  // namespace

TEST_CASE("searches through a daemon find what they find in whole rows, and leave no sequence") {
    const DaemonProcess daemon;
    const std::uint32_t number = GENERATE(range(0U, 18U));
    CAPTURE(number);
    const Case of = case_of(number);
    Engine engine(daemon.endpoint(), of, 3 * of.options.width + 1);
    std::vector<Search> searches;
    for (std::uint32_t i = 0; i < 3; ++i) {
        const std::uint64_t uid = 100 * (i + std::uint64_t{1});
        searches.emplace_back(of, uid, static_cast<std::int32_t>(10 * number + i) % 200);
        engine.admit(uid, searches.back().prompt, searches.back().beams.candidates());
    }
    // Beside them one that is no beam.
    engine.admit(1, 7, 0);
    Tokens plain;
    while (engine.live() > 1) {
        std::vector<std::pair<std::uint64_t, std::int32_t>> asked = {{1, 7}};
        for (const Search& search : searches) {
            for (std::size_t i = 0; i < search.outputs.size(); ++i)
                asked.emplace_back(search.uids[i], search.prompt);
        }
        const client::Step step = engine.step(asked);
        plain.push_back(step.decisions[0].token);
        // The step's arrays end with the next call on the session.
        std::vector<std::vector<croupier_logprob>> best;
        for (const auto& decision : step.decisions) best.push_back(step.decisions.best(decision));
        std::size_t column = 1;
        for (Search& search : searches) {
            const std::size_t beams = search.outputs.size();
            if (!search.is_over()) search.take(engine, std::span(best).subspan(column, beams), of.masked);
            column += beams;
        }
    }
    for (Search& search : searches) check_same(search.beams.hypotheses(), expected(of, search.prompt));
    CHECK(engine.session().output(1) == plain);
    CHECK(engine.session().in_flight() == 0);
    engine.session().finish(1);
    CHECK(engine.live() == 0);
}

TEST_CASE("what a search cannot do in a session is told, and nothing has changed") {
    const DaemonProcess daemon;
    const Case of = case_of(3);
    REQUIRE(of.options.width == 4);
    Engine engine(daemon.endpoint(), of, 4);
    client::Session& session = engine.session();
    Search search(of, 100, 7);
    engine.admit(100, 7, search.beams.candidates());
    engine.admit(1, 7, 0);
    const auto refused = [&](Uids uids) { return failure_of([&] { search.beams.fork(session, uids); }); };
    CHECK_THAT(refused(search.uids), Contains("the search has made no step yet"));
    const client::Step step = engine.step({{100, 7}});
    const croupier_decision decision = step.decisions[0];
    CHECK(decision.best_count == 5);
    const std::vector<croupier_beam_row> rows = {{decision.best, 5, 0}};
    REQUIRE(search.beams.step(rows).size() == 4);
    CHECK_THAT(refused({100, 101, 102}), Contains("uids has 3 elements, and the search a width of 4"));
    CHECK_THAT(refused({100, 101, 102, 101}), Contains("uids has sequence 101 twice"));
    CHECK_THAT(refused({100, 101, 1, 102}), Contains("sequence 1 is live, and stands in no beam"));
    CHECK_THAT(refused({99, 101, 102, 103}), Contains("unknown_sequence: sequence 99"));
    CHECK_THAT(
        refused(search.uids),
        Contains("table_full: 4 beams go on, which are 3 sequences more, and the session has room for 2"));
    const Tokens output = session.output(100);
    CHECK(output.size() == 1);
    CHECK(session.live().size() == 2);
    session.finish(1);
    Search other(of, 100, 7);
    const std::vector<croupier_logprob> foreign = {{5000, -1.0F, 1}};
    const croupier_beam_row row = {foreign.data(), 1, 1};
    REQUIRE(other.beams.step({&row, 1}).size() == 1);
    CHECK_THAT(failure_of([&] { other.beams.fork(session, other.uids); }),
               Contains("a beam goes on with token 5000; allowed in this session: 0 to 199"));
    const croupier_column column = croupier_column_of(100);
    (void)session.submit({&column, 1});
    CHECK_THAT(refused(search.uids), Contains("sequence 100 stands in 1 steps in flight"));
    session.give_up(1);
    REQUIRE(session.wait(20000));
    search.beams.fork(session, search.uids);
    CHECK(session.live().size() == 4);
}

TEST_CASE("a session that allows fewer log-probs than a search needs refuses its sequence") {
    const DaemonProcess daemon;
    Case of = case_of(0);
    of.options.width = 16;
    Engine engine(daemon.endpoint(), of, 32);
    const client::Beams beams(of.options);
    CHECK_THAT(failure_of([&] { engine.admit(1, 7, beams.candidates()); }),
               Contains("17 best log-probs, the session was opened for 16"));
}
