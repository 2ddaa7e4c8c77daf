// What is asked of the doctor: wrong questions, hostile names, terminals, Pythons.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "testing/daemon_process.h"
#include "testing/file_text.h"
#include "tests/tools/doctor_asker.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

namespace fs = std::filesystem;

// Packages as pip leaves them, for a real Python to read.
void install(const Workplace& place, const std::string& package, const std::string& version,
             const std::string& entry_points = "") {
    const auto folder = place.path() / "site" / (package + "-" + version + ".dist-info");
    fs::create_directories(folder);
    std::ofstream(folder / "METADATA")
        << "Metadata-Version: 2.1\nName: " << package << "\nVersion: " << version << "\n";
    if (!entry_points.empty()) std::ofstream(folder / "entry_points.txt") << entry_points;
    std::ofstream(folder / "RECORD") << package << "/lib/lib" << package << ".so.1,,\n";
}

// The plugins' own lists of releases, in a package that fails if it is imported.
void install_plugins(const Workplace& place) {
    install(place, "croupier", "1.0.0",
            "[vllm.general_plugins]\ncroupier = croupier.vllm:register\n"
            "[sglang.srt.plugins]\ncroupier = croupier.sglang:register\n");
    const fs::path package = place.path() / "site" / "croupier";
    for (const char* engine : {"vllm", "sglang"}) {
        fs::create_directories(package / engine);
        fs::copy_file(fs::path(CROUPIER_SOURCE_DIR) / "python" / "src" / "croupier" / engine / "compat.py",
                      package / engine / "compat.py");
        std::ofstream(package / engine / "__init__.py") << "raise SystemExit(9)\n";
    }
    std::ofstream(package / "__init__.py") << "raise SystemExit(9)\n";
}

bool has_python() {
    if (std::system("python3 -c 'import sys; assert sys.version_info >= (3, 8)' 2>/dev/null") == 0)
        return true;
    WARN("skipped: there is no python3 here");
    return false;
}

bool has_ended(pid_t process) {
    const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat").value_or("");
    return stat.empty() || stat.find(") Z ") != std::string::npos || stat.find(") X ") != std::string::npos;
}

constexpr const char* kQuestion = "--skip daemon --config croupierd.yaml ";

struct Engine {
    const char* name;
    const char* package;
    const char* supported;
    const char* other;
    const char* releases;
    const char* turned_on_by;
    const char* page;
};
constexpr Engine kVllm{
    "vLLM", "vllm", "0.26.0", "0.32.0", "supports vLLM 0.26 and 0.33", "--additional-config", "docs/vllm.md"};
constexpr Engine kSglang{
    "SGLang",        "sglang", "0.5.17", "0.5.18", "supports SGLang 0.5.17", "CROUPIER_SGLANG='{}'",
    "docs/sglang.md"};

// A Python that has the packages of a folder beside its own.
struct Pythons {
    Workplace place;
    fs::path site = place.path() / "site";

    Pythons() { place.write("croupierd.yaml", ""); }
    DoctorAnswer ask() const {
        return ask_doctor(place, std::string(kQuestion) + "--python python3",
                          "PYTHONPATH='" + site.string() + "' ");
    }
};

}  // namespace

TEST_CASE("doctor: a configuration with mistakes is told, with file and line") {
    const Workplace place;
    place.write("croupierd.yaml", "samplers: {cuont: 3}\n");
    const auto told = ask_doctor(place, "--config croupierd.yaml");
    CHECK(told.status == 2);
    CHECK(told.level("config.file") == "broken");
    CHECK_THAT(told.what("config.file"), Contains("croupierd.yaml:1") && Contains("cuont"));
    CHECK_THAT(told.remedy("config.file"), Contains("--check-config"));
    CHECK(ask_doctor(place, "--config absent.yaml").level("config.file") == "broken");
}

TEST_CASE("doctor: a question that cannot be asked is no finding") {
    const Workplace place;
    place.write("croupierd.yaml", "");
    const Ended user = place.run(std::string("doctor ") + kQuestion + "--user no-such-user");
    CHECK(user.status == 3);
    CHECK_THAT(user.output, Contains("no user 'no-such-user'") && Contains("--user"));
    const Ended root = place.run(std::string("doctor ") + kQuestion + "--sysroot absent");
    CHECK(root.status == 3);
    CHECK_THAT(root.output, Contains("absent has no folder /proc/self"));
    const Ended check = place.run("doctor --skip cpu.colour");
    CHECK(check.status == 3);
    CHECK(place.run("doctor --nope").status == 3);
    CHECK_THAT(check.output, Contains("cpu.colour") && Contains("cpu.speed"));
}

TEST_CASE("doctor: bytes of others reach neither a terminal nor a JSON parser as they are") {
    const Workplace place;
    const std::string evil = "\033[2Jevil\xff";
    std::ofstream(place.path() / evil) << "run_dir: 3: 4\n";
    const std::string named = " --config \"$(printf '\\033[2Jevil\\377')\" ";
    const Ended text = place.run("doctor --skip daemon --python none" + named);
    CHECK(text.output.find('\033') == std::string::npos);
    CHECK_THAT(text.output, Contains("\\x1b[2Jevil\\xff"));
    const auto told = ask_doctor(place, "--skip daemon" + named);
    CHECK(told.level("config.file") == "broken");
}

TEST_CASE("doctor: for a person the worst comes first, without colour where it is no terminal") {
    const Workplace place;
    place.write("croupierd.yaml", "shm: {dir: /dev/shm/croupier-doctor-test, group: no-such-group}\n");
    const Ended text = place.run(std::string("doctor --python none ") + kQuestion);
    CHECK(text.status == 2);
    CHECK(text.output.find('\033') == std::string::npos);
    CHECK_THAT(text.output, Contains("Croupier will not work on this host as it is"));
    const auto worst = text.output.find("WILL NOT WORK");
    REQUIRE(worst != std::string::npos);
    CHECK(worst < text.output.find("FINE"));
    CHECK(text.output.find("FINE") < text.output.find("NOT CHECKED"));
    CHECK_THAT(text.output, Contains("-> groupadd no-such-group"));
}

TEST_CASE("doctor: a terminal is given colours and its own width, and none where NO_COLOR is set") {
    if (std::system("script --version >/dev/null 2>&1") != 0) {
        WARN("skipped: script(1) is not here");
        return;
    }
    const Workplace place;
    place.write("croupierd.yaml", "");
    const auto here = fs::read_symlink("/proc/self/exe").parent_path() / "croupier";
    const auto typed = [&](const std::string& before) {
        const std::string command =
            before + "stty cols 60; " + here.string() + " doctor --python none " + kQuestion;
        // The tool that Workplace runs is not needed: `script` gives the one that is typed a terminal.
        return place.run("--version", "script -qec '" + command + "' /dev/null; : ");
    };
    const std::string coloured = typed("").output;
    CHECK_THAT(coloured, Contains("\033[1"));
    CHECK(typed("export NO_COLOR=1; ").output.find('\033') == std::string::npos);
    std::istringstream lines(typed("export NO_COLOR=1; ").output);
    for (std::string line; std::getline(lines, line);) {
        // A path has no place to break, and the verdict is one line.
        if (line.find('/') == std::string::npos && line.find(" s)") == std::string::npos)
            CHECK(line.size() <= 62);
    }
}

TEST_CASE("doctor: the plugin is found in the Python that is named, without an engine being imported") {
    if (!has_python()) return;
    const Pythons pythons;
    const auto engine = GENERATE(kVllm, kSglang);
    install(pythons.place, engine.package, engine.supported);
    // Whoever imported it would fail.
    fs::create_directories(pythons.site / engine.package);
    std::ofstream(pythons.site / engine.package / "__init__.py") << "raise SystemExit(9)\n";
    const auto without = pythons.ask();
    CHECK(without.level("engine.plugin") == "slower");
    CHECK_THAT(without.what("engine.plugin"),
               Contains(std::string(engine.name) + " " + engine.supported) &&
                   Contains("without Croupier's plugin: " + std::string(engine.name) + " uses its own"));
    CHECK_THAT(without.remedy("engine.plugin"),
               Contains("pip install") && Contains(engine.turned_on_by) && Contains(engine.page));
    install_plugins(pythons.place);
    const auto with = pythons.ask();
    CHECK(with.level("engine.plugin") == "fine");
    CHECK_THAT(with.what("engine.plugin"), Contains(engine.supported) && Contains(engine.turned_on_by));
    CHECK(with.finding("engine.plugin")["facts"]["croupier"] == "1.0.0");
    CHECK(with.finding("engine.plugin")["facts"][engine.package] == engine.supported);
    // The package's list of files names a library that is not there.
    CHECK(with.level("engine.library") == "broken");
    CHECK_THAT(with.what("engine.library"), Contains("libcroupier.so.1") && Contains("is not there"));
}

TEST_CASE("doctor: a release that the plugin does not support is told, with those that it does") {
    if (!has_python()) return;
    const Pythons pythons;
    const auto engine = GENERATE(kVllm, kSglang);
    install(pythons.place, engine.package, engine.other);
    install_plugins(pythons.place);
    const auto other = pythons.ask();
    CHECK(other.level("engine.plugin") == "broken");
    CHECK_THAT(other.what("engine.plugin"), Contains(engine.other) && Contains(engine.releases));
    CHECK_THAT(other.remedy("engine.plugin"), Contains(engine.page));
    fs::remove(pythons.site / "croupier" / engine.package / "compat.py");
    const auto none = pythons.ask();
    CHECK(none.level("engine.plugin") == "broken");
    CHECK_THAT(none.what("engine.plugin"), Contains("does not say which releases"));
    CHECK_THAT(none.remedy("engine.plugin"), Contains("pip install --force-reinstall"));
}

TEST_CASE("doctor: of two engines in one Python the worse counts, and both are told") {
    if (!has_python()) return;
    const Pythons pythons;
    install(pythons.place, kVllm.package, kVllm.supported);
    install(pythons.place, kSglang.package, kSglang.other);
    install_plugins(pythons.place);
    const auto told = pythons.ask();
    CHECK(told.level("engine.plugin") == "broken");
    CHECK_THAT(told.what("engine.plugin"), Contains("vLLM 0.26.0 and Croupier's plugin 1.0.0") &&
                                               Contains("Croupier's plugin 1.0.0 supports SGLang 0.5.17"));
}

TEST_CASE("doctor: a Python that hangs, fails or is none does not hold up the other checks") {
    const Workplace place;
    place.write("croupierd.yaml", "");
    place.write("hangs", "#!/bin/sh\nexec sleep 600\n");
    place.write("fails", "#!/bin/sh\necho nonsense\nexit 3\n");
    for (const char* name : {"hangs", "fails"}) fs::permissions(place.path() / name, fs::perms(0755));
    const auto told = [&](const std::string& python) {
        return ask_doctor(place, std::string(kQuestion) + "--python " + python);
    };
    const auto hangs = told("./hangs --patience 400");
    place.write("parent", "#!/bin/sh\nsleep 600 &\necho $! >\"$(dirname \"$0\")/child\"\nwait\n");
    fs::permissions(place.path() / "parent", fs::perms(0755));
    told("./parent --patience 6000");
    const std::string written = place.bytes_of("child");
    REQUIRE_FALSE(written.empty());
    const pid_t child = std::stoi(written);
    // Whoever inherits it may not have reaped it yet.
    CHECK(eventually([&] { return has_ended(child); }));
    CHECK(hangs.level("engine.plugin") == "skipped");
    CHECK_THAT(hangs.what("engine.plugin"), Contains("within"));
    CHECK_THAT(told("./fails").what("engine.plugin"), Contains("did not answer as Python"));
    CHECK(told("absent").level("engine.plugin") == "skipped");
    const auto absent = told("./absent");
    CHECK(absent.status == 2);
    CHECK(absent.level("engine.plugin") == "broken");
    CHECK_THAT(absent.what("engine.plugin"), Contains("there is no ") && Contains("/absent"));
}

TEST_CASE("doctor: Python reads no module of the folder in which the doctor is asked") {
    if (!has_python()) return;
    const Workplace place;
    place.write("croupierd.yaml", "");
    place.write("json.py", "raise SystemExit(7)\n");
    const auto told = ask_doctor(place, std::string(kQuestion) + "--python python3");
    CHECK_THAT(told.what("engine.plugin"), Contains("(Python 3."));
}
