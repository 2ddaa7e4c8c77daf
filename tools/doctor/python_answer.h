// What an engine's Python has installed, by its packages' metadata and the plugin's list of releases. No
// engine is imported, which takes seconds.
#pragma once

#include <chrono>
#include <string>

namespace croupier::tools::doctor {

enum class PythonState { unasked, answers, absent, failed };

struct EngineAnswer {
    std::string release;        // empty: not installed
    bool has_plugin = false;    // as the engine will find it
    bool is_supported = false;  // the release, by the plugin
    std::string supported;      // the releases that the plugin supports; empty: it does not say
};

struct PythonAnswer {
    PythonState state = PythonState::unasked;
    std::string error;
    std::string program;  // where the Python lies
    std::string version;
    std::string croupier;  // its version; empty: not installed
    std::string library;   // libcroupier.so of the package; empty: it has none
    EngineAnswer vllm;
    EngineAnswer sglang;
};

PythonAnswer ask_python(const std::string& program, std::chrono::milliseconds patience);

}  // namespace croupier::tools::doctor
