// Whether the engines of a Python have Croupier's plugin, and are releases that it supports.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "tools/doctor/checks.h"

namespace croupier::tools::doctor {
namespace {

struct Engine {
    const char* name;
    const EngineAnswer& answer;
    const char* turned_on_by;
    const char* page;
};

Finding check_engine(const Engine& engine, const PythonAnswer& python) {
    const EngineAnswer& answer = engine.answer;
    const std::string release = fmt::format("{} {}", engine.name, answer.release);
    if (!answer.has_plugin) {
        return slower(
            fmt::format("{} without Croupier's plugin: {} uses its own sampler", release, engine.name),
            fmt::format("{} -m pip install croupier-*.whl (./dev wheel builds it); {} turns it on ({})",
                        python.program, engine.turned_on_by, engine.page));
    }
    if (answer.supported.empty()) {
        return broken(fmt::format("{}, but Croupier's plugin {} does not say which releases it supports",
                                  release, python.croupier),
                      python.program + " -m pip install --force-reinstall croupier-*.whl");
    }
    if (!answer.is_supported) {
        return broken(fmt::format("{}, but Croupier's plugin {} supports {} {} and refuses others", release,
                                  python.croupier, engine.name, answer.supported),
                      fmt::format("install a supported release of {}, or try this one with the option "
                                  "untested ({})",
                                  engine.name, engine.page));
    }
    return fine(fmt::format("{} and Croupier's plugin {} ({} turns it on)", release, python.croupier,
                            engine.turned_on_by));
}

void append(std::string& text, const std::string& more) {
    if (!text.empty() && !more.empty()) text += "; ";
    text += more;
}

}  // namespace

Finding check_plugin(const Examined& examined) {
    const PythonAnswer& python = examined.python;
    if (python.state == PythonState::absent) {
        const std::string what = "there is no " + python.program;
        const char* named = "name the engine's Python with --python FILE";
        // A path was named, and perhaps misspelt: "suitable" would be the answer about no engine.
        return python.program.find('/') == std::string::npos ? skipped(what, named) : broken(what, named);
    }
    if (python.state != PythonState::answers) {
        return skipped(fmt::format("cannot list the packages of {}: {}", python.program, python.error),
                       "name the engine's Python with --python FILE, or raise --patience");
    }
    std::string found;
    Finding all = fine("", {{"python", python.version},
                            {"program", python.program},
                            {"croupier", python.croupier},
                            {"vllm", python.vllm.release},
                            {"sglang", python.sglang.release}});
    for (const Engine& engine :
         {Engine{"vLLM", python.vllm, "--additional-config '{\"croupier\": {}}'", "docs/vllm.md"},
          Engine{"SGLang", python.sglang, "CROUPIER_SGLANG='{}'", "docs/sglang.md"}}) {
        if (engine.answer.release.empty()) continue;
        const Finding one = check_engine(engine, python);
        all.level = std::max(all.level, one.level);
        append(found, one.what);
        append(all.remedy, one.remedy);
    }
    const std::string where = fmt::format("{} (Python {})", python.program, python.version);
    if (found.empty()) {
        return skipped(where + " has neither vLLM nor SGLang", "name the engine's Python with --python FILE");
    }
    all.what = where + " has " + found;
    return all;
}

}  // namespace croupier::tools::doctor
