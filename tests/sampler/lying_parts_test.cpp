// What a writer sends of a row in parts is another process's. If it is untrue, the token may be a wrong one,
// but it is one of the vocabulary's, and no decision reads or writes beyond its memory for it, or goes on
// without end.
#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "case_generator.h"
#include "lean_fixture.h"
#include "lean_parts.h"
#include "lm_cases.h"
#include "more_cases.h"
#include "proto/geometry.h"
#include "proto/lean_part.h"
#include "sampler/blocked_row.h"
#include "sampler/lean_row.h"
#include "testing/agreement.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What the ranks say of a case's row. The columns point into it.
class Lies {
  public:
    Lies(const RandomCase& of, LeanRow& row, std::mt19937_64& generator)
        : of_(of), row_(row), generator_(generator), bytes_(proto::element_bytes(of.shape.dtype)) {
        const RowView view = row.view();
        vocab_ = view.vocab;
        for (const Slice& each : view.slices)
            ranks_.push_back({each.first_id, each.entries, {}, {}, {}, {}, {}, {}});
    }

    // Of some parts the truth, which an earlier lie may have taken away.
    void tell() {
        for (std::size_t i = 0; i < ranks_.size(); ++i) tell(ranks_[i], row_.column(i));
    }

  private:
    struct Rank {
        std::uint32_t first_id;
        std::uint32_t entries;
        std::vector<std::byte> maxima;
        std::vector<std::byte> elements;
        std::vector<std::byte> named;
        std::vector<std::uint16_t> blocks;
        std::vector<std::uint8_t> weights;
        std::vector<proto::BestEntry> entries_told;
    };

    bool one_in(std::uint32_t odds) { return below(odds) == 0; }
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(generator_() % bound); }

    // NaNs, infinities, zeros, the largest and the least of each dtype, and others.
    std::uint32_t any_code(proto::Dtype dtype) {
        constexpr std::array<std::uint16_t, 14> kDelicate = {0x0000, 0x8000, 0x0001, 0x3F80, 0x7BFF,
                                                             0x7C00, 0x7E00, 0x7F7F, 0x7F80, 0x7FC0,
                                                             0xFC00, 0xFF7F, 0xFF80, 0xFFFF};
        const auto code =
            one_in(2) ? kDelicate[below(kDelicate.size())] : static_cast<std::uint16_t>(generator_());
        return dtype == proto::Dtype::fp32 ? std::uint32_t{code} << 16U | below(2) : code;
    }
    float any_float() { return std::bit_cast<float>(any_code(proto::Dtype::fp32)); }
    double any_double() {
        constexpr std::array kDelicate = {0.0, -1.0, 1e-320, 1e-300, 1e300};
        return one_in(2) ? kDelicate[below(kDelicate.size())] : static_cast<double>(any_float());
    }
    std::uint32_t any_token(const Rank& rank) {
        if (one_in(8)) return static_cast<std::uint32_t>(generator_());
        return one_in(8) ? below(vocab_ + 2) : rank.first_id + below(rank.entries + 1);
    }

    template <typename T>
    std::vector<T> copy_of(const T* from, std::size_t count) {
        return from == nullptr ? std::vector<T>{} : std::vector<T>(from, from + count);
    }
    // Some of the codes, or most.
    void spoil(std::vector<std::byte>& codes, std::uint32_t odds) {
        for (std::size_t at = 0; at + bytes_ <= codes.size(); at += bytes_) {
            if (!one_in(odds)) continue;
            const std::uint32_t code = any_code(of_.shape.dtype);
            std::memcpy(&codes[at], &code, bytes_);
        }
    }

    void tell(Rank& rank, LeanColumn& column) {
        const std::uint32_t end = std::min(rank.first_id + rank.entries, vocab_);
        if (end <= rank.first_id) return;
        const std::uint32_t blocks = (end - 1) / kBlock - rank.first_id / kBlock + 1;
        if (one_in(3)) tell_maxima(rank, column, blocks);
        if (one_in(3)) tell_blocks(rank, column, blocks);
        if (one_in(3)) tell_elements(rank, column);
        if (one_in(16)) column.masked = !column.masked;
        if (one_in(16)) column.holds_nothing = !column.holds_nothing;
        if (one_in(3)) tell_sums(column);
        if (one_in(4)) {
            rank.weights.resize(blocks);
            for (std::uint8_t& each : rank.weights) each = static_cast<std::uint8_t>(generator_());
            column.block_weights = rank.weights.data();
        }
        if (one_in(3)) tell_entries(rank, column);
        if (one_in(3)) tell_named(rank, column);
        if (one_in(3)) tell_draw(rank, column);
        if (one_in(3)) tell_racers(rank, column);
    }

    // A NaN or +inf among them would be an error in any case.
    void tell_maxima(Rank& rank, LeanColumn& column, std::uint32_t blocks) {
        rank.maxima = copy_of(static_cast<const std::byte*>(column.maxima), blocks * bytes_);
        const bool any = one_in(8);
        for (std::size_t b = 0; b < blocks; ++b) {
            if (!one_in(4)) continue;
            std::uint32_t code = 0;
            std::memcpy(&code, &rank.maxima[below(blocks) * bytes_], bytes_);
            if (one_in(2)) code += below(3) - 1;
            if (one_in(4)) code = any_code(of_.shape.dtype);
            if (!any && !(value_of_code(of_.shape.dtype, code) < kInfinity)) continue;
            std::memcpy(&rank.maxima[b * bytes_], &code, bytes_);
        }
        column.maxima = rank.maxima.data();
    }

    void tell_blocks(Rank& rank, LeanColumn& column, std::uint32_t blocks) {
        rank.blocks = copy_of(column.blocks, column.sent);
        for (std::uint16_t& each : rank.blocks) {
            if (one_in(2)) each = static_cast<std::uint16_t>(one_in(8) ? generator_() : below(blocks + 2));
        }
        column.blocks = rank.blocks.data();
    }

    void tell_elements(Rank& rank, LeanColumn& column) {
        rank.elements = copy_of(static_cast<const std::byte*>(column.elements),
                                std::size_t{column.sent} * kBlock * bytes_);
        spoil(rank.elements, one_in(2) ? 2 : 64);
        column.elements = rank.elements.data();
    }

    void tell_sums(LeanColumn& column) {
        if (!column.spread) column.spread.emplace();
        auto& spread = *column.spread;
        if (one_in(2)) spread = {static_cast<double>(below(vocab_ + 2)), -1.0, 1.0, 1.0, -1.0};
        for (double* each : {&column.weight, &column.weight_at_scale, &column.scale, &spread.tokens,
                             &spread.distances, &spread.squares, &spread.weight, &spread.moments}) {
            if (one_in(4)) *each = any_double();
            if (one_in(4)) *each *= one_in(2) ? -1.0 : 1.0 + 1e-3 * below(1000);
        }
    }

    // More than there are tokens, some again and again.
    void tell_entries(Rank& rank, LeanColumn& column) {
        rank.entries_told = copy_of(column.best_entries.data(), column.best_entries.size());
        for (proto::BestEntry& each : rank.entries_told) {
            if (one_in(4)) each.token = any_token(rank);
            if (one_in(4)) each.logit = any_float();
        }
        const std::uint32_t more = one_in(4) ? below(2 * vocab_) : below(8);
        const std::uint32_t again = any_token(rank);
        const bool repeats = one_in(4);
        for (std::uint32_t i = 0; i < more; ++i) {
            rank.entries_told.push_back({repeats ? again : any_token(rank), one_in(2) ? any_float() : 3.0F});
        }
        column.best_entries = rank.entries_told;
        if (one_in(2)) column.best_above = any_float();
        if (std::isnan(column.best_above)) column.best_above = 0.0F;
    }

    void tell_named(Rank& rank, LeanColumn& column) {
        const std::vector<std::uint32_t> ids = named_ids(of_.request);
        rank.named.resize(ids.size() * bytes_ + bytes_);
        spoil(rank.named, one_in(2) ? 1 : 2);
        column.named_values = rank.named.data();
        column.named = static_cast<std::uint32_t>(ids.size());
        column.named_word = proto::word_of_ids(column.named, [&](std::uint32_t i) { return ids[i]; });
        if (one_in(8)) column.named_word ^= 1U;
    }

    void tell_draw(const Rank& rank, LeanColumn& column) {
        const DrawnBy by = drawn_by(of_.request);
        column.draw = proto::race::Draw{by.key, by.temperature, any_token(rank), any_float(), any_float()};
    }

    void tell_racers(const Rank& rank, LeanColumn& column) {
        if (!column.draw) tell_draw(rank, column);
        if (!column.racers) column.racers.emplace();
        proto::Racers& racers = *column.racers;
        racers.count = one_in(16) ? static_cast<std::uint32_t>(generator_()) : below(proto::kMostRacers + 2);
        for (proto::Racer& each : racers.best) {
            if (one_in(2)) each.token = any_token(rank);
            for (float* value : {&each.score, &each.logit, &each.before}) {
                if (one_in(2)) *value = any_float();
            }
            if (std::isnan(each.score)) each.score = 1.0F;
        }
        if (one_in(2)) racers.rival = any_float();
        if (!one_in(8) && std::isnan(racers.rival)) racers.rival = -kInfinity;
    }

    const RandomCase& of_;
    LeanRow& row_;
    std::mt19937_64& generator_;
    std::size_t bytes_;
    std::uint32_t vocab_ = 0;
    std::vector<Rank> ranks_;
};

void check_answer(const reference::Outcome& outcome, std::uint32_t vocab) {
    const auto is_of_row = [vocab](std::int32_t token) {
        return token >= 0 && static_cast<std::uint32_t>(token) < vocab;
    };
    REQUIRE((outcome.decision.error == proto::DecisionError::none) == is_of_row(outcome.decision.token));
    REQUIRE((std::isfinite(outcome.feedback.level) && std::isfinite(outcome.feedback.weight)));
    for (const Survivor& each : outcome.support) REQUIRE(is_of_row(each.token));
    for (const RankedLogprob& each : outcome.logprobs) REQUIRE(is_of_row(each.token));
}

void check_lies(const RandomCase& of, Workspace& workspace, std::mt19937_64& generator) {
    INFO(describe(of));
    LeanRow row(of.logits, of.shape, of.order_seed, random_parts(of, generator));
    Lies lies(of, row, generator);
    lies.tell();
    const LeanDecision made = decide_lean(row, of.request, workspace, [&] {
        if (generator() % 2 == 0) lies.tell();
    });
    check_answer(made.outcome, workspace.vocab);
}

// The bytes of each rank's part, and the slices where asked blocks stand: whatever a writer left there.
class AnyBytes {
  public:
    AnyBytes(const RandomCase& of, std::mt19937_64& generator) : of_(of), generator_(generator) {
        const auto vocab = static_cast<std::uint32_t>(of.logits.size());
        proto::Geometry geometry;
        geometry.vocab = vocab;
        geometry.tp = 1 + below(std::min(3U, vocab));
        geometry.max_batch = 2;
        geometry.dtype = of.shape.dtype;
        geometry.lean_blocks = proto::kLeanGranule;
        proto::fill_even_shards(geometry);
        placed_.resize((geometry.blocks() + 63) / 64);
        view_ = {geometry.dtype, vocab, kBlock, 1, 0, {}};
        for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) add(geometry, rank);
        for (std::size_t rank = 0; rank < columns_.size(); ++rank) slices_[rank].lean = &columns_[rank];
        view_.slices = slices_;
    }

    const RowView& view() const { return view_; }
    void place(std::span<const std::uint64_t> missing) {
        for (std::size_t word = 0; word < placed_.size(); ++word) placed_[word] |= missing[word];
    }

  private:
    using Line = proto::LeanHead;  // aligned as a part is

    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(generator_() % bound); }

    std::vector<Line> any_lines(std::size_t bytes) {
        std::vector<Line> lines((bytes + sizeof(Line) - 1) / sizeof(Line));
        const std::uint32_t kind = below(3);
        for (std::byte* word = bytes_of(lines); word != bytes_of(lines) + lines.size() * sizeof(Line);
             word += 4) {
            const float value = static_cast<float>(below(800)) / 64.0F;
            const std::uint32_t bits = generator_() % 64 == 0 ? static_cast<std::uint32_t>(generator_())
                                       : kind == 0            ? below(view_.vocab)
                                                              : std::bit_cast<std::uint32_t>(value);
            std::memcpy(word, &bits, sizeof(bits));
        }
        return lines;
    }
    static std::byte* bytes_of(std::vector<Line>& lines) {
        return reinterpret_cast<std::byte*>(lines.data());
    }

    proto::LeanHead any_head() {
        proto::LeanHead head{};
        head.flags.bits = static_cast<std::uint32_t>(generator_());
        if (generator_() % 8 != 0)
            head.flags.remove(proto::SentFlags(proto::Sent::under_mask) | proto::Sent::nothing);
        head.sent = below(proto::kLeanGranule + 1);
        head.weight = head.weight_at_scale = 1.0 + below(100);
        head.scale = 1.0;
        const DrawnBy by = drawn_by(of_.request);
        head.draw = {by.key, by.temperature, below(view_.vocab), 1.0F, 1.0F};
        return head;
    }

    void add(const proto::Geometry& geometry, std::uint32_t rank) {
        const proto::LeanLayout layout = proto::lean_layout_of(geometry, rank);
        const proto::RankShard& shard = geometry.shards[rank];
        parts_.push_back(any_lines(layout.bytes));
        rows_.push_back(any_lines(std::size_t{shard.blocks()} * layout.block_bytes));
        std::byte* const part = bytes_of(parts_.back());
        const proto::LeanHead head = any_head();
        const std::uint32_t column = below(geometry.max_batch);
        const std::vector<std::uint32_t> ids = named_ids(of_.request);
        const auto count = static_cast<std::uint32_t>(ids.size());
        const auto id_at = [&](std::uint32_t i) { return ids[i]; };
        const proto::NamedValues named = {count, proto::word_of_ids(count, id_at), {}};
        if (head.sent < proto::kLeanGranule && generator_() % 4 != 0)
            std::memcpy(part + layout.named_values(column, head.sent), &named, sizeof(named));
        columns_.push_back(lean_column_of(head, part, layout, shard.blocks(), column));
        columns_.back().placed = placed_.data();
        slices_.push_back(
            {bytes_of(rows_.back()), shard.count, shard.first_id, nullptr, nullptr, {}, nullptr});
    }

    const RandomCase& of_;
    std::mt19937_64& generator_;
    RowView view_;
    std::vector<std::uint64_t> placed_;
    std::vector<std::vector<Line>> parts_;
    std::vector<std::vector<Line>> rows_;
    std::vector<LeanColumn> columns_;
    std::vector<Slice> slices_;
};

void check_any_bytes(const RandomCase& of, Workspace& workspace, std::mt19937_64& generator) {
    INFO(describe(of));
    AnyBytes row(of, generator);
    for (int tries = 0;; ++tries) {
        REQUIRE(tries < kMostTries);
        const proto::Decision decision = decide_once(row.view(), of.request, workspace);
        const auto missing = workspace.answer().missing;
        if (missing.empty()) return check_answer(outcome_of(decision, workspace.answer()), workspace.vocab);
        row.place(missing);
    }
}

template <class Check>
void check_small_rows(Check check) {
    std::mt19937_64 generator = seeded(20261130);
    RandomCase random_case;
    const auto cases = cases_to_compare("CROUPIER_LIES", 10'000);
    constexpr int kCasesOfOne = 20;  // a workspace costs more than a decision
    for (std::uint64_t number = 0; number < cases; number += kCasesOfOne) {
        const auto vocab = static_cast<std::uint32_t>(1 + generator() % 700);
        Workspace workspace(vocab);
        for (int i = 0; i < kCasesOfOne; ++i) {
            fill_case(random_case, vocab, generator);
            INFO("case " << number << " and " << i);
            check(random_case, workspace, generator);
        }
    }
}

}  // namespace

TEST_CASE("false parts of a row cost no more than a token") {
    check_small_rows(check_lies);
}

TEST_CASE("a part of any bytes costs no more than a token") {
    check_small_rows(check_any_bytes);
}

TEST_CASE("false parts of a large row cost no more than a token") {
    std::mt19937_64 generator = seeded(20261131);
    LmCase lm_case;
    const auto cases = cases_to_compare("CROUPIER_LIES", 10'000) / 50;
    for (std::uint64_t number = 0; number < cases; ++number) {
        const auto vocab = static_cast<std::uint32_t>(5000 + generator() % 3000);
        const auto dtype = static_cast<proto::Dtype>(generator() % 3);
        Workspace workspace(vocab);
        fill_lm_row(lm_case, vocab, dtype, generator);
        lm_case.shape =
            lm_shape(vocab, 1 + static_cast<std::uint32_t>(generator() % 4), kBlock, dtype, generator);
        lm_case.order_seed = generator();
        for (int i = 0; i < 4; ++i) {
            fill_lm_request(lm_case, generator);
            INFO("case " << number << " and " << i);
            check_lies(lm_case, workspace, generator);
        }
    }
}

}  // namespace croupier::sampler::test
