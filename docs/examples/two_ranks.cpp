// An engine with a process for each tensor-parallel rank, in three terminals:
//
//     croupier_two_ranks ipc:///run/croupier/control.sock
//     croupier_two_ranks SEGMENT 0
//     croupier_two_ranks SEGMENT 1
//
// The first is the scheduler. It prints the segment's path, which the workers of the two ranks take, then
// tokens. Kill and start any of them, or the daemon, in the middle of a step: the tokens stay the same. Start
// the scheduler again within the daemon's sessions.reattach_grace_ms, by default ten seconds.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "croupier/writer.hpp"

namespace {

constexpr std::uint32_t kVocab = 1003;  // of which rank 0 holds 502 ids, and rank 1 501
constexpr std::uint64_t kUid = 1;
constexpr std::size_t kTokens = 8;

// What a model would compute. A real engine tells its workers which sequence stands in which column; here
// there is one sequence, whose position is the number of the step.
float logit(std::uint64_t step, std::uint32_t id) {
    const float distance = static_cast<float>(id) - static_cast<float>(17 * step % kVocab);
    return -0.05F * distance * distance;
}

void write_rows(const char* segment, std::uint32_t rank) {
    croupier::writer::Options options;
    options.segment_path = segment;
    options.rank = rank;
    croupier::writer::Writer writer(options);
    const croupier_writer_info info = writer.info();
    std::vector<float> row(info.ids);
    try {
        while (true) {
            const auto wanted = writer.wait_step(1000);
            if (!wanted || !writer.begin(wanted->step)) continue;
            for (std::uint32_t i = 0; i < info.ids; ++i) row[i] = logit(wanted->step, info.first_id + i);
            writer.enqueue(row.data(), info.ids, nullptr);
        }
    } catch (const croupier::writer::Failure&) {
        if (writer.state().ended == 0) throw;
    }
}

void submit_next(croupier::client::Session& session) {
    if (session.in_flight() > 0 || session.output(kUid).size() == kTokens) return;
    const croupier_column column = croupier_column_of(kUid);
    session.submit({&column, 1});
}

// A session that is resumed has its sequence, its tokens and perhaps a step in flight.
void schedule(const char* endpoint) {
    croupier::client::OpenOptions options;
    options.endpoint = endpoint;
    options.name = "two-ranks";
    options.vocab = kVocab;
    options.tp = 2;
    options.dtype = CROUPIER_FP32;
    options.resume = 1;  // if there is none to resume, a new one is opened
    croupier::client::Session session(options);
    if (session.live().empty()) {
        croupier::client::Sequence sequence;
        sequence.uid = kUid;
        sequence.params.seed = 42;
        sequence.prompt = {1, 2, 3};
        session.add(sequence);
    }
    submit_next(session);
    std::printf("%s\n", session.segment_path().c_str());
    std::fflush(stdout);
    while (session.in_flight() > 0) {
        if (!session.wait(30000)) throw std::runtime_error("no decision within 30 s: do both workers run?");
        submit_next(session);
    }
    for (const std::int32_t token : session.output(kUid)) std::printf("%d\n", token);
    session.close();
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc == 3) {
        write_rows(argv[1], static_cast<std::uint32_t>(std::stoul(argv[2])));
    } else {
        schedule(argc > 1 ? argv[1] : "ipc:///run/croupier/control.sock");
    }
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
