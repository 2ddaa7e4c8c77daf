// The C ABI of the fan-out: what it refuses, and what the shared library gives away.
#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "croupier/fan_out.h"
#include "testing/child_process.h"
#include "testing/session_files.h"
#include "tests/fan_out/fan_out_peer.h"

using namespace croupier;
using namespace croupier::testing;
using Catch::Contains;

namespace {

croupier_fan_out_options options_for(const std::string& endpoint) {
    croupier_fan_out_options options;
    croupier_fan_out_options_init(&options);
    options.endpoint = endpoint.c_str();
    return options;
}

std::string refusal_of(const croupier_fan_out_options& options) {
    croupier_fan_out* group = nullptr;
    croupier_error error{};
    CHECK(croupier_fan_out_open(&options, &group, &error) == -1);
    CHECK(group == nullptr);
    return error.text;
}

}  // namespace

TEST_CASE("options of a fan-out that cannot be are refused, each by a text that names it") {
    static const std::string endpoint = "ipc:///tmp/none";
    auto options = options_for(endpoint);
    SECTION("version") {
        options.version = 99U << 16U;
        CHECK_THAT(refusal_of(options), Contains("croupier_fan_out_options: the caller has ABI 99.0"));
    }
    SECTION("transport") {
        options.transport = 2;
        CHECK_THAT(refusal_of(options), Contains("transport is 2, allowed: 0 (ZMQ) or 1 (NCCL)"));
    }
    SECTION("endpoint") {
        options.endpoint = nullptr;
        CHECK_THAT(refusal_of(options), Contains("endpoint is \"\", it should be ipc://<path> or tcp://"));
    }
    SECTION("members") {
        options.members = 1;
        CHECK_THAT(refusal_of(options), Contains("members is 1, allowed is 2 to 1024"));
    }
    SECTION("member") {
        options.member = 2;
        CHECK_THAT(refusal_of(options), Contains("member is 2, allowed is 0 (the root) to 1"));
    }
    SECTION("window") {
        options.window = 0;
        CHECK_THAT(refusal_of(options), Contains("window is 0"));
    }
    SECTION("keys") {
        options.endpoint = "tcp://127.0.0.1:1";
        CHECK_THAT(refusal_of(options), Contains("needs CURVE: own_public_key has 0 characters"));
    }
    SECTION("NCCL where there is none") {
        const std::unique_ptr<void, int (*)(void*)> nccl(
            ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL),
            [](void* library) { return library == nullptr ? 0 : ::dlclose(library); });
        if (nccl != nullptr) return;
        options.transport = CROUPIER_FAN_OUT_NCCL;
        CHECK_THAT(refusal_of(options), Contains("NCCL") && Contains("use zmq"));
    }
    SECTION("a directory that is not there") {
        options.endpoint = "ipc:///nowhere/at/all";
        CHECK_THAT(refusal_of(options), Contains("cannot listen at ipc:///nowhere/at/all"));
    }
}

TEST_CASE("a root sends and hears answers through the C ABI, and through the channel it makes of it") {
    const testing::ShmDirectory directory;
    const std::string endpoint = "ipc://" + directory.path() + "/fan-out.sock";
    fan_out::FanOutOptions of_member;
    of_member.endpoint = endpoint;
    of_member.member = 1;
    of_member.join_timeout = std::chrono::milliseconds(20000);
    testing::Peer peer(of_member, testing::PeerTask::echo);
    auto options = options_for(endpoint);
    options.join_timeout_ms = 20000;
    croupier_fan_out* opened = nullptr;
    croupier_error error{};
    INFO(error.text);
    REQUIRE(croupier_fan_out_open(&options, &opened, &error) == 0);
    const std::unique_ptr<croupier_fan_out, void (*)(croupier_fan_out*)> group(opened,
                                                                               croupier_fan_out_close);
    CHECK(croupier_fan_out_send(group.get(), "one", 3, &error) == 0);
    croupier_record_channel channel;
    croupier_record_channel_init(&channel);
    REQUIRE(croupier_fan_out_channel(group.get(), &channel, &error) == 0);
    const void* answer = nullptr;
    std::size_t size = 0;
    REQUIRE(channel.receive(channel.context, 20000, &answer, &size, &error) == 1);
    CHECK(std::string(static_cast<const char*>(answer), size) == "one");
    CHECK(channel.send(channel.context, "two", 3, &error) == 0);
    std::uint32_t member = 0;
    REQUIRE(croupier_fan_out_receive_answer(group.get(), 20000, &member, &answer, &size, &error) == 1);
    CHECK(member == 1);
    CHECK(std::string(static_cast<const char*>(answer), size) == "two");
    CHECK(channel.receive(channel.context, 0, &answer, &size, &error) == 0);
    CHECK(croupier_fan_out_answer(group.get(), "x", 1, &error) == -1);
    CHECK_THAT(error.text, Contains("only a member other than the root"));
    CHECK(channel.send(channel.context, "end", 3, &error) == 0);
    CHECK(peer.wait() == 0);
}

TEST_CASE("a forked child that calls or closes a group is told whose it is, and leaves it whole") {
    const testing::ShmDirectory directory;
    fan_out::FanOutOptions of_member;
    of_member.endpoint = "ipc://" + directory.path() + "/fan-out.sock";
    of_member.member = 1;
    of_member.join_timeout = std::chrono::milliseconds(20000);
    testing::Peer peer(of_member, testing::PeerTask::echo);
    auto options = options_for(of_member.endpoint);
    options.join_timeout_ms = 20000;
    croupier_fan_out* group = nullptr;
    croupier_error error{};
    REQUIRE(croupier_fan_out_open(&options, &group, &error) == 0);
    croupier_record_channel channel;
    croupier_record_channel_init(&channel);
    REQUIRE(croupier_fan_out_channel(group, &channel, &error) == 0);
    auto child = ChildProcess::start([&] {
        // libzmq would wait for threads that the child does not have.
        ::alarm(20);
        const void* bytes = nullptr;
        std::size_t size = 0;
        std::uint32_t member = 0;
        int told = 0;
        const auto note = [&](int status) {
            told += status == -1 && std::string(error.text).starts_with("this group is of process ") ? 1 : 0;
        };
        note(croupier_fan_out_send(group, "one", 3, &error));
        note(channel.send(channel.context, "one", 3, &error));
        note(croupier_fan_out_receive_answer(group, 0, &member, &bytes, &size, &error));
        note(channel.receive(channel.context, 0, &bytes, &size, &error));
        note(croupier_fan_out_receive(group, 0, &bytes, &size, &error));
        note(croupier_fan_out_answer(group, "one", 3, &error));
        note(croupier_fan_out_channel(group, &channel, &error));
        if (channel.descriptor(channel.context) == -1) ++told;
        croupier_fan_out_close(group);
        return told == 8 ? 0 : 1;
    });
    CHECK(child.wait() == 0);
    CHECK(croupier_fan_out_send(group, "end", 3, &error) == 0);
    CHECK(peer.wait() == 0);
    croupier_fan_out_close(group);
}

TEST_CASE("libcroupier_fan_out.so gives its C ABI, and keeps the names of its C++ to itself") {
    const std::unique_ptr<void, int (*)(void*)> library(::dlopen(LIBCROUPIER_FAN_OUT, RTLD_NOW | RTLD_LOCAL),
                                                        ::dlclose);
    REQUIRE(library != nullptr);
    for (const char* name :
         {"croupier_fan_out_version", "croupier_fan_out_open", "croupier_fan_out_close",
          "croupier_fan_out_send", "croupier_fan_out_receive_answer", "croupier_fan_out_receive",
          "croupier_fan_out_answer", "croupier_fan_out_channel", "croupier_fan_out_error_name"}) {
        INFO(name);
        CHECK(::dlsym(library.get(), name) != nullptr);
    }
    CHECK(::dlsym(library.get(), "_ZN8croupier3shm9errc_nameENS0_4ErrcE") == nullptr);
}
