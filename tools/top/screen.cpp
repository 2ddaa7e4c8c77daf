#include "tools/top/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <string>

namespace croupier::tools {
namespace {

// Sequences that every terminal since the VT100 knows, and xterm's second screen: a library of terminals
// (ncurses) would be one more dependency for six of them.
constexpr const char* kEnter = "\033[?1049h\033[?25l\033[2J";
constexpr const char* kLeave = "\033[?25h\033[?1049l";
constexpr const char* kHome = "\033[H";
constexpr const char* kHeading = "\033[7m";
constexpr const char* kEndOfLine = "\033[0m\033[K";
constexpr const char* kClearBelow = "\033[J";

volatile sig_atomic_t told_to_end = 0;
volatile sig_atomic_t told_to_stop = 0;

void on_signal(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    ::sigaction(signal, &action, nullptr);
}

void write_all(const std::string& text) {
    std::size_t done = 0;
    while (done < text.size()) {
        const auto written = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            // Nobody can see anything any more.
            told_to_end = 1;
            return;
        }
        done += static_cast<std::size_t>(written);
    }
}

}  // namespace

Screen::Screen() : reads_keys_(::isatty(STDIN_FILENO) != 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) on_signal(signal, [](int) { told_to_end = 1; });
    on_signal(SIGPIPE, SIG_IGN);
    on_signal(SIGTSTP, [](int) { told_to_stop = 1; });
    // Only to interrupt the wait.
    on_signal(SIGWINCH, [](int) {});
    if (reads_keys_) reads_keys_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    enter();
}

Screen::~Screen() {
    leave();
}

void Screen::enter() {
    if (reads_keys_) {
        termios keys = before_;
        keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    write_all(kEnter);
}

void Screen::leave() const {
    write_all(kLeave);
    if (reads_keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

FrameSize Screen::size() const {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        return {80, 24};
    return {size.ws_col, size.ws_row};
}

void Screen::show(const std::vector<FrameLine>& lines) const {
    const std::size_t width = size().columns;
    std::string text = kHome;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const FrameLine& line = lines[i];
        if (line.heading)
            text += kHeading + line.text + std::string(width - std::min(width, line.text.size()), ' ');
        else
            text += line.text;
        text += kEndOfLine;
        // A line break after the last row would move the first one out of sight.
        if (i + 1 < lines.size()) text += "\r\n";
    }
    write_all(text + kClearBelow);
}

Screen::Event Screen::wait(std::chrono::milliseconds longest) {
    pollfd keys{reads_keys_ ? STDIN_FILENO : -1, POLLIN, 0};
    const int ready = ::poll(&keys, 1, static_cast<int>(longest.count()));
    if (told_to_stop != 0) {
        told_to_stop = 0;
        leave();
        ::raise(SIGSTOP);
        enter();
        return Event::redraw;
    }
    if (told_to_end != 0) return Event::leave;
    if (ready < 0) return Event::redraw;
    if (ready == 0) return Event::none;
    std::array<char, 64> typed{};
    const auto count = ::read(STDIN_FILENO, typed.data(), typed.size());
    if (count <= 0) return Event::leave;
    const std::string pressed(typed.data(), static_cast<std::size_t>(count));
    if (pressed.find_first_of("qQ") != std::string::npos) return Event::leave;
    return pressed.find('?') != std::string::npos ? Event::help : Event::redraw;
}

}  // namespace croupier::tools
