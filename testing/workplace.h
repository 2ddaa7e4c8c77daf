// A temporary folder in which a test runs programs from its binary's folder.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "testing/child_process.h"
#include "testing/file_text.h"

namespace croupier::testing {

class Workplace {
  public:
    Workplace() {
        std::string name = std::filesystem::temp_directory_path() / "croupier-tools-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    Workplace(const Workplace&) = delete;
    Workplace& operator=(const Workplace&) = delete;
    ~Workplace() { std::filesystem::remove_all(path_); }

    // `before` is put before the program in the shell command.
    Ended run(const std::string& arguments, const std::string& before = "",
              const std::string& program = "croupier") const {
        const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
        const std::string command = "cd '" + path_.string() + "' && " + before + "'" +
                                    (here / program).string() + "' " + arguments + " 2>&1";
        std::FILE* pipe = ::popen(command.c_str(), "r");
        REQUIRE(pipe != nullptr);
        std::string text;
        char part[4096];
        for (std::size_t count = 0; (count = std::fread(part, 1, sizeof part, pipe)) > 0;)
            text.append(part, count);
        return {WEXITSTATUS(::pclose(pipe)), text};
    }
    void write(const char* name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    std::string bytes_of(const char* name) const { return text_of((path_ / name).string()).value_or(""); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace croupier::testing
