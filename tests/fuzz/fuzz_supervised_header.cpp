// What a client may write over in its own segment, as the supervisor reads it: the header, the schedule
// records, the heads of the decision slots and the claims. Whatever stands there, the neighbour's session is
// left as it was.

#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "daemon/control/session_registry.h"
#include "event_log/event_log.h"
#include "shm/clock.h"
#include "shm/session_record.h"
#include "shm/snapshot.h"
#include "tests/fuzz/fuzz_directory.h"

using namespace croupier;

namespace {

constexpr std::uint32_t kBatch = 4;
constexpr std::uint64_t kLiar = 4711;
constexpr std::uint64_t kNeighbour = 4712;
constexpr std::uint32_t kOffsetBytes = 2;

void require(bool condition) {
    if (!condition) std::abort();
}

shm::Segment make(const std::string& directory, std::uint64_t id, const std::string& name) {
    shm::SegmentSpec spec;
    spec.directory = directory;
    spec.instance = "fuzz";
    spec.session_id = id;
    spec.name = name;
    spec.geometry.vocab = 128;
    spec.geometry.max_batch = kBatch;
    spec.geometry.slots = 2;
    spec.geometry.max_sequences = kBatch;
    spec.geometry.max_length = 16;
    spec.geometry.has_order = 1;
    proto::fill_even_shards(spec.geometry);
    auto made = shm::Segment::create(spec).value();
    require(shm::write_record(made.path(), {name, "uid 1000"}).has_value());
    made.release(shm::Role::daemon);
    require(made.hold(shm::Role::client));
    return made;
}

class World {
  public:
    World()
        : liar_(make(directory_.path(), kLiar, "liar")),
          neighbour_(make(directory_.path(), kNeighbour, "neighbour")),
          plane_(shm::Plane::create(directory_.path(), "fuzz", 1, 1).value()) {
        event_log::configure({event_log::Level::critical, event_log::Format::text});
        config_.instance = "fuzz";
        config_.shm.dir = directory_.path();
        config_.hot_set.adapt = true;
        // All that precedes the logits: nothing else of it does the supervisor read.
        image_.resize(liar_.layout().ready);
        std::memcpy(image_.data(), &liar_.header(), image_.size());
    }

    // The input: places and what is written there, two bytes of place and a word each.
    void lay_over(const std::uint8_t* data, std::size_t size) {
        auto* memory = reinterpret_cast<std::byte*>(&liar_.header());
        std::memcpy(memory, image_.data(), image_.size());
        constexpr std::size_t kPiece = kOffsetBytes + sizeof(std::uint64_t);
        for (; size >= kPiece; data += kPiece, size -= kPiece) {
            std::uint16_t place = 0;
            std::memcpy(&place, data, kOffsetBytes);
            const std::size_t at = place % (image_.size() / 8) * 8;
            std::memcpy(memory + at, data + kOffsetBytes, sizeof(std::uint64_t));
        }
    }

    // A daemon that finds the segments, and one whose client writes over it while it runs.
    void supervise(const std::uint8_t* data, std::size_t size, bool adopted_first) {
        if (adopted_first) lay_over(nullptr, 0);
        daemon::SessionRegistry registry(config_, plane_, segments_, event_);
        if (!adopted_first) lay_over(data, size);
        registry.adopt_survivors();
        if (adopted_first) lay_over(data, size);
        // The dead sampler prepared a column of the liar's, whichever step it now says that is.
        const proto::PreparedColumn at{kLiar, size, static_cast<std::uint32_t>(size % 8)};
        registry.reopen_claims(1, at);
        registry.housekeep();
        static_cast<void>(registry.drained());
        const daemon::Peer stranger{"uid 1001", false};
        require(!registry.find_for(kNeighbour, stranger));
        require(!registry.close(kNeighbour, stranger));
        ask_for(registry, "liar", stranger);
        ask_for(registry, "neighbour", stranger);
        const shm::Segment* neighbour = registry.find(kNeighbour);
        require(neighbour != nullptr && neighbour->name() == "neighbour");
        require(neighbour_.header().state.load() == proto::SessionState::active);
        require(shm::observe(directory_.path(), "fuzz").has_value());
        hand_back(registry);
    }

  private:
    void ask_for(daemon::SessionRegistry& registry, const std::string& name, const daemon::Peer& peer) {
        daemon::SessionRequest request;
        request.name = name;
        request.geometry = neighbour_.geometry();
        request.geometry.has_order = 0;
        request.takeover = true;
        request.peer = peer;
        if (registry.find(name == "liar" ? kLiar : kNeighbour) == nullptr) return;
        require(!registry.open(request, {}));
    }

    // The files stay for the next input: it is the registry that goes, as in a daemon's death.
    void hand_back(daemon::SessionRegistry& registry) {
        if (registry.find(kLiar) != nullptr || std::filesystem::exists(liar_.path())) return;
        liar_ = make(directory_.path(), kLiar, "liar");
    }

    testing::FuzzDirectory directory_;
    shm::Segment liar_;
    shm::Segment neighbour_;
    shm::Plane plane_;
    daemon::SegmentChannel segments_{1};
    config::Config config_;
    int event_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    std::vector<std::byte> image_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static World world;
    if (size == 0) return 0;
    world.supervise(data + 1, size - 1, data[0] % 2 == 0);
    return 0;
}
