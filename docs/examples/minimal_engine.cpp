// A whole engine in one process: opens a session, plays the GPU worker itself, prints eight tokens.
//   croupier_example ipc:///run/croupier/control.sock
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "croupier/writer.hpp"

namespace {

constexpr std::uint32_t kVocab = 1000;

// What a model would compute: here, logits that favour the ids near 17 times the position.
std::vector<float> forward(std::uint32_t position) {
    std::vector<float> logits(kVocab);
    for (std::uint32_t id = 0; id < kVocab; ++id) {
        const float distance = static_cast<float>(id) - static_cast<float>(17 * position % kVocab);
        logits[id] = -0.05F * distance * distance;
    }
    return logits;
}

void run(const char* endpoint) {
    croupier::client::OpenOptions options;
    options.endpoint = endpoint;
    options.name = "example";
    options.vocab = kVocab;
    options.dtype = CROUPIER_FP32;
    croupier::client::Session session(options);
    const std::string segment = session.segment_path();
    croupier::writer::Options host;
    host.segment_path = segment.c_str();
    host.device = CROUPIER_WRITER_HOST;
    croupier::writer::Writer writer(host);

    croupier::client::Sequence sequence;
    sequence.uid = 1;
    sequence.params.seed = 42;
    sequence.prompt = {1, 2, 3};
    session.add(sequence);
    for (std::uint32_t position = 0; position < 8; ++position) {
        const croupier_column column = croupier_column_of(sequence.uid);
        const std::uint64_t step = session.submit({&column, 1});
        if (!writer.begin(step)) throw std::runtime_error("the step is not begun");
        writer.enqueue(forward(position).data(), kVocab, nullptr);
        const auto decided = session.wait(10000);
        if (!decided) throw std::runtime_error("a step is not decided within 10 s");
        std::printf("%d\n", decided->decisions[0].token);
    }
    session.close();
}

}  // namespace

int main(int argc, char** argv) try {
    run(argc > 1 ? argv[1] : "ipc:///run/croupier/control.sock");
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
