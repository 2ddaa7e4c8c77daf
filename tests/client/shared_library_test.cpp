#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "croupier/client.h"

namespace {

using Library = std::unique_ptr<void, int (*)(void*)>;

Library load() {
    return {::dlopen(LIBCROUPIER, RTLD_NOW | RTLD_LOCAL), ::dlclose};
}

}  // namespace

TEST_CASE("libcroupier.so gives every function of the C ABI to a program that knows only it") {
    const Library library = load();
    REQUIRE(library != nullptr);
    for (const char* name :
         {"croupier_version", "croupier_give_up", "croupier_open", "croupier_detach", "croupier_close",
          "croupier_segment_path", "croupier_resumed", "croupier_add", "croupier_fork", "croupier_finish",
          "croupier_truncate", "croupier_list", "croupier_output", "croupier_submit_columns",
          "croupier_in_flight", "croupier_wait", "croupier_error_name", "croupier_decision_error_text"}) {
        INFO(name);
        CHECK(::dlsym(library.get(), name) != nullptr);
    }
    auto* version = reinterpret_cast<decltype(&croupier_version)>(::dlsym(library.get(), "croupier_version"));
    REQUIRE(version != nullptr);
    CHECK(std::string(version()) == CROUPIER_VERSION);
}

TEST_CASE("libcroupier.so exports no C++ names") {
    const Library library = load();
    REQUIRE(library != nullptr);
    CHECK(::dlsym(library.get(), "_ZN8croupier3shm9errc_nameENS0_4ErrcE") == nullptr);
}
