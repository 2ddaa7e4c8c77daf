// What an engine's Python has installed, by its packages' metadata: no engine is imported, which takes
// seconds.
#pragma once

#include <chrono>
#include <string>

namespace croupier::tools::doctor {

enum class PythonState { unasked, answers, absent, failed };

struct PythonAnswer {
    PythonState state = PythonState::unasked;
    std::string error;
    std::string program;  // where the Python lies
    std::string version;
    std::string croupier;  // versions; empty: not installed
    std::string vllm;
    std::string sglang;
    bool has_plugin = false;  // as vLLM will find it
    std::string library;      // libcroupier.so of the package; empty: it has none
};

PythonAnswer ask_python(const std::string& program, std::chrono::milliseconds patience);

}  // namespace croupier::tools::doctor
