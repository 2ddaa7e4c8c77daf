// A large session does not keep a small one waiting: samplers serve them in turns.
#include <catch2/catch.hpp>
#include <vector>

#include "croupier/client.hpp"
#include "gpu_writer/rank_writer.h"
#include "testing/daemon_process.h"

using namespace croupier;
using namespace croupier::testing;
using proto::SessionCounter;

namespace {

constexpr std::uint32_t kVocab = 32000;

// One rank; the sequences of a slot are the slot's own, so that all steps in flight can be decided at once.
class PlainEngine {
  public:
    PlainEngine(const DaemonProcess& daemon, const char* name, std::uint32_t columns, std::uint32_t slots)
        : columns_(columns),
          session_(options(daemon.endpoint(), name, columns, slots)),
          writer_(gpu_writer::RankWriter::attach(session_.segment_path(), 0).value()),
          row_(kVocab, 0x3F80) {
        for (std::uint32_t uid = 1; uid <= columns * slots; ++uid) {
            client::Sequence sequence;
            sequence.uid = uid;
            sequence.prompt = {1, 2, 3};
            sequence.params.temperature = 1.0;
            sequence.params.top_p = 0.95;
            sequence.params.repetition_penalty = 1.1;
            session_.add(sequence);
        }
    }

    std::uint64_t submit(std::uint32_t slot) {
        std::vector<croupier_column> asked;
        for (std::uint32_t i = 1; i <= columns_; ++i) asked.push_back({slot * columns_ + i, nullptr, 1, 0});
        const std::uint64_t step = session_.submit(asked);
        writer_.write_all(step, std::vector<const void*>(columns_, row_.data()));
        return step;
    }
    void publish(std::uint64_t step) { REQUIRE(writer_.publish_all(step)); }
    void collect() { REQUIRE(session_.wait(20000)); }
    std::uint64_t decided() const {
        return writer_.segment().header().counter(SessionCounter::columns_decided).load();
    }

  private:
    static client::OpenOptions options(const std::string& endpoint, const char* name, std::uint32_t columns,
                                       std::uint32_t slots) {
        client::OpenOptions made;
        made.dtype = CROUPIER_BF16;
        made.endpoint = endpoint.c_str();
        made.name = name;
        made.vocab = kVocab;
        made.max_batch = columns;
        made.steps_in_flight = slots;
        made.max_sequences = columns * slots;
        made.max_length = 64;
        return made;
    }

    std::uint32_t columns_;
    client::Session session_;
    gpu_writer::RankWriter writer_;
    std::vector<std::uint16_t> row_;
};

}  // namespace

TEST_CASE("a session of one column is decided before a large one, whose steps came first, is through") {
    constexpr std::uint32_t kColumns = 256;
    constexpr std::uint32_t kSlots = 8;
    const DaemonProcess daemon("{count: 1}", "sessions: {max_batch: 1024, max_sequences: 8192}");
    PlainEngine large(daemon, "large", kColumns, kSlots);
    PlainEngine small(daemon, "small", 1, 2);
    int overtaken = 0;
    for (int round = 0; round < 5; ++round) {
        const std::uint64_t before = large.decided();
        std::vector<std::uint64_t> steps;
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) steps.push_back(large.submit(slot));
        const std::uint64_t own = small.submit(0);
        for (const std::uint64_t step : steps) large.publish(step);
        REQUIRE(eventually([&] { return large.decided() > before; }));
        small.publish(own);
        small.collect();
        // Without turns it is all of them, always: the sampler is at the large one and leaves it last.
        overtaken += large.decided() < before + std::uint64_t{kColumns} * kSlots;
        for (std::uint32_t slot = 0; slot < kSlots; ++slot) large.collect();
    }
    CHECK(overtaken > 0);
}
