// text_of_tokens FILE [skip]: decodes sequences with a tokenizer's file, without special tokens if told so,
// for tests that compare it with others. Standard input has for each sequence the number of the prompt's ids,
// these ids, the number of the output's ids, and these ids (int32). Standard output has for each the bytes of
// the text after each output id, then those of the whole text (int32), and the text.
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "text/sequence_text.h"

namespace {

// A number of ids, and the ids; false at the input's end.
bool read_ids(std::vector<std::int32_t>& ids) {
    std::int32_t count = 0;
    if (std::fread(&count, sizeof count, 1, stdin) != 1 || count < 0) return false;
    ids.resize(static_cast<std::size_t>(count));
    return std::fread(ids.data(), sizeof(std::int32_t), ids.size(), stdin) == ids.size();
}

void write_int(std::size_t value) {
    const auto narrow = static_cast<std::int32_t>(value);
    std::fwrite(&narrow, sizeof narrow, 1, stdout);
}

int run(const std::string& path, bool skips) {
    std::ifstream file(path, std::ios::binary);
    const std::string contents((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto table = croupier::text::TokenTable::parse(contents);
    std::vector<std::int32_t> prompt;
    std::vector<std::int32_t> ids;
    while (read_ids(prompt) && read_ids(ids)) {
        croupier::text::SequenceText sequence(table, {{}, 0, false, skips}, prompt);
        std::string text;
        for (const std::int32_t id : ids) write_int(sequence.add(id, text).released);
        write_int(sequence.finish(text).released);
        std::fwrite(text.data(), 1, text.size(), stdout);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc > 1 ? argv[1] : "", argc > 2 && std::strcmp(argv[2], "skip") == 0);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
