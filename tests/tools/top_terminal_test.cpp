// `croupier top` on a terminal: it stays over the daemon's death, and leaves the terminal as it was.
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "testing/daemon_process.h"

using namespace croupier;
using namespace croupier::testing;

namespace {

// The command with a terminal of 80 by 24 around it.
class OnTerminal {
  public:
    explicit OnTerminal(const DaemonProcess& daemon) {
        const auto program = (std::filesystem::path(CROUPIERD_PATH).parent_path() / "croupier").string();
        const std::string instance = daemon.instance();
        const std::string directory = daemon.shm_directory();
        winsize size{24, 80, 0, 0};
        pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
        if (pid_ == 0) {
            ::execl(program.c_str(), "croupier", "top", "-i", instance.c_str(), "--shm-dir",
                    directory.c_str(), "--interval", "0.1", nullptr);
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

    // False: it did not come within twenty seconds. What came before it is gone then.
    bool shows(const std::string& text) {
        for (int waits = 0; waits < 200;) {
            const auto found = seen_.find(text);
            if (found != std::string::npos) {
                seen_.erase(0, found + text.size());
                return true;
            }
            pollfd item{terminal_, POLLIN, 0};
            if (::poll(&item, 1, 100) == 0) ++waits;
            if (item.revents == 0) continue;
            std::array<char, 4096> part{};
            const auto count = ::read(terminal_, part.data(), part.size());
            if (count <= 0) return false;
            seen_.append(part.data(), static_cast<std::size_t>(count));
        }
        return false;
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
    int terminal_ = -1;
    pid_t pid_ = 0;
    std::string seen_;
};

constexpr const char* kSecondScreen = "\033[?1049h";
constexpr const char* kFirstScreen = "\033[?1049l";

}  // namespace

TEST_CASE("croupier top goes on when its daemon is gone and another one is there") {
    DaemonProcess daemon;
    OnTerminal top(daemon);
    REQUIRE(top.shows(kSecondScreen));
    REQUIRE(top.shows("daemon " + std::to_string(daemon.pid())));
    REQUIRE(top.shows("no sessions"));
    CHECK_FALSE(top.reads_lines());
    daemon.kill_now();
    REQUIRE(top.shows("is GONE for"));
    daemon.start();
    REQUIRE(top.shows("daemon " + std::to_string(daemon.pid())));
    // Narrower than any line.
    top.resize(12, 4);
    REQUIRE(top.shows("\033[7mcroupier top\033[0m"));
    top.type("xq");
    REQUIRE(top.shows(kFirstScreen));
    CHECK(top.wait() == 0);
    CHECK(top.reads_lines());
}

TEST_CASE("croupier top gives the terminal back when a signal ends or stops it") {
    const DaemonProcess daemon;
    OnTerminal top(daemon);
    REQUIRE(top.shows("no sessions"));
    top.send(SIGTSTP);
    REQUIRE(top.shows(kFirstScreen));
    REQUIRE(top.stops());
    CHECK(top.reads_lines());
    top.send(SIGCONT);
    REQUIRE(top.shows(kSecondScreen));
    REQUIRE(top.shows("no sessions"));
    CHECK_FALSE(top.reads_lines());
    top.type("\x03");  // Ctrl-C
    REQUIRE(top.shows(kFirstScreen));
    CHECK(top.wait() == 0);
    CHECK(top.reads_lines());
}
