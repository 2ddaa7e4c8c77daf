#include "tools/hotset/trace.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "explain/fields.h"
#include "proto/param_ranges.h"
#include "shm/hotness_file.h"
#include "tools/hotset/json_trace.h"

namespace croupier::tools {
namespace {

constexpr std::size_t kChunk = 1U << 18U;  // ids per read

std::uint64_t size_of(const std::string& path) {
    std::error_code failed;
    const bool regular = std::filesystem::is_regular_file(path, failed);
    const std::uint64_t size = regular ? std::filesystem::file_size(path, failed) : 0;
    if (!regular || failed) {
        throw explain::RequestError(
            "trace '" + path +
            "': " + (failed ? failed.message() : "is not a regular file; use - for standard input"));
    }
    return size;
}

std::ifstream open_trace(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw explain::RequestError("trace '" + path + "': cannot be read");
    return file;
}

bool is_hotness_file(const std::string& path) {
    std::uint64_t magic = 0;
    std::ifstream file = open_trace(path);
    file.read(reinterpret_cast<char*>(&magic), sizeof magic);
    return magic == proto::kHotnessMagic;
}

std::vector<double> counts_in_file(const std::string& path, const TracedModel& model) {
    auto file = shm::load_hotness(path, model.vocab);
    if (!file) throw explain::RequestError(file.error().message);
    const proto::HotnessOrder& order = file.value().order;
    if (order.model != model.name) {
        throw explain::RequestError("hotness file " + path + ": model is '" + order.model + "', should be '" +
                                    model.name + "'; ids of different models are different tokens");
    }
    std::vector<double> count_of_id(model.vocab);
    for (std::size_t i = 0; i < order.ids.size(); ++i) {
        count_of_id[static_cast<std::size_t>(order.ids[i])] = order.counts[i];
    }
    return count_of_id;
}

std::vector<double> count_int32(const std::string& path, const TracedModel& model,
                                command_line::Progress& progress) {
    if (const std::uint64_t size = size_of(path); size % sizeof(std::int32_t) != 0) {
        throw explain::RequestError("trace '" + path + "' has " + std::to_string(size) +
                                    " bytes, which is not a multiple of 4 (int32 ids)");
    }
    std::ifstream file = open_trace(path);
    std::vector<double> count_of_id(model.vocab);
    std::vector<std::int32_t> ids(kChunk);
    for (std::uint64_t before = 0;; before += kChunk) {
        file.read(reinterpret_cast<char*>(ids.data()), kChunk * sizeof(std::int32_t));
        const auto bytes = static_cast<std::size_t>(file.gcount());
        for (std::size_t i = 0; i < bytes / sizeof(std::int32_t); ++i) {
            if (!proto::token_in_range(ids[i], model.vocab)) {
                throw explain::RequestError("trace '" + path + "': the token at byte " +
                                            std::to_string((before + i) * sizeof(std::int32_t)) + " is " +
                                            std::to_string(ids[i]) + "; allowed: 0 to " +
                                            std::to_string(model.vocab - 1));
            }
            count_of_id[static_cast<std::size_t>(ids[i])] += 1.0;
        }
        progress.advance(bytes);
        if (bytes < kChunk * sizeof(std::int32_t)) break;
    }
    if (file.bad()) throw explain::RequestError("trace '" + path + "': could not be read to its end");
    return count_of_id;
}

std::vector<double> count_json_lines(std::istream& lines, const std::string& path, const TracedModel& model,
                                     command_line::Progress& progress) {
    std::vector<double> count_of_id(model.vocab);
    std::uint64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") != std::string::npos) {
            count_json_line(line, path + ", line " + std::to_string(number), count_of_id);
        }
        progress.advance(line.size() + 1);
    }
    if (lines.bad()) throw explain::RequestError("trace '" + path + "': could not be read to its end");
    return count_of_id;
}

std::vector<double> count_by_kind(const std::string& path, const TracedModel& model,
                                  command_line::Progress& progress) {
    if (path == "-") {
        progress.begin("counting standard input", 0);
        return count_json_lines(std::cin, "standard input", model, progress);
    }
    progress.begin("counting " + path, size_of(path));
    if (is_hotness_file(path)) return counts_in_file(path, model);
    const std::string kind = std::filesystem::path(path).extension();
    if (kind == ".i32") return count_int32(path, model, progress);
    if (kind == ".jsonl") {
        std::ifstream file = open_trace(path);
        return count_json_lines(file, path, model, progress);
    }
    throw explain::RequestError(
        "trace '" + path +
        "' has an unknown format; allowed: .i32 (int32 ids), .jsonl (JSON lines), or a hotness file");
}

}  // namespace

std::vector<double> count_trace(const std::string& path, const TracedModel& model,
                                command_line::Progress& progress) {
    std::vector<double> count_of_id = count_by_kind(path, model, progress);
    const bool empty =
        std::all_of(count_of_id.begin(), count_of_id.end(), [](double count) { return count == 0.0; });
    if (empty) throw explain::RequestError("trace '" + path + "' contains no token");
    return count_of_id;
}

}  // namespace croupier::tools
