#include "tests/daemon/raw_engine.h"

#include <catch2/catch.hpp>

#include "tests/daemon/control_peer.h"

namespace croupier::testing {

using proto::DecisionError;

namespace {

std::string open_segment(const std::string& endpoint, const std::string& name, bool summaries) {
    flatbuffers::FlatBufferBuilder builder;
    wire::finish(builder, 1,
                 wire::CreateOpenDirect(builder, name.c_str(), kVocab, 1, 8, 2,
                                        static_cast<std::uint32_t>(proto::Dtype::fp32), 64, 8, 64, 4, 4, 2,
                                        nullptr, nullptr, false, false, 8, summaries));
    ControlPeer peer(endpoint);
    peer.send(builder);
    const wire::Message* answer = peer.receive();
    REQUIRE(answer != nullptr);
    REQUIRE(answer->body_as_SessionInfo() != nullptr);
    return answer->body_as_SessionInfo()->segment_path()->str();
}

}  // namespace

RawEngine::RawEngine(const std::string& endpoint, const std::string& name, bool summaries)
    : segment_(
          shm::Segment::attach(open_segment(endpoint, name, summaries), shm::Access::read_write).value()),
      publisher_(shm::SchedulePublisher::attach(segment_).value()),
      writer_(gpu_writer::RankWriter::attach(segment_.path(), 0).value()),
      table_(segment_) {
    const std::vector<std::int32_t> prompt = {1, 2, 3};
    const std::vector<proto::TokenBias> bias = {{7, 1.0F}};
    const std::vector<std::int32_t> stops = {9};
    const std::vector<std::int32_t> words = {1, 20};
    const std::vector<std::int32_t> breakers = {1, 30};
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        shm::NewSequence sequence;
        sequence.uid = 11 + column;
        sequence.params.temperature = 0;
        sequence.params.repetition_penalty = 1.1;
        sequence.prompt = prompt;
        sequence.output = {};
        sequence.bias = bias;
        sequence.stop_ids = stops;
        sequence.bad_words = words;
        sequence.dry_breakers = breakers;
        proto::ScheduleColumn asked;
        asked.sequence_uid = sequence.uid;
        asked.sequence_slot = table_.add(sequence).value();
        columns_.push_back(asked);
        rows_.emplace_back(kVocab, 0.0F);
        rows_.back()[50 + column] = 10.0F;
    }
}

void RawEngine::publish() {
    for (auto& asked : columns_) {
        asked.mask_row = 0;
        asked.revision = segment_.sequence(asked.sequence_slot).revision(std::memory_order_relaxed).number;
    }
    slot_ = segment_.slot_of(publisher_.publish(columns_).value());
}

void RawEngine::lay_rows() {
    written_ = writer_.wait_step(std::chrono::seconds(20)).value();
    const auto count = static_cast<std::uint32_t>(writer_.columns(written_).size());
    for (std::uint32_t i = 0; i < count; ++i) writer_.write_column(written_, i, rows_[i % kColumns].data());
}

void RawEngine::announce_rows() {
    REQUIRE(writer_.publish_all(written_));
}

bool RawEngine::complete() const {
    return eventually([&] { return publisher_.next_complete(); });
}

std::vector<proto::Decision> RawEngine::take() {
    REQUIRE(complete());
    const auto decided = publisher_.next_decisions();
    std::vector<proto::Decision> copy;
    for (const proto::Decision decision : decided) copy.push_back(decision);
    publisher_.take();
    for (std::uint32_t i = 0; i < kColumns; ++i) {
        if (i < copy.size() && copy[i].error == DecisionError::none) ++columns_[i].position;
    }
    return copy;
}

DecisionError RawEngine::refusal() const {
    DecisionError seen = DecisionError::none;
    eventually([&] { return (seen = publisher_.next_refusal()) != DecisionError::none; });
    return seen;
}

void Stage::check(const Lie& lie) {
    INFO(lie.about);
    RawEngine engine = fresh();
    engine.publish();
    lie.tell(engine);
    engine.write();
    const auto decisions = engine.take();
    REQUIRE(decisions.size() == kColumns);
    for (std::uint32_t column = 0; column < kColumns; ++column) {
        INFO("column " << column);
        CHECK(decisions[column].error == (column == kVictim ? lie.answer : DecisionError::none));
        CHECK(decisions[column].token == (column == kVictim ? -1 : static_cast<int>(50 + column)));
    }
}

void Stage::check_neighbour() {
    neighbour_.steps(2);
    CHECK(daemon_.sampler_restarts() == 0);
}

}  // namespace croupier::testing
