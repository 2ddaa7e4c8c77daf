#include "testing/small_engine.h"

#include <bit>
#include <catch2/catch.hpp>
#include <span>
#include <stdexcept>

#include "client/abi_fields.h"
#include "proto/hot_set.h"
#include "proto/philox.h"
#include "sampler/row_mass.h"
#include "shm/segment.h"
#include "testing/daemon_process.h"
#include "testing/session_files.h"

namespace croupier::testing {
namespace {

std::uint64_t mixed(std::uint64_t uid, std::uint32_t position) {
    return uid * 0x9E3779B97F4A7C15ULL + position * 0xBF58476D1CE4E5B9ULL + 1;
}

const char* text_or_null(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
}

}  // namespace

SmallEngine::SmallEngine(const std::string& endpoint, const std::string& name, const EngineShape& shape,
                         std::uint32_t timeout_ms)
    : shape_(shape) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.endpoint = endpoint.c_str();
    options.name = name.c_str();
    options.vocab = shape.vocab;
    options.padded_vocab = shape.padded_vocab;
    options.shard_ids = shape.shard_ids.empty() ? nullptr : shape.shard_ids.data();
    options.tp = shape.tp;
    options.max_batch = shape.batch;
    options.steps_in_flight = shape.steps_in_flight;
    options.tile = shape.tile;
    options.max_sequences = shape.max_sequences;
    options.max_length = shape.max_length;
    options.mask_rows = shape.masked ? shape.batch : 0;
    options.randoms_supplied = shape.randoms_supplied ? 1 : 0;
    options.summaries = shape.summaries ? 1 : 0;
    if (shape.lean) options.transport = CROUPIER_TRANSPORT_LEAN;
    options.max_logprobs = shape.max_logprobs;
    options.max_support = shape.max_support;
    options.takeover = shape.takeover ? 1 : 0;
    options.resume = shape.resume ? 1 : 0;
    options.decisions_over_zmq = shape.decisions_over_zmq ? 1 : 0;
    options.order = shape.order.empty() ? nullptr : shape.order.data();
    options.timeout_ms = timeout_ms;
    options.server_key = text_or_null(shape.server_key);
    options.client_public_key = text_or_null(shape.client_public_key);
    options.client_secret_key = text_or_null(shape.client_secret_key);
    geometry_ = client::geometry_from_abi(options);
    const TokenizerFile tokenizer(tiktoken_file(shape.pieces));
    if (!shape.pieces.empty()) options.tokenizer = tokenizer.path().c_str();
    session_ = std::make_unique<client::Session>(options);
    attach_writers();
    for (const auto uid : session_->live()) {
        asked_[uid] = sequence(uid, shape.vocab);
        streams_[uid] = session_->output(uid);
    }
}

void SmallEngine::attach_writers() {
    writers_.clear();
    for (std::uint32_t rank = 0; rank < shape_.tp; ++rank) {
        auto writer = gpu_writer::RankWriter::attach(session_->segment_path(), rank);
        if (!writer) throw std::runtime_error(writer.error().message);
        writers_.push_back(std::make_unique<gpu_writer::RankWriter>(std::move(writer).value()));
    }
}

std::vector<float> SmallEngine::row(std::uint32_t vocab, std::uint64_t uid, std::uint32_t position) {
    std::vector<float> values(vocab);
    std::uint64_t state = mixed(uid, position);
    for (auto& value : values) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const float wide = static_cast<float>(state >> 40U) / 1048576.0F - 8.0F;
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(wide) & 0xFFFF0000U);
    }
    return values;
}

std::vector<std::uint32_t> SmallEngine::mask(std::uint32_t vocab, std::uint64_t uid, std::uint32_t position) {
    std::vector<std::uint32_t> words((vocab + 31) / 32);
    std::uint64_t state = ~mixed(uid, position);
    // Of some ids nothing is allowed, as grammars have it: every third region, which is some blocks. Not of
    // small vocabularies, where that may be all ids of a request's list.
    constexpr std::size_t kRegion = 8;
    const bool hides = words.size() > kRegion * 16;
    for (std::size_t i = 0; i < words.size(); ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const bool hidden = hides && i / kRegion % 3 == (uid + position) % 3;
        words[i] = hidden ? 0 : static_cast<std::uint32_t>(state >> 32U);
    }
    return words;
}

client::Sequence SmallEngine::sequence(std::uint64_t uid, std::uint32_t vocab) {
    client::Sequence made;
    made.uid = uid;
    for (std::uint32_t i = 0; i < 5 + uid % 7; ++i) {
        made.prompt.push_back(static_cast<std::int32_t>((uid * 31 + std::uint64_t{i} * 17) % vocab));
    }
    made.params.seed = uid * 1000 + 7;
    made.params.temperature = uid % 4 == 0 ? 0.0 : 0.5 + 0.25 * static_cast<double>(uid % 4);
    if (uid % 3 == 1) made.params.top_k = 20;
    if (uid % 3 == 2) made.params.top_p = 0.9;
    if (uid % 2 == 1) {
        made.params.repetition_penalty = 1.2;
        made.params.frequency_penalty = 0.3;
        made.params.presence_penalty = 0.2;
        made.bias.push_back({static_cast<std::int32_t>(uid % vocab), 2.5F});
    }
    return made;
}

client::Sequence SmallEngine::with_state(std::uint64_t uid, std::uint32_t vocab) {
    client::Sequence made = sequence(uid, vocab);
    made.params.temperature = 0.9;
    if (uid % 5 == 0) {
        made.params.top_k = 0;
        made.params.top_p = 1.0;
        made.params.mirostat = uid % 2 == 0 ? 1 : 2;
    }
    if (uid % 5 == 1) made.params.dry_multiplier = 0.8;
    if (uid % 5 == 2) made.params.penalty_last_n = 24;
    if (uid % 5 == 3) made.params.adaptive_target = 0.4;
    made.params.frequency_penalty = 0.4;
    return made;
}

void SmallEngine::admit(std::uint32_t count) {
    for (std::uint64_t uid = 1; uid <= count; ++uid) {
        client::Sequence made = sequence(uid, shape_.vocab);
        made.params.rng = shape_.rng;
        admit(made);
    }
}

void SmallEngine::admit(const client::Sequence& sequence) {
    session_->add(sequence);
    asked_[sequence.uid] = sequence;
    streams_[sequence.uid] = sequence.output;
    feedback_[sequence.uid].assign(sequence.output.size() + 1, {});
    submitted_[sequence.uid] = static_cast<std::uint32_t>(sequence.output.size());
}

std::uint64_t SmallEngine::submit() {
    std::vector<croupier_column> columns;
    std::vector<std::vector<std::uint32_t>> masks;
    for (const auto& [uid, asked] : asked_) {
        if (shape_.masked) masks.push_back(mask(shape_.vocab, uid, submitted_[uid]++));
        columns.push_back({uid, shape_.masked ? masks.back().data() : nullptr, 1, 0});
    }
    const std::uint64_t step = session_->submit(columns);
    next_step_ = step + 1;
    return step;
}

void SmallEngine::truncate(std::uint64_t uid, std::uint32_t outputs) {
    session_->truncate(uid, outputs);
    streams_[uid].resize(outputs);
    keep_feedback(uid, outputs);
    submitted_[uid] = outputs;
    expect_void(uid);
}

void SmallEngine::append(std::uint64_t uid, const std::vector<std::int32_t>& tokens) {
    session_->append(uid, tokens);
    std::vector<std::int32_t>& stream = streams_[uid];
    stream.insert(stream.end(), tokens.begin(), tokens.end());
    feedback_[uid].resize(stream.size() + 1);
    submitted_[uid] += static_cast<std::uint32_t>(tokens.size());
}

void SmallEngine::keep_feedback(std::uint64_t uid, std::uint32_t outputs) {
    std::vector<proto::Feedback>& left = feedback_[uid];
    const std::size_t present = left.size() - 1;
    const std::size_t forgotten = present - std::min<std::size_t>(present, proto::kFeedbackReach);
    std::fill_n(left.begin(), forgotten, proto::Feedback{});
    left.resize(outputs + std::size_t{1});
}

void SmallEngine::fork(std::uint64_t parent, std::uint64_t uid, std::uint32_t outputs, std::uint32_t child) {
    session_->fork(parent, uid, outputs, child);
    client::Sequence forked = asked_.at(parent);
    forked.uid = uid;
    forked.params.child = child;
    asked_[uid] = forked;
    streams_[uid] = streams_.at(parent);
    streams_[uid].resize(outputs);
    feedback_[uid] = feedback_.at(parent);
    keep_feedback(uid, outputs);
    submitted_[uid] = outputs;
}

std::vector<std::uint32_t> SmallEngine::hot_blocks() const {
    const std::size_t blocks = std::min<std::size_t>((shape_.hot_size + 63) / 64, shape_.order.size());
    return {shape_.order.begin(), shape_.order.begin() + static_cast<std::ptrdiff_t>(blocks)};
}

std::uint32_t SmallEngine::random(std::uint64_t uid, std::uint32_t position) const {
    if (shape_.randoms_supplied) return static_cast<std::uint32_t>(mixed(uid, position) >> 13U);
    const client::Sequence& asked = asked_.at(uid);
    const auto index = static_cast<std::uint32_t>(asked.prompt.size()) + position;
    return proto::random_at(asked.params.seed, index, asked.params.child, 0);
}

std::vector<std::vector<std::uint16_t>> SmallEngine::rows_of(const gpu_writer::RankWriter& writer,
                                                             std::uint64_t step) const {
    std::vector<std::vector<std::uint16_t>> rows;
    const proto::RankShard& shard = geometry_.shards[writer.rank()];
    for (const proto::ScheduleColumn asked : writer.columns(step))
        rows.push_back(bf16_row(asked, shape_.vocab, shard.first_id, shard.count));
    return rows;
}

void SmallEngine::write_slices(gpu_writer::RankWriter& writer, std::uint64_t step) const {
    const auto rows = rows_of(writer, step);
    for (std::uint32_t column = 0; column < rows.size(); ++column)
        writer.write_column(step, column, rows[column].data());
}

void SmallEngine::write_randoms(gpu_writer::RankWriter& writer, std::uint64_t step) {
    const auto columns = writer.columns(step);
    for (std::uint32_t column = 0; column < columns.size(); ++column) {
        const proto::ScheduleColumn asked = columns[column];
        writer.randoms(step)[column].stream[0] = random(asked.sequence_uid, asked.position);
    }
    need(writer.publish_randoms(step));
}

void SmallEngine::write_whole(gpu_writer::RankWriter& writer, std::uint64_t step) {
    if (shape_.randoms_supplied && writer.rank() == 0) write_randoms(writer, step);
    if (!writer.geometry().is_lean()) {
        write_slices(writer, step);
        need(writer.publish_all(step));
        return;
    }
    const auto rows = rows_of(writer, step);
    std::vector<const void*> pointers;
    pointers.reserve(rows.size());
    for (const auto& row : rows) pointers.push_back(row.data());
    need(writer.send(step, pointers));
}

void SmallEngine::write(std::uint64_t step) {
    for (auto& writer : writers_) write_whole(*writer, step);
}

void SmallEngine::write_if_wanted() {
    for (auto& writer : writers_) {
        while (const auto step = writer->wait_step(std::chrono::milliseconds(0))) write_whole(*writer, *step);
    }
}

void SmallEngine::write() {
    std::vector<std::uint64_t> written;
    for (auto& writer : writers_) {
        const auto step = writer->wait_step(std::chrono::seconds(20));
        if (!step) throw std::runtime_error("no step wants logits");
        if (!shape_.halves) {
            write_whole(*writer, *step);
            continue;
        }
        write_slices(*writer, *step);
        if (shape_.randoms_supplied && writer->rank() == 0) write_randoms(*writer, *step);
        need(writer->publish(*step, writer->geometry().tiles(writer->rank()) / 2));
        written.push_back(*step);
    }
    for (std::size_t rank = 0; rank < written.size(); ++rank)
        need(writers_[rank]->publish_all(written[rank]));
}

sampler::reference::Outcome SmallEngine::expected(std::uint64_t uid) const {
    const client::Sequence& asked = asked_.at(uid);
    const auto& output = streams_.at(uid);
    const auto position = static_cast<std::uint32_t>(output.size());
    const auto values = row(shape_.vocab, uid, position);
    // One rank, whatever the session has: neither they nor an order change a token.
    const sampler::Slice slice{values.data(), shape_.vocab, 0};
    const sampler::RowView view{proto::Dtype::fp32, shape_.vocab, 1, 1, 0, {&slice, 1}};
    proto::SamplingParams params = client::params_from_abi(asked.params);
    if (shape_.hot_size > 0) params.rng = proto::rng_with_hot_set(params.rng);
    std::vector<proto::TokenBias> bias;
    bias.reserve(asked.bias.size());
    for (const auto& entry : asked.bias) bias.push_back({entry.token, entry.bias});
    std::vector<std::uint32_t> allowed;
    if (shape_.masked) allowed = mask(shape_.vocab, uid, position);
    sampler::Request request;
    request.params = &params;
    request.bias = bias;
    request.stop_ids = asked.stop_ids;
    request.allowed_ids = asked.allowed_ids;
    request.bad_words = asked.bad_words;
    request.dry_breakers = asked.dry_breakers;
    request.prompt = asked.prompt;
    request.output = output;
    request.mask = allowed;
    const auto hot = hot_blocks();
    request.hot_blocks = hot;
    request.max_length = shape_.max_length;
    request.random = random(uid, position);
    // Of a sequence that another engine began, nothing is known of it.
    const auto feedback = feedback_.find(uid);
    if (feedback != feedback_.end()) request.feedback = feedback->second.at(position);
    return sampler::reference::decide(view, request);
}

bool SmallEngine::counted(std::uint64_t columns) const {
    const auto segment = shm::Segment::attach(segment_path(), shm::Access::read_only);
    auto& counter = segment.value().header().counter(proto::SessionCounter::columns_decided);
    return eventually([&] { return counter.load() == columns; });
}

namespace {

// `expected`: the drawn token's own, then the best; empty: none were asked for.
void check_best(const client::Decisions& all, const croupier_decision& decision,
                const std::vector<sampler::RankedLogprob>& expected) {
    const auto best = all.best(decision);
    REQUIRE(best.size() + 1 == std::max<std::size_t>(expected.size(), 1));
    CHECK(decision.rank == (expected.empty() ? 0 : expected[0].rank));
    for (std::size_t i = 0; i < best.size(); ++i) {
        CHECK(best[i].token == expected[i + 1].token);
        CHECK(best[i].rank == expected[i + 1].rank);
        CHECK(sampler::logprobs_agree(best[i].logprob, expected[i + 1].logprob));
    }
}

void check_support(const client::Decisions& all, const croupier_decision& decision,
                   const sampler::reference::Outcome& expected) {
    const auto support = all.support(decision);
    REQUIRE(support.size() == expected.support.size());
    CHECK(decision.support_total == expected.support_total);
    CHECK(((decision.flags & CROUPIER_SUPPORT_CUT) != 0) == (expected.support_total > support.size()));
    for (std::size_t i = 0; i < support.size(); ++i) {
        CHECK(support[i].token == expected.support[i].token);
        CHECK(support[i].probability == expected.support[i].probability);
    }
}

}  // namespace

void SmallEngine::collect_columns(std::size_t columns) {
    const auto step = session_->wait(20000);
    REQUIRE(step);
    CHECK(step->decisions.size() == columns);
    check(*step);
}

bool SmallEngine::collect_one() {
    const auto step = session_->wait(0);
    if (step) check(*step);
    return step.has_value();
}

void SmallEngine::expect_text(croupier_decision decision, proto::Decision& wanted) const {
    if (wanted.error != proto::DecisionError::none) return;
    const client::Sequence& asked = asked_.at(decision.uid);
    std::vector<std::int32_t> output = streams_.at(decision.uid);
    output.push_back(wanted.token);
    const ReferenceText text =
        reference_text(shape_.pieces, rules_of(asked), unfinished_of(shape_.pieces, asked.prompt), output,
                       other_end(wanted.flags));
    if (text.stop) {
        wanted.flags |= text.stop->flag;
        CHECK(decision.stop_string == text.stop->stop_string);
        CHECK(decision.stop_begin == text.stop->begin);
    }
    CHECK(decision.text_bytes == text.released.size());
    CHECK(session_->text(decision.uid) == text.released);
}

void SmallEngine::check(const client::Step& step) {
    REQUIRE(step.refused == 0);
    for (const auto& decision : step.decisions) {
        INFO("sequence " << decision.uid << " at position " << decision.output_index);
        if (step.step < void_below_[decision.uid]) {
            CHECK(decision.error == CROUPIER_DECISION_VOID);
            CHECK(decision.token == -1);
            continue;
        }
        if (const auto error = errors_.find(decision.uid); error != errors_.end()) {
            CHECK(decision.error == static_cast<std::uint16_t>(error->second));
            CHECK(decision.token == -1);
            CHECK(decision.output_index == streams_.at(decision.uid).size());
            continue;
        }
        const auto outcome = expected(decision.uid);
        proto::Decision wanted = outcome.decision;
        if (!shape_.pieces.empty()) expect_text(decision, wanted);
        CHECK(decision.error == static_cast<std::uint16_t>(wanted.error));
        CHECK(decision.token == wanted.token);
        CHECK(decision.output_index == wanted.position);
        CHECK((decision.flags & ~CROUPIER_SUPPORT_CUT) == wanted.flags);
        CHECK(sampler::logprobs_agree(decision.logprob, wanted.logprob));
        check_best(step.decisions, decision, outcome.logprobs);
        check_support(step.decisions, decision, outcome);
        streams_[decision.uid].push_back(decision.token);
        decisions_[decision.uid].push_back(decision);
        if (feedback_.contains(decision.uid)) feedback_[decision.uid].push_back(outcome.feedback);
    }
}

std::vector<std::uint16_t> bf16_row(const proto::ScheduleColumn& column, std::uint32_t vocab,
                                    std::uint32_t first_id, std::uint32_t ids) {
    constexpr std::uint16_t kNoNumber = 0x7FC0;
    const auto values = SmallEngine::row(vocab, column.sequence_uid, column.position);
    std::vector<std::uint16_t> row(ids, kNoNumber);
    for (std::uint32_t i = 0; i < ids && first_id + i < vocab; ++i)
        row[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(values[first_id + i]) >> 16U);
    return row;
}

}  // namespace croupier::testing
