#include "sim/report_text.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "command_line/text_width.h"

namespace croupier::sim {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSampleTokens = 12;
constexpr std::size_t kLabel = 11;

std::string line(const char* label, const std::string& text) {
    std::string begin = label;
    begin.resize(kLabel, ' ');
    return begin + command_line::wrapped(text, kLabel, command_line::terminal_width(STDOUT_FILENO)) + "\n";
}

std::string count_of(std::uint64_t number, const std::string& what) {
    return with_commas(number) + " " + what + (number == 1 ? "" : "s");
}

std::string milliseconds(const Latency& latency) {
    char text[96];
    (void)std::snprintf(text, sizeof(text), "p50 %.2f, p99 %.2f, max %.2f ms", latency.p50_us * 1e-3,
                        latency.p99_us * 1e-3, latency.max_us * 1e-3);
    return text;
}

std::string requests_text(const Report& report) {
    std::string text = with_commas(report.requests);
    if (report.unfinished > 0) text += ", " + with_commas(report.unfinished) + " unfinished";
    if (report.failed == 0) return text;
    text += " (" + with_commas(report.failed) + " ended with an ";
    if (report.failed == report.failed_as_intended) return text + "intended error: a NaN, or no token left)";
    return text + "error, of which " + with_commas(report.failed_as_intended) + " were intended)";
}

std::string tokens_text(const Report& report) {
    char seconds[32];
    (void)std::snprintf(seconds, sizeof(seconds), "%.1f s", report.serving_s);
    return with_commas(report.tokens) + " in " + count_of(report.steps, "step") + ", " + seconds + ": " +
           with_commas(static_cast<std::uint64_t>(report.tokens_per_s)) + " tokens/s";
}

std::string verified_text(const Report& report) {
    if (report.verification == Verification::never) return "none (--verify never)";
    const std::string differ =
        report.mismatched == 0 ? "none differ" : with_commas(report.mismatched) + " DIFFER";
    std::string text = with_commas(report.verified + report.mismatched) + " of " +
                       count_of(report.tokens, "token") + ", " + differ;
    if (report.verification == Verification::sample && report.verified < report.tokens)
        text += " (use --verify all to verify every token)";
    return text;
}

std::string sample_text(const World& world) {
    std::uint32_t chosen = 0;
    for (std::uint32_t request = 0; request < world.plan.size() && world.ledger.count(chosen) < kSampleTokens;
         ++request) {
        if (world.ledger.count(request) > world.ledger.count(chosen)) chosen = request;
    }
    const proto::SamplingParams& params = world.plan[chosen].params;
    std::ostringstream text;
    text.precision(2);
    text << "request " << chosen << ", prompt of " << world.plan[chosen].prompt_length
         << " tokens, temperature " << params.temperature;
    if (params.top_k > 0) text << ", top_k " << params.top_k;
    if (params.top_p < 1.0) text << ", top_p " << params.top_p;
    text << ":";
    for (std::uint32_t i = 0; i < std::min(kSampleTokens, world.ledger.count(chosen)); ++i)
        text << ' ' << world.ledger.entry(chosen, i).token;
    if (world.ledger.count(chosen) > kSampleTokens) text << " ...";
    return text.str();
}

// The path of croupier for a shell in the current folder: it is in the same folder as this program.
std::string croupier_command() {
    std::error_code unknown;
    const fs::path own = fs::read_symlink("/proc/self/exe", unknown).parent_path() / "croupier";
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (fs::equivalent(fs::path(folder) / "croupier", own, unknown)) return "croupier";
    }
    const fs::path from_here = own.lexically_relative(fs::current_path(unknown));
    return from_here.empty() || *from_here.begin() == ".." ? own.string() : from_here.string();
}

}  // namespace

std::string with_commas(std::uint64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
    return digits;
}

std::string failure_text(const Report& report) {
    std::vector<std::string> reasons;
    if (report.mismatched > 0) {
        reasons.push_back(count_of(report.mismatched, "token") + " of " +
                          with_commas(report.verified + report.mismatched) + " verified differ" +
                          (report.mismatched == 1 ? "s" : "") +
                          " from the reference; first: " + report.first_mismatch);
    }
    if (!report.fault.empty()) reasons.push_back(report.fault);
    if (report.lost > 0) reasons.push_back(count_of(report.lost, "decision") + " lost");
    if (report.duplicated > 0)
        reasons.push_back(count_of(report.duplicated, "decision") + " delivered twice");
    if (report.left_in_shm > 0) reasons.push_back(count_of(report.left_in_shm, "file") + " left in /dev/shm");
    // Given only if there is no other reason: otherwise these are its consequences.
    if (reasons.empty() && report.unfinished > 0)
        reasons.push_back(count_of(report.unfinished, "request") + " unfinished");
    if (reasons.empty() && !report.verified_enough()) {
        reasons.push_back("only " + with_commas(report.verified) + " of " + count_of(report.tokens, "token") +
                          " verified");
    }
    std::string text;
    for (const std::string& reason : reasons) text += (text.empty() ? "" : "; ") + reason;
    return text;
}

std::string interruption_text(const Report& report) {
    if (report.tokens == 0) return "interrupted before the first token\n";
    const std::string text = "interrupted after " + count_of(report.tokens, "token");
    if (report.verification == Verification::never) return text + "; --verify never: nothing was verified\n";
    if (report.verified == 0) return text + ", before any was verified\n";
    return text + "; verified " + with_commas(report.verified) + ", none differ\n";
}

std::string to_text(const Report& report, const World& world) {
    std::string text = line("requests", requests_text(report)) + line("tokens", tokens_text(report)) +
                       line("verified", verified_text(report)) +
                       line("step", milliseconds(report.step_latency) + " from submission to decision") +
                       line("decision", milliseconds(report.decision) + " after the last logits");
    if (world.options.on_gpu)
        text += line("on the GPU", milliseconds(report.hbm_to_hbm) + " from logits to tokens, full batches");
    if (world.options.replay > 0) {
        text += line("replays", count_of(report.replayed, "token") + " decided again, " +
                                    with_commas(report.rolled_back) + " of them rolled back");
    }
    if (report.kills > 0) {
        text += line("kills", with_commas(report.kills) + "; " + count_of(report.recovered, "token") +
                                  " recovered from logs, " + count_of(report.readmitted, "sequence") +
                                  " readmitted");
    }
    text += line("example", sample_text(world));
    if (report.passed()) text += line("ok", "no decision lost or delivered twice, no file left in /dev/shm");
    return text;
}

std::string next_commands() {
    const std::string croupier = "  " + croupier_command();
    return "\nWhat to try next:\n" + croupier + " sim --demo --chaos samplers --kills 9\n" +
           "      run the demo while samplers are killed\n" + croupier + " doctor\n" +
           "      check whether this host is suitable, and how to make it faster\n" + croupier + " help\n" +
           "      list all commands\n";
}

}  // namespace croupier::sim
