// The terminal while `croupier top` has it: a screen of its own, and keys without Enter. However the program
// ends, the terminal is as it was.
#pragma once

#include <termios.h>

#include <chrono>
#include <vector>

#include "tools/top/frame.h"

namespace croupier::tools {

class Screen {
  public:
    Screen();
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;
    ~Screen();

    FrameSize size() const;
    void show(const std::vector<FrameLine>& lines) const;

    enum class Event { none, leave, redraw, help };
    // Waits so long for a key or a signal.
    Event wait(std::chrono::milliseconds longest);

  private:
    void enter();
    void leave() const;

    bool reads_keys_;
    termios before_{};
};

}  // namespace croupier::tools
