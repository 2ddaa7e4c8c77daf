// An engine that does what its standard input tells it, for tests that look at a daemon from outside:
//   web_told_engine ENDPOINT NAME SEQUENCES
// Commands: "steps N" whole steps, "submit" one step without its logits, "write" those logits. Each is
// answered with a line "done", as the start is; at the end of the input the session is closed.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "croupier/client.hpp"
#include "croupier/writer.hpp"

namespace {

constexpr std::uint32_t kVocab = 4096;
constexpr std::uint32_t kPatienceMs = 20000;

croupier::client::OpenOptions options(const char* endpoint, const char* name, std::uint32_t sequences) {
    croupier::client::OpenOptions made;
    made.endpoint = endpoint;
    made.name = name;
    made.vocab = kVocab;
    made.dtype = CROUPIER_FP32;
    made.max_batch = sequences;
    return made;
}

class ToldEngine {
  public:
    ToldEngine(const char* endpoint, const char* name, std::uint32_t sequences)
        : session_(options(endpoint, name, sequences)), logits_(std::size_t{sequences} * kVocab) {
        for (std::size_t i = 0; i < logits_.size(); ++i)
            logits_[i] = static_cast<float>(i * 7919 % 1000) * 0.01F;
        const std::string segment = session_.segment_path();
        croupier::writer::Options host;
        host.segment_path = segment.c_str();
        host.device = CROUPIER_WRITER_HOST;
        writer_.emplace(host);
        for (std::uint64_t uid = 1; uid <= sequences; ++uid) {
            croupier::client::Sequence sequence;
            sequence.uid = uid;
            sequence.params.seed = uid;
            sequence.prompt = {1, 2, 3};
            session_.add(sequence);
            columns_.push_back(croupier_column_of(uid));
        }
    }

    void submit() { step_ = session_.submit(columns_); }
    void write() {
        if (!writer_->begin(step_)) throw std::runtime_error("the step is not begun");
        writer_->enqueue(logits_.data(), kVocab, nullptr);
        if (!session_.wait(kPatienceMs)) throw std::runtime_error("a step is not decided within 20 s");
    }
    void close() { session_.close(); }

  private:
    croupier::client::Session session_;
    std::vector<float> logits_;
    std::optional<croupier::writer::Writer> writer_;
    std::vector<croupier_column> columns_;
    std::uint64_t step_ = 0;
};

void obey(ToldEngine& engine, const std::string& command) {
    if (command == "steps") {
        int count = 0;
        for (std::cin >> count; count > 0; --count) {
            engine.submit();
            engine.write();
        }
    } else if (command == "submit") {
        engine.submit();
    } else if (command == "write") {
        engine.write();
    } else {
        throw std::invalid_argument("steps, submit and write are known, not " + command);
    }
    std::cout << "done" << std::endl;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 4) throw std::invalid_argument("three arguments: ENDPOINT NAME SEQUENCES");
    ToldEngine engine(argv[1], argv[2], static_cast<std::uint32_t>(std::stoul(argv[3])));
    std::cout << "done" << std::endl;
    for (std::string command; std::cin >> command;) obey(engine, command);
    engine.close();
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
