// The sampler for llama.cpp decides what croupier_decide() decides, in whichever way llama.cpp calls it.
#include "llama_sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "decide_ahead.h"

// llama.cpp's, which is not linked.
extern "C" llama_sampler* llama_sampler_init(llama_sampler_i* functions, llama_sampler_context_t context) {
    return new llama_sampler{functions, context};
}

using Catch::Contains;
extern "C" void llama_sampler_apply(llama_sampler* self, llama_token_data_array* candidates) {
    self->iface->apply(self, candidates);
}

using croupier_llama::Options;
using croupier_llama::Row;

namespace {

constexpr std::uint32_t kVocab = 211;  // prime: no row ends with a whole block
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Free {
    void operator()(llama_sampler* sampler) const {
        sampler->iface->free(sampler);
        delete sampler;
    }
};
using Owned = std::unique_ptr<llama_sampler, Free>;

Owned make(const Options& options) {
    return Owned(croupier_llama::create(options));
}

Options every_control(std::uint32_t seed) {
    Options options;
    options.vocab = kVocab;
    options.seed = seed;
    options.params.temperature = 0.9;
    options.params.top_k = 60;
    options.params.top_p = 0.95;
    options.params.min_p = 0.01;
    options.params.typical_p = 0.97;
    options.params.penalty_last_n = 16;
    options.params.repetition_penalty = 1.1;
    options.params.frequency_penalty = 0.2;
    options.params.presence_penalty = 0.1;
    options.params.dry_multiplier = 0.8;
    options.params.xtc_probability = 0.3;
    options.bias = {{7, 2.0F}, {9, -1.0F}};
    options.bad_words = {1, 5, 2, 3, 4};
    options.dry_breakers = {1, 11};
    return options;
}

std::vector<float> row_of(std::uint32_t number) {
    std::mt19937 random(number);
    std::normal_distribution<float> normal(0.0F, 3.0F);
    std::vector<float> row(kVocab);
    for (float& logit : row) logit = normal(random);
    return row;
}

// What an engine has of a row: an array of candidates, which a sampler may cut short.
struct Candidates {
    explicit Candidates(const std::vector<float>& row) {
        for (std::size_t id = 0; id < row.size(); ++id)
            all.push_back({static_cast<llama_token>(id), row[id], 0.0F});
        array = {all.data(), all.size(), -1, false};
    }
    llama_token selected() const { return array.data[array.selected].id; }

    std::vector<llama_token_data> all;
    llama_token_data_array array{};
};

llama_token draw(llama_sampler& sampler, const std::vector<float>& row) {
    Candidates candidates(row);
    sampler.iface->apply(&sampler, &candidates.array);
    return candidates.selected();
}

// As an engine samples: a draw, which it accepts.
std::vector<llama_token> stream(llama_sampler& sampler, std::uint32_t from, std::uint32_t to) {
    std::vector<llama_token> tokens;
    for (std::uint32_t number = from; number < to; ++number) {
        tokens.push_back(draw(sampler, row_of(number)));
        sampler.iface->accept(&sampler, tokens.back());
    }
    return tokens;
}

// The same by croupier_decide() alone: with all tokens as output, and the feedback carried.
std::vector<llama_token> decided(const Options& asked, std::uint32_t count) {
    croupier_decider_options opened;
    croupier_decider_options_init(&opened);
    opened.vocab = kVocab;
    croupier_decider* decider = nullptr;
    croupier_error error;
    REQUIRE(croupier_decider_open(&opened, &decider, &error) == 0);
    Options options = asked;
    options.params.seed = asked.seed;
    croupier_answer answer;
    croupier_answer_init(&answer);
    std::vector<llama_token> tokens;
    while (tokens.size() < count) {
        const std::vector<float> logits = row_of(static_cast<std::uint32_t>(tokens.size()));
        croupier_row row;
        croupier_row_init(&row);
        row.logits = logits.data();
        row.dtype = CROUPIER_FP32;
        row.feedback_level = answer.feedback_level;
        row.feedback_weight = answer.feedback_weight;
        croupier_sequence sequence;
        croupier_sequence_init(&sequence);
        sequence.params = &options.params;
        sequence.output = tokens.data();
        sequence.output_count = tokens.size();
        sequence.bias = options.bias.data();
        sequence.bias_count = options.bias.size();
        sequence.bad_words = options.bad_words.data();
        sequence.bad_words_count = options.bad_words.size();
        sequence.dry_breakers = options.dry_breakers.data();
        sequence.dry_breakers_count = options.dry_breakers.size();
        REQUIRE(croupier_decide(decider, &row, &sequence, &answer, &error) == 0);
        tokens.push_back(answer.token);
    }
    croupier_decider_close(decider);
    return tokens;
}

Options mirostat(std::uint32_t seed) {
    Options options;
    options.vocab = kVocab;
    options.seed = seed;
    options.params.mirostat = 2;
    return options;
}

}  // namespace

TEST_CASE("llama.cpp's streams are those of croupier_decide()") {
    for (std::uint32_t seed = 0; seed < 10; ++seed) {
        for (const Options& options : {every_control(seed), mirostat(seed)}) {
            CHECK(stream(*make(options), 0, 40) == decided(options, 40));
        }
    }
}

TEST_CASE(
    "a row is decided as the array of its candidates is, in any order and without the impossible ones") {
    const Owned by_row = make(every_control(1));
    const Owned by_array = make(every_control(1));
    std::mt19937 random(2);
    for (std::uint32_t number = 0; number < 40; ++number) {
        std::vector<float> row = row_of(number);
        for (std::size_t id = number % 3; id < row.size(); id += 3) row[id] = kMinusInfinity;
        Candidates candidates(row);
        auto& all = candidates.all;
        all.erase(
            std::remove_if(all.begin(), all.end(),
                           [](const auto& each) { return each.logit == kMinusInfinity && each.id % 2 == 0; }),
            all.end());
        std::shuffle(all.begin(), all.end(), random);
        candidates.array = {all.data(), all.size(), -1, false};
        by_array->iface->apply(by_array.get(), &candidates.array);
        const llama_token token = croupier_llama::sampler_of(by_row.get())->decide(row.data());
        CHECK(candidates.selected() == token);
        by_row->iface->accept(by_row.get(), token);
        by_array->iface->accept(by_array.get(), token);
    }
}

TEST_CASE("a clone goes on as its original does, and a reset sampler as a new one") {
    for (const Options& options : {every_control(3), mirostat(3)}) {
        const Owned original = make(options);
        const auto begun = stream(*original, 0, 20);
        draw(*original, row_of(20));  // drawn and not accepted: cloned in mid-step
        for (int i = 0; i < 3; ++i) {
            const Owned clone(original->iface->clone(original.get()));
            const Owned other(clone->iface->clone(clone.get()));
            CHECK(stream(*clone, 20, 40) == stream(*other, 20, 40));
        }
        const Owned clone(original->iface->clone(original.get()));
        CHECK(stream(*clone, 20, 40) == stream(*original, 20, 40));
        for (int i = 0; i < 3; ++i) {
            original->iface->reset(original.get());
            CHECK(stream(*original, 0, 20) == begun);
        }
    }
}

TEST_CASE("llama.cpp's default seed is another one after each reset") {
    const Owned sampler = make(every_control(LLAMA_DEFAULT_SEED));
    const auto first = stream(*sampler, 0, 40);
    sampler->iface->reset(sampler.get());
    CHECK(stream(*sampler, 0, 40) != first);
    const Owned clone(sampler->iface->clone(sampler.get()));
    CHECK(stream(*clone, 40, 80) == stream(*sampler, 40, 80));
}

TEST_CASE("a draw that is not accepted leaves mirostat as it was") {
    const Owned one = make(mirostat(4));
    const Owned other = make(mirostat(4));
    for (std::uint32_t number = 0; number < 20; ++number) {
        // As a grammar does that refuses the first draw: the row is decided again without its token.
        std::vector<float> row = row_of(number);
        row[static_cast<std::size_t>(draw(*one, row))] = kMinusInfinity;
        const llama_token token = draw(*one, row);
        CHECK(draw(*other, row) == token);
        one->iface->accept(one.get(), token);
        other->iface->accept(other.get(), token);
    }
    // A forced token: both end at the same place, one of them without a draw.
    draw(*one, row_of(20));
    const llama_token forced = draw(*one, row_of(20)) == 0 ? 1 : 0;
    one->iface->accept(one.get(), forced);
    other->iface->accept(other.get(), forced);
    CHECK(stream(*one, 21, 40) == stream(*other, 21, 40));
}

TEST_CASE("with probabilities the candidates are what the filters left, the likeliest first") {
    Options options;
    options.vocab = kVocab;
    options.seed = 5;
    options.params.top_k = 7;
    options.wants_probabilities = true;
    const Owned sampler = make(options);
    std::vector<float> row = row_of(0);
    Candidates candidates(row);
    sampler->iface->apply(sampler.get(), &candidates.array);
    REQUIRE(candidates.array.size == 7);
    CHECK(candidates.array.sorted);
    float sum = 0.0F;
    for (std::size_t i = 0; i < 7; ++i) {
        const llama_token_data& each = candidates.array.data[i];
        sum += each.p;
        CHECK(std::exp(each.logit) == Approx(each.p));
        if (i > 0) CHECK(each.p <= candidates.array.data[i - 1].p);
    }
    CHECK(sum == Approx(1.0F));
    options.wants_probabilities = false;
    CHECK(draw(*make(options), row) == candidates.selected());
}

TEST_CASE("a row that has no token is named, and the sampler goes on") {
    const Owned sampler = make(every_control(6));
    std::vector<float> row = row_of(0);
    row[17] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THROWS_WITH(draw(*sampler, row), Contains("NaN"));
    row[17] = -kMinusInfinity;
    CHECK_THROWS_WITH(draw(*sampler, row), Contains("inf"));
    CHECK_THROWS_WITH(draw(*sampler, std::vector<float>(kVocab, kMinusInfinity)),
                      Contains("no token is left"));
    CHECK_THROWS_WITH(draw(*sampler, std::vector<float>(kVocab + 1, 0.0F)), Contains("candidate 211"));
    CHECK(stream(*sampler, 0, 20) == decided(every_control(6), 20));

    Options refused = every_control(6);
    refused.params.top_p = 1.5;
    CHECK_THROWS_WITH(draw(*make(refused), row_of(0)), Contains("top_p is 1.5"));
}

TEST_CASE("a sampler of other functions is not taken for one of these") {
    llama_sampler_i functions{};
    const llama_sampler other = {&functions, nullptr};
    CHECK(croupier_llama::sampler_of(&other) == nullptr);
    CHECK(croupier_llama::sampler_of(nullptr) == nullptr);
}

TEST_CASE("slots with different controls draw ahead, on any number of threads, what each draws alone") {
    constexpr std::uint32_t kSlots = 9;
    for (const unsigned threads : {1U, 2U, 5U}) {
        croupier_llama::Pool pool(threads);
        std::vector<Owned> slots;
        std::vector<Owned> alone;
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
            const Options options = slot % 2 == 0 ? every_control(slot) : mirostat(slot);
            slots.push_back(make(options));
            alone.push_back(make(options));
        }
        for (std::uint32_t step = 0; step < 30; ++step) {
            std::vector<std::vector<float>> logits;
            for (std::uint32_t slot = 0; slot < kSlots; ++slot)
                logits.push_back(row_of(step * kSlots + slot));
            const std::uint32_t broken = step % kSlots;
            logits[broken][0] = std::numeric_limits<float>::quiet_NaN();
            std::vector<Row> rows;
            for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
                rows.push_back({croupier_llama::sampler_of(slots[slot].get()), logits[slot].data()});
            }
            pool.decide(rows);
            for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
                CHECK((rows[slot].failure != nullptr) == (slot == broken));
                if (slot == broken) continue;
                const llama_token token =
                    croupier_llama::sampler_of(alone[slot].get())->decide(logits[slot].data());
                CHECK(rows[slot].token == token);
                slots[slot]->iface->accept(slots[slot].get(), token);
                alone[slot]->iface->accept(alone[slot].get(), token);
            }
        }
    }
}

TEST_CASE("a token decided ahead is taken once, for its row, and a failure is thrown at its own slot") {
    const Owned one = make(every_control(1));
    const Owned other = make(every_control(2));
    auto& sampler = *croupier_llama::sampler_of(one.get());
    auto& failing = *croupier_llama::sampler_of(other.get());
    const std::vector<float> row = row_of(0);
    const std::vector<float> next = row_of(1);
    const std::vector<float> impossible(kVocab, kMinusInfinity);
    auto& rows = croupier_llama::rows_ahead();
    rows = {{&sampler, row.data()}, {&failing, impossible.data()}};
    croupier_llama::decide_ahead();
    const llama_token ahead = rows[0].token;
    CHECK_THROWS_WITH(croupier_llama::token_of(failing, impossible.data()), Contains("no token is left"));
    CHECK(croupier_llama::token_of(sampler, row.data()) == ahead);
    CHECK(rows[0].sampler == nullptr);
    // Another row, and the same one again, as a canceled slot's successor may bring it: decided now.
    CHECK(croupier_llama::token_of(sampler, next.data()) == sampler.decide(next.data()));
    CHECK(croupier_llama::token_of(sampler, row.data()) == ahead);
    rows.clear();
}
