// Text that is shown as it is decided: a session with a tokenizer, and a stop string that no reader sees.
//   croupier_streaming_text ipc:///run/croupier/control.sock tokenizer.json
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "croupier/writer.hpp"

namespace {

constexpr std::uint32_t kVocab = 1000;
constexpr std::uint32_t kMostTokens = 64;

// What a model would compute: this one says its ids in their order.
std::vector<float> forward(std::uint32_t position) {
    std::vector<float> logits(kVocab, 0.0F);
    logits[position % kVocab] = 1.0F;
    return logits;
}

void run(const char* endpoint, const char* tokenizer) {
    croupier::client::OpenOptions options;
    options.endpoint = endpoint;
    options.name = "streaming";
    options.vocab = kVocab;
    options.dtype = CROUPIER_FP32;
    options.tokenizer = tokenizer;
    croupier::client::Session session(options);
    const std::string segment = session.segment_path();
    croupier::writer::Options host;
    host.segment_path = segment.c_str();
    host.device = CROUPIER_WRITER_HOST;
    croupier::writer::Writer writer(host);

    croupier::client::Sequence sequence;
    sequence.uid = 1;
    sequence.params.temperature = 0;
    sequence.params.max_tokens = kMostTokens;
    sequence.stop_strings = {"\nUser:", "###"};
    session.add(sequence);
    std::uint64_t shown = 0;
    for (std::uint32_t position = 0; position < kMostTokens; ++position) {
        const croupier_column column = croupier_column_of(sequence.uid);
        if (!writer.begin(session.submit({&column, 1}))) throw std::runtime_error("the step is not begun");
        writer.enqueue(forward(position).data(), kVocab, nullptr);
        const auto decided = session.wait(10000);
        if (!decided) throw std::runtime_error("a step is not decided within 10 s");
        const croupier_decision decision = decided->decisions[0];
        // Whole characters, and nothing that may still become a stop string.
        std::printf("%s", session.text(sequence.uid, shown).c_str());
        std::fflush(stdout);
        shown = decision.text_bytes;
        if ((decision.flags & CROUPIER_STOPPED) != 0) break;
    }
    const auto stop = session.text_stop(sequence.uid);
    const bool by_string = stop && stop->flag == CROUPIER_STOPPED_STRING;
    std::printf("\n%s\n", by_string ? "ended by a stop string" : "ended by its length");
    session.close();
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 3) throw std::invalid_argument("the arguments are an endpoint and a tokenizer's file");
    run(argv[1], argv[2]);
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
