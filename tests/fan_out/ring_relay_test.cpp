// The relay's half, record by record: what it carries out, and what it refuses.
#include "client/ring_relay.h"

#include <poll.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "client/record_messages.h"
#include "croupier/client.hpp"
#include "proto/segment_header.h"
#include "shm/step_claims.h"
#include "testing/session_files.h"

using namespace croupier;
using Catch::Contains;
using client::AnswerBytes;
using client::RingRelay;
using flatbuffers::FlatBufferBuilder;
using testing::SessionFiles;

namespace {

constexpr std::uint64_t kFirst = 1000;

template <typename Make>
AnswerBytes record(std::uint64_t number, Make&& make) {
    FlatBufferBuilder builder;
    wire::finish(builder, number, make(builder));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

AnswerBytes attach_record(std::uint64_t session = 1, const char* name = "session",
                          std::uint32_t version = proto::kSegmentVersion) {
    return record(kFirst, [&](FlatBufferBuilder& builder) {
        return wire::CreateAttachSessionDirect(builder, session, name, version, false);
    });
}

croupier_sequence plain_sequence(std::uint64_t uid) {
    static const std::vector<std::int32_t> prompt = {1, 2, 3};
    static const client::Params params;
    croupier_sequence sequence;
    croupier_sequence_init(&sequence);
    sequence.uid = uid;
    sequence.params = &params;
    sequence.prompt = prompt.data();
    sequence.prompt_count = prompt.size();
    return sequence;
}

AnswerBytes add_record(std::uint64_t number, const croupier_sequence& sequence) {
    return record(number, [&](FlatBufferBuilder& builder) { return client::add_message(builder, sequence); });
}

AnswerBytes submit_record(std::uint64_t number, std::uint64_t step, std::vector<croupier_column> columns) {
    return record(number, [&](FlatBufferBuilder& builder) {
        return client::submit_message(builder, step, columns, 1000);
    });
}

AnswerBytes take_record(std::uint64_t number, std::uint64_t taken) {
    return record(number, [&](FlatBufferBuilder& builder) { return wire::CreateTakeSteps(builder, taken); });
}

AnswerBytes give_up_record(std::uint64_t number, std::uint64_t step) {
    return record(number, [&](FlatBufferBuilder& builder) { return wire::CreateGiveUpStep(builder, step); });
}

AnswerBytes finish_record(std::uint64_t number, std::uint64_t uid) {
    return record(number,
                  [&](FlatBufferBuilder& builder) { return wire::CreateFinishSequence(builder, uid); });
}

AnswerBytes detach_record(std::uint64_t number) {
    return record(number, [](FlatBufferBuilder& builder) { return wire::CreateDetachSession(builder); });
}

const wire::Message& parsed(const AnswerBytes& bytes) {
    const auto message = wire::parse(bytes.data(), bytes.size());
    if (const auto* fault = std::get_if<wire::WireFault>(&message)) throw std::runtime_error(fault->message);
    return *std::get<const wire::Message*>(message);
}

std::string refusal_of(const std::optional<AnswerBytes>& answer) {
    if (!answer) return "nothing was answered";
    const auto* refusal = parsed(*answer).body_as_Refusal();
    return refusal == nullptr ? "the answer is no refusal" : refusal->message()->str();
}

std::string path_in(const SessionFiles& files) {
    return shm::segment_path(files.directory.path(), "test", 1);
}

// A relay that has attached, and added sequences 1 and 2.
struct Attached {
    explicit Attached(proto::Geometry geometry = testing::small_geometry()) : files(geometry) {
        relay.allow(1, path_in(files));
        const auto answer = relay.apply(attach_record());
        REQUIRE(answer);
        REQUIRE(parsed(*answer).body_as_SessionAttached() != nullptr);
        REQUIRE_FALSE(relay.apply(add_record(kFirst + 1, plain_sequence(1))));
        REQUIRE_FALSE(relay.apply(add_record(kFirst + 2, plain_sequence(2))));
    }

    SessionFiles files;
    RingRelay relay;
};

proto::Geometry masked_geometry() {
    proto::Geometry geometry = testing::small_geometry();
    geometry.mask_rows = 2;
    return geometry;
}

}  // namespace

TEST_CASE("a sequence's record holds all of it") {
    SessionFiles files(testing::small_geometry());
    RingRelay relay;
    relay.allow(1, path_in(files));
    REQUIRE(relay.apply(attach_record()));
    const std::vector<std::int32_t> output = {4, 5};
    const std::vector<std::int32_t> stops = {6, 7};
    const std::vector<std::int32_t> words = {2, 8, 9};
    const std::vector<croupier_bias> bias = {{10, 1.5F}};
    croupier_sequence sequence = plain_sequence(7);
    client::Params params;
    params.seed = 99;
    params.top_p = 0.75;
    params.order[0] = CROUPIER_ORDER_TOP_K;
    sequence.params = &params;
    sequence.output = output.data();
    sequence.output_count = output.size();
    sequence.stop_ids = stops.data();
    sequence.stop_count = stops.size();
    sequence.bad_words = words.data();
    sequence.bad_words_count = words.size();
    sequence.bias = bias.data();
    sequence.bias_count = bias.size();
    REQUIRE_FALSE(relay.apply(add_record(kFirst + 1, sequence)));
    const shm::SequenceTable table(files.segment);
    const auto live = table.live();
    REQUIRE(live.size() == 1);
    const proto::SequenceEntry& entry = files.segment.sequence(live[0].slot);
    CHECK(entry.uid == 7);
    CHECK(files.segment.params(live[0].slot).load().seed == 99);
    CHECK(files.segment.params(live[0].slot).load().top_p == 0.75);
    CHECK(files.segment.params(live[0].slot).load().order[0] == proto::Step::top_k);
    CHECK(std::vector(live[0].prompt.begin(), live[0].prompt.end()) == std::vector<std::int32_t>{1, 2, 3});
    CHECK(std::vector(live[0].output.begin(), live[0].output.end()) == output);
    CHECK(entry.stop_count == 2);
    CHECK(files.segment.stop_ids(live[0].slot)[1] == 7);
    CHECK(entry.bad_words_count == 3);
    CHECK(files.segment.lists(live[0].slot)[2] == 9);
    CHECK(files.segment.biases(live[0].slot)[0].bias == 1.5F);
}

TEST_CASE("a step's record becomes a step of the ring, masks and all") {
    Attached attached(masked_geometry());
    std::vector<std::uint32_t> mask(client::mask_words(1000));
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = static_cast<std::uint32_t>(i * 7 + 1);
    REQUIRE_FALSE(
        attached.relay.apply(submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}, {2, mask.data(), 1, 0}})));
    shm::Segment& segment = attached.files.segment;
    CHECK(segment.header().published == 1);
    CHECK(segment.schedule(0).columns == 2);
    CHECK(segment.schedule_columns(0)[0].load().sequence_uid == 1);
    CHECK(segment.schedule_columns(0)[0].load().mask_row == 0);
    CHECK(segment.schedule_columns(0)[1].load().mask_row == 1);
    CHECK(std::equal(mask.begin(), mask.end(), segment.mask_row(0, 0)));
}

TEST_CASE("a scheduler that attaches again is told what is live and what is in flight") {
    Attached attached;
    REQUIRE_FALSE(attached.relay.apply(submit_record(kFirst + 3, 0, {{2, nullptr, 1, 0}})));
    const auto answer = attached.relay.apply(attach_record());
    REQUIRE(answer);
    const auto* session = parsed(*answer).body_as_SessionAttached();
    REQUIRE(session != nullptr);
    proto::Geometry geometry;
    REQUIRE_FALSE(client::read_geometry(session->geometry(), geometry));
    CHECK(geometry == testing::small_geometry());
    CHECK(session->taken() == 0);
    REQUIRE(session->steps()->size() == 1);
    REQUIRE(session->steps()->Get(0)->uids()->size() == 1);
    CHECK(session->steps()->Get(0)->uids()->Get(0) == 2);
    CHECK(session->sequences()->size() == 2);
}

TEST_CASE("records that cannot be carried out are refused by name, and the ring stays as it was") {
    struct BadRecord {
        const char* says;
        std::function<AnswerBytes()> make;
    };
    const auto bad = GENERATE(values<BadRecord>({
        {"a record is none", [] { return AnswerBytes(40); }},
        {"a record is none",
         [] {
             AnswerBytes cut = submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}});
             cut.resize(cut.size() / 2);
             return cut;
         }},
        {"record 1004 came after record 1002",
         [] {
             return submit_record(kFirst + 4, 0, {{1, nullptr, 1, 0}});
         }},
        {"record 1002 came after record 1002",
         [] {
             return submit_record(kFirst + 2, 0, {{1, nullptr, 1, 0}});
         }},
        {"step 1 was submitted where step 0 was due",
         [] {
             return submit_record(kFirst + 3, 1, {{1, nullptr, 1, 0}});
         }},
        {"sequence 9 is not live",
         [] {
             return submit_record(kFirst + 3, 0, {{9, nullptr, 1, 0}});
         }},
        {"sequence 1 stands in two columns",
         [] {
             return submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}, {1, nullptr, 1, 0}});
         }},
        {"a step has 1 to 8 columns", [] { return submit_record(kFirst + 3, 0, {}); }},
        {"the masks of the record have 0 words, its masked columns need 32",
         [] {
             return record(kFirst + 3, [](FlatBufferBuilder& builder) {
                 const std::vector<wire::ColumnEntry> columns = {{1, 1, 1}};
                 return wire::CreateSubmitStepDirect(builder, 0, &columns);
             });
         }},
        {"sequence 1 is live already", [] { return add_record(kFirst + 3, plain_sequence(1)); }},
        {"temperature",
         [] {
             croupier_sequence sequence = plain_sequence(3);
             client::Params params;
             params.temperature = -1;
             sequence.params = &params;
             return add_record(kFirst + 3, sequence);
         }},
        {"the parameters of the record have 5 bytes",
         [] {
             return record(kFirst + 3, [](FlatBufferBuilder& builder) {
                 const std::vector<std::uint8_t> params(5);
                 return wire::CreateAddSequenceDirect(builder, 3, &params);
             });
         }},
        {"sequence 9 is not live", [] { return finish_record(kFirst + 3, 9); }},
        {"a Open is no record",
         [] {
             return record(kFirst + 3,
                           [](FlatBufferBuilder& builder) { return wire::CreateOpenDirect(builder, "x"); });
         }},
    }));
    Attached attached;
    CHECK_THAT(refusal_of(attached.relay.apply(bad.make())), Contains(bad.says));
    CHECK(attached.files.segment.header().published == 0);
    CHECK(shm::SequenceTable(attached.files.segment).live().size() == 2);
    const auto news = attached.relay.take_news();
    REQUIRE_FALSE(news.empty());
    CHECK(news.back().kind == client::RelayNews::Kind::refused);
    CHECK_THAT(news.back().text, Contains(bad.says));
}

TEST_CASE("the farewell of an earlier session over the channel does not end or disturb the present one") {
    Attached attached;
    for (const std::uint64_t earlier : {std::uint64_t{7}, kFirst, kFirst + 2, kFirst + 4}) {
        INFO("record " << earlier);
        CHECK_FALSE(attached.relay.apply(detach_record(earlier)));
        CHECK(attached.relay.attached());
    }
    CHECK_FALSE(attached.relay.apply(add_record(kFirst + 3, plain_sequence(3))));
    CHECK_FALSE(attached.relay.apply(detach_record(kFirst + 4)));
    CHECK_FALSE(attached.relay.attached());
    CHECK_FALSE(attached.relay.apply(detach_record(7)));
}

TEST_CASE("a record of an earlier session over the channel is refused under its own number") {
    Attached attached;
    const auto answer = attached.relay.apply(add_record(7, plain_sequence(3)));
    CHECK_THAT(refusal_of(answer), Contains("record 7 came after record 1002"));
    CHECK(parsed(*answer).request() == 7);
    CHECK_FALSE(attached.relay.apply(add_record(kFirst + 3, plain_sequence(3))));
}

TEST_CASE("every byte of a record may be damaged: the relay carries it out, or refuses it, and lives") {
    Attached attached;
    const AnswerBytes sound = add_record(kFirst + 3, plain_sequence(3));
    for (std::size_t i = 0; i < sound.size(); ++i) {
        AnswerBytes damaged = sound;
        damaged[i] ^= 0x41U;
        (void)attached.relay.apply(damaged);
        const auto again = attached.relay.apply(attach_record());
        REQUIRE(again);
        REQUIRE(parsed(*again).body_as_SessionAttached() != nullptr);
        (void)attached.relay.apply(record(
            kFirst + 1, [](FlatBufferBuilder& builder) { return wire::CreateFinishSequence(builder, 3); }));
    }
}

TEST_CASE("a step is taken when it is decided, and not before") {
    Attached attached;
    REQUIRE_FALSE(attached.relay.apply(submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}})));
    CHECK_THAT(refusal_of(attached.relay.apply(take_record(kFirst + 4, 1))),
               Contains("step 0 is to be taken, and is not decided"));
    CHECK(attached.files.segment.header().taken == 0);
    attached.files.segment.committed(0)[0].store(1);
    CHECK_FALSE(attached.relay.apply(take_record(kFirst + 5, 1)));
    CHECK(attached.files.segment.header().taken == 1);
    CHECK_FALSE(attached.relay.apply(finish_record(kFirst + 6, 1)));
}

TEST_CASE("a relay attaches to the session that was opened through it, of its own version, and to no other") {
    SessionFiles files(testing::small_geometry());
    RingRelay relay;
    relay.allow(1, path_in(files));
    CHECK_THAT(refusal_of(relay.apply(attach_record(2))),
               Contains("session 2 was not opened through this relay"));
    CHECK_THAT(refusal_of(RingRelay().apply(attach_record(0))),
               Contains("session 0 was not opened through this relay"));
    relay.allow(2, path_in(files));
    CHECK_THAT(refusal_of(relay.apply(attach_record(2))), Contains("is session 1, not 2"));
    relay.allow(1, path_in(files));
    CHECK_THAT(refusal_of(relay.apply(attach_record(1, "session", 3))),
               Contains("the scheduler is of segment version 3, the relay of"));
    CHECK_FALSE(relay.attached());
    CHECK_FALSE(files.segment.is_held(shm::Role::client));
    CHECK_THAT(refusal_of(relay.apply(finish_record(kFirst, 1))), Contains("the relay holds no session"));
    REQUIRE(relay.apply(attach_record()));
    CHECK(files.segment.is_held(shm::Role::client));
    CHECK_FALSE(relay.apply(
        record(kFirst + 1, [](FlatBufferBuilder& builder) { return wire::CreateDetachSession(builder); })));
    CHECK_FALSE(files.segment.is_held(shm::Role::client));
}

TEST_CASE("what becomes of the daemon and the session is told once") {
    Attached attached;
    const auto first = attached.relay.news();
    REQUIRE(first);
    REQUIRE(parsed(*first).body_as_DaemonSeen() != nullptr);
    CHECK(parsed(*first).body_as_DaemonSeen()->alive());
    CHECK_FALSE(attached.relay.news());
    attached.files.segment.header().state = proto::SessionState::closed;
    CHECK_THAT(refusal_of(attached.relay.news()), Contains("is closed"));
    CHECK_FALSE(attached.relay.attached());
    CHECK_FALSE(attached.relay.news());
}

TEST_CASE("decided steps are returned in order, each once, and again to a scheduler that attaches anew") {
    Attached attached;
    RingRelay& relay = attached.relay;
    REQUIRE(relay.news());  // the daemon is alive
    REQUIRE_FALSE(relay.apply(submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}})));
    REQUIRE_FALSE(relay.apply(submit_record(kFirst + 4, 1, {{2, nullptr, 1, 0}})));
    shm::Segment& segment = attached.files.segment;
    CHECK_FALSE(relay.news());
    const auto decide = [&](std::uint32_t slot, std::uint64_t uid, std::int32_t token) {
        proto::Decision decision;
        decision.sequence_uid = uid;
        decision.token = token;
        segment.decisions(slot)[0].store(decision);
        segment.committed(slot)[0].store(1);
    };
    const auto check_next = [&](std::uint64_t step, std::uint64_t uid, std::int32_t token) {
        const auto news = relay.news();
        REQUIRE(news);
        const auto* decided = parsed(*news).body_as_StepDecisions();
        REQUIRE(decided != nullptr);
        CHECK(decided->session_id() == 1);
        CHECK(decided->step() == step);
        REQUIRE(decided->decisions()->size() == 1);
        CHECK(decided->decisions()->Get(0)->sequence_uid() == uid);
        CHECK(decided->decisions()->Get(0)->token() == token);
    };
    decide(1, 2, 20);
    // An undecided step holds back the next one.
    CHECK_FALSE(relay.news());
    decide(0, 1, 10);
    check_next(0, 1, 10);
    check_next(1, 2, 20);
    CHECK_FALSE(relay.news());
    REQUIRE(relay.apply(attach_record()));
    check_next(0, 1, 10);
    check_next(1, 2, 20);
    // That counter is of the steps that the daemon sends.
    CHECK(segment.header().counter(proto::SessionCounter::zmq_steps_sent) == 0);
}

TEST_CASE("steps that were decided before their session ended are returned before its end") {
    Attached attached;
    REQUIRE(attached.relay.news());  // the daemon is alive
    REQUIRE_FALSE(attached.relay.apply(submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}})));
    attached.files.segment.committed(0)[0].store(1);
    attached.files.segment.header().state = proto::SessionState::closed;
    const auto first = attached.relay.news();
    REQUIRE(first);
    CHECK(parsed(*first).body_as_StepDecisions() != nullptr);
    CHECK_THAT(refusal_of(attached.relay.news()), Contains("is closed"));
}

TEST_CASE("the relay's descriptor is readable after a step is decided") {
    Attached attached;
    while (attached.relay.news()) continue;
    REQUIRE_FALSE(attached.relay.apply(submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}})));
    const shm::StepClaims claims(attached.files.segment, 0);
    claims.refuse(proto::DecisionError::bad_record);
    pollfd readable{attached.relay.descriptor(), POLLIN, 0};
    CHECK(::poll(&readable, 1, 20000) == 1);
    REQUIRE(attached.relay.news());
    attached.relay.let_go("the test ends");
    CHECK(attached.relay.descriptor() == -1);
}

TEST_CASE("a step is given up by its record: it can be taken then, and its sequences finished") {
    Attached attached;
    RingRelay& relay = attached.relay;
    REQUIRE_FALSE(relay.apply(submit_record(kFirst + 3, 0, {{1, nullptr, 1, 0}, {2, nullptr, 1, 0}})));
    REQUIRE_FALSE(relay.apply(give_up_record(kFirst + 4, 0)));
    REQUIRE_FALSE(relay.apply(take_record(kFirst + 5, 1)));
    REQUIRE_FALSE(relay.apply(finish_record(kFirst + 6, 1)));
    CHECK_THAT(refusal_of(relay.apply(give_up_record(kFirst + 7, 0))), Contains("step 0 is not in flight"));
}
