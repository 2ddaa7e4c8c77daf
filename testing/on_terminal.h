// Runs `croupier`, or a program in the same folder, in a pseudo-terminal.
#pragma once

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace croupier::testing {

class OnTerminal {
  public:
    explicit OnTerminal(std::vector<std::string> arguments, unsigned short columns = 80,
                        unsigned short rows = 24) {
        const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
        const std::string program = (here / "croupier").string();
        std::vector<char*> words{const_cast<char*>("croupier")};
        for (std::string& argument : arguments) words.push_back(argument.data());
        words.push_back(nullptr);
        winsize size{rows, columns, 0, 0};
        pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
        if (pid_ == 0) {
            ::execv(program.c_str(), words.data());
            ::_exit(127);
        }
        REQUIRE(pid_ > 0);
    }
    OnTerminal(const OnTerminal&) = delete;
    OnTerminal& operator=(const OnTerminal&) = delete;
    ~OnTerminal() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        ::close(terminal_);
    }

    // Waits for the text and discards the output before it. Returns false after twenty seconds without
    // output.
    bool shows(const std::string& text) {
        while (true) {
            const auto found = seen_.find(text);
            if (found != std::string::npos) {
                seen_.erase(0, found + text.size());
                return true;
            }
            if (!read_more()) return false;
        }
    }
    // The remaining output until the program ends.
    std::string rest() {
        while (read_more()) {
        }
        return std::exchange(seen_, {});
    }
    bool reads_lines() const {
        termios now{};
        REQUIRE(::tcgetattr(terminal_, &now) == 0);
        return (now.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
    }
    void type(const std::string& keys) const {
        REQUIRE(::write(terminal_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
    }
    void resize(unsigned short columns, unsigned short rows) const {
        const winsize size{rows, columns, 0, 0};
        REQUIRE(::ioctl(terminal_, TIOCSWINSZ, &size) == 0);
    }
    void send(int signal) const { ::kill(pid_, signal); }
    bool stops() const {
        int status = 0;
        return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
    }
    int wait() {
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

  private:
    static constexpr int kPatienceMs = 20'000;

    bool read_more() {
        pollfd item{terminal_, POLLIN, 0};
        if (::poll(&item, 1, kPatienceMs) <= 0) return false;
        std::array<char, 4096> part{};
        const auto count = ::read(terminal_, part.data(), part.size());
        if (count <= 0) return false;
        seen_.append(part.data(), static_cast<std::size_t>(count));
        return true;
    }

    int terminal_ = -1;
    pid_t pid_ = 0;
    std::string seen_;
};

}  // namespace croupier::testing
