#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "testing/file_text.h"

namespace croupier::tools {
namespace {

struct Ended {
    int status;
    std::string text;
};

// Runs the program in this binary's folder by a shell.
Ended croupier(const std::string& before, const std::string& arguments) {
    const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::FILE* pipe = ::popen((before + "'" + (here / "croupier").string() + "' " + arguments).c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    char part[4096];
    for (std::size_t count = 0; (count = std::fread(part, 1, sizeof part, pipe)) > 0;)
        text.append(part, count);
    return {WEXITSTATUS(::pclose(pipe)), text};
}

class TemporaryFile {
  public:
    explicit TemporaryFile(const char* suffix, const std::string& text = "")
        : path_(std::filesystem::temp_directory_path() /
                ("croupier-decide-" + std::to_string(::getpid()) + suffix)) {
        std::ofstream(path_) << text;
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() { std::filesystem::remove(path_); }
    std::string path() const { return path_; }
    std::string text() const { return testing::text_of(path_).value_or(""); }

  private:
    std::filesystem::path path_;
};

}  // namespace

TEST_CASE("croupier decide answers each input line with one line, and skips blank lines") {
    const std::string lines = R"(printf '%s\n' '{"logits":[1,5],"params":{"temperature":0}}' '' 'oops' )"
                              R"('{"logits":[5,1],"params":{"temperature":0}}' | )";
    const Ended ended = croupier(lines, "decide");
    CHECK(ended.status == 0);
    std::istringstream answers(ended.text);
    std::string line;
    REQUIRE(std::getline(answers, line));
    CHECK(line == R"({"tokens":[1],"flags":["greedy"]})");
    REQUIRE(std::getline(answers, line));
    CHECK_THAT(line, Catch::Contains("line 3: not JSON"));
    REQUIRE(std::getline(answers, line));
    CHECK(line == R"({"tokens":[0],"flags":["greedy"]})");
    CHECK_FALSE(std::getline(answers, line));
}

TEST_CASE("croupier decide reads files and fails if one cannot be read") {
    const TemporaryFile requests(".jsonl", R"({"logits":[1,5],"params":{"temperature":0}})");
    CHECK(croupier("", "decide '" + requests.path() + "'").text ==
          "{\"tokens\":[1],\"flags\":[\"greedy\"]}\n");
    CHECK(croupier("", "decide /nowhere 2>/dev/null").status == 1);
}

TEST_CASE("croupier explain prints text and JSON") {
    const std::string request = R"(echo '{"logits":[1,5,4],"params":{"top_k":2},"seed":3}' | )";
    const TemporaryFile page(".html");
    const Ended text = croupier(request, "explain --html '" + page.path() + "'");
    CHECK(text.status == 0);
    CHECK_THAT(text.text, Catch::Contains("top_k") && Catch::Contains("kept the best 2"));
    CHECK(text.text.find('\033') == std::string::npos);
    CHECK_THAT(page.text(), Catch::Contains("<svg"));
    const auto account = nlohmann::json::parse(croupier(request, "explain --json").text);
    CHECK(account.at("tokens_left") == 2);
    const Ended refused = croupier("echo '{\"logits\":[]}' | ", "explain --json");
    CHECK(refused.status == 1);
    CHECK_THAT(refused.text, Catch::Contains("logits is a list of 0"));
}

}  // namespace croupier::tools
