#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>

#include "client/options.h"
#include "croupier/client.hpp"
#include "shm/error.h"
#include "testing/session_files.h"

using namespace croupier;
using Catch::Matchers::Contains;

namespace {

// The endpoint has to live as long as the options.
client::OpenOptions options_for(const char* endpoint) {
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.endpoint = endpoint;
    options.vocab = 1000;
    options.timeout_ms = 20;
    return options;
}

croupier_error failed_open(const croupier_open_options& options) {
    croupier_session* session = nullptr;
    croupier_error error{};
    REQUIRE(croupier_open(&options, &session, &error) == -1);
    REQUIRE(session == nullptr);
    return error;
}

shm::Errc code_of(const croupier_error& error) {
    return static_cast<shm::Errc>(error.code);
}

// To a relay that cannot be reached.
int no_way(croupier_error* error) {
    std::strcpy(error->text, "no way");
    return -1;
}

croupier_record_channel failing_channel() {
    croupier_record_channel channel;
    croupier_record_channel_init(&channel);
    channel.send = [](void*, const void*, size_t, croupier_error* error) { return no_way(error); };
    channel.receive = [](void*, uint32_t, const void**, size_t*, croupier_error* error) {
        return no_way(error);
    };
    return channel;
}

// A listening socket that never answers.
class DeafSocket {
  public:
    explicit DeafSocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::copy(path.begin(), path.end(), address.sun_path);
        REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
        REQUIRE(::listen(fd_, 8) == 0);
    }
    DeafSocket(const DeafSocket&) = delete;
    DeafSocket& operator=(const DeafSocket&) = delete;
    ~DeafSocket() { ::close(fd_); }

  private:
    int fd_;
};

}  // namespace

TEST_CASE("without a daemon, open names the endpoint and how to start one") {
    const testing::ShmDirectory directory;
    const std::string endpoint = "ipc://" + directory.path() + "/control.sock";
    const croupier_error error = failed_open(options_for(endpoint.c_str()));
    CHECK(code_of(error) == shm::Errc::not_found);
    CHECK_THAT(error.text,
               Contains(endpoint) && Contains("is croupierd running") && Contains("systemctl start"));
}

TEST_CASE("a socket that a dead daemon left behind reads like no daemon") {
    const testing::ShmDirectory directory;
    const std::string path = directory.path() + "/control.sock";
    { const DeafSocket dead(path); }
    const croupier_error error = failed_open(options_for(("ipc://" + path).c_str()));
    CHECK(code_of(error) == shm::Errc::not_found);
    CHECK_THAT(error.text, Contains("nobody listened at") && Contains("is croupierd running"));
}

TEST_CASE("an endpoint that listens but does not answer is a timeout") {
    const testing::ShmDirectory directory;
    const std::string path = directory.path() + "/control.sock";
    const DeafSocket deaf(path);
    const croupier_error error = failed_open(options_for(("ipc://" + path).c_str()));
    CHECK(code_of(error) == shm::Errc::timed_out);
    CHECK_THAT(error.text, Contains("did not answer within 20 ms"));
}

TEST_CASE("a socket that may not be connected to is a matter of permission, never a time-out") {
    const testing::ShmDirectory directory;
    const std::string path = directory.path() + "/control.sock";
    const DeafSocket deaf(path);
    REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
    REQUIRE(::chmod(path.c_str(), 0) == 0);
    const std::string endpoint = "ipc://" + path;
    const client::OpenOptions options = options_for(endpoint.c_str());
    // Root may do everything: another user asks.
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        constexpr uid_t kNobody = 65534;
        if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(99);
        croupier_session* session = nullptr;
        croupier_error error{};
        const int result = croupier_open(&options, &session, &error);
        const bool told =
            std::strstr(error.text, "permission") != nullptr && std::strstr(error.text, endpoint.c_str());
        ::_exit(result == -1 && told ? static_cast<int>(error.code) : 98);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == static_cast<int>(shm::Errc::permission_denied));
}

TEST_CASE("an option outside its range is refused by its name, before the daemon is asked") {
    struct BadOption {
        const char* text;
        std::function<void(croupier_open_options&)> spoil;
    };
    static const std::string long_name(64, 'x');
    const auto bad = GENERATE(values<BadOption>({
        {"vocab is 0, allowed is 1 to", [](auto& o) { o.vocab = 0; }},
        {"tp is 65, allowed is 1 to 64", [](auto& o) { o.tp = 65; }},
        {"max_batch is 0", [](auto& o) { o.max_batch = 0; }},
        {"max_windows is 65, allowed is 0 to 64", [](auto& o) { o.max_windows = 65; }},
        {"without_texts is 2, allowed is 0 to 1", [](auto& o) { o.without_texts = 2; }},
        {"steps_in_flight is 0, allowed is 1 to 64", [](auto& o) { o.steps_in_flight = 0; }},
        {"steps_in_flight is 65", [](auto& o) { o.steps_in_flight = 65; }},
        {"dtype is 3, allowed is 0 to 2", [](auto& o) { o.dtype = 3; }},
        {"tile is 0, allowed are 1 and 64", [](auto& o) { o.tile = 0; }},
        {"max_sequences is 0", [](auto& o) { o.max_sequences = 0; }},
        {"max_length is 1, allowed is 2 to", [](auto& o) { o.max_length = 1; }},
        {"max_list_tokens is 65537, allowed is 0 to 65536", [](auto& o) { o.max_list_tokens = 65537; }},
        {"summaries is 2, allowed is 0 to 1", [](auto& o) { o.summaries = 2; }},
        {"takeover is 2, allowed is 0 to 1", [](auto& o) { o.takeover = 2; }},
        {"resume is 3, allowed is 0 to 1", [](auto& o) { o.resume = 3; }},
        {"decisions_over_zmq is 2, allowed is 0 to 1", [](auto& o) { o.decisions_over_zmq = 2; }},
        {"randoms_supplied is 9, allowed is 0 to 1", [](auto& o) { o.randoms_supplied = 9; }},
        {"name has 0 characters, allowed is 1 to 63", [](auto& o) { o.name = nullptr; }},
        {"name has 64 characters", [](auto& o) { o.name = long_name.c_str(); }},
        {"endpoint is empty", [](auto& o) { o.endpoint = ""; }},
    }));
    client::OpenOptions options = options_for("ipc:///nowhere");
    bad.spoil(options);
    const croupier_error error = failed_open(options);
    CHECK(code_of(error) == shm::Errc::bad_argument);
    CHECK_THAT(error.text, Contains(bad.text));
}

TEST_CASE("a session that is null is refused by name, and asked nothing") {
    croupier_error error{};
    const auto refused = [&](std::int64_t status) {
        CHECK(status == -1);
        CHECK(std::string(error.text) == "session is null");
        error = {};
    };
    croupier_step step;
    croupier_step_init(&step);
    refused(croupier_finish(nullptr, 1, &error));
    refused(croupier_truncate(nullptr, 1, 0, &error));
    refused(croupier_append(nullptr, 1, nullptr, 0, &error));
    refused(croupier_fork(nullptr, 1, 2, 0, 0, &error));
    refused(croupier_text(nullptr, 1, 0, nullptr, 0, &error));
    refused(croupier_list(nullptr, nullptr, 0, &error));
    refused(croupier_submit(nullptr, nullptr, 0, nullptr, &error));
    refused(croupier_wait(nullptr, 0, &step, &error));
    refused(croupier_event_fd(nullptr, &error));
    refused(croupier_give_up(nullptr, 0, &error));
    refused(croupier_close(nullptr, &error));
    CHECK(croupier_output(nullptr, 1, nullptr, 0, nullptr) == -1);
    CHECK(croupier_in_flight(nullptr) == 0);
    CHECK(croupier_resumed(nullptr) == 0);
    CHECK(croupier_segment_path(nullptr) == nullptr);
    croupier_detach(nullptr);
}

TEST_CASE("a caller that was built for another ABI is refused with both versions") {
    client::OpenOptions options = options_for("ipc:///nowhere");
    options.version = 99U << 16U;
    const croupier_error error = failed_open(options);
    CHECK(code_of(error) == shm::Errc::wrong_version);
    CHECK_THAT(error.text, Contains("has ABI 99.0") && Contains("this library 1."));
}

TEST_CASE("a session whose dtype is forgotten is refused: its rows would be read as another one") {
    client::OpenOptions options;
    options.vocab = 1000;
    const croupier_error error = failed_open(options);
    CHECK(code_of(error) == shm::Errc::bad_argument);
    CHECK_THAT(error.text, Contains("dtype is not set: CROUPIER_BF16"));
}

TEST_CASE("an endpoint over tcp needs CURVE keys, and the one that lacks is named") {
    client::OpenOptions options = options_for("tcp://127.0.0.1:1");
    const std::string key(40, 'a');
    CHECK_THAT(failed_open(options).text, Contains("server_key has 0 characters, a Z85 key has 40"));
    options.server_key = key.c_str();
    CHECK_THAT(failed_open(options).text, Contains("client_public_key"));
    options.client_public_key = key.c_str();
    CHECK_THAT(failed_open(options).text, Contains("client_secret_key"));
    options.client_secret_key = "short";
    CHECK_THAT(failed_open(options).text, Contains("client_secret_key has 5 characters"));
}

TEST_CASE("an endpoint of another kind is refused with the kinds there are") {
    const auto* endpoint = GENERATE("inproc://x", "/run/croupier.sock", "tcp:/x");
    const croupier_error error = failed_open(options_for(endpoint));
    CHECK(code_of(error) == shm::Errc::bad_argument);
    CHECK_THAT(error.text, Contains(endpoint) && Contains("ipc://<path> or tcp://<host>:<port>"));
}

TEST_CASE("a call that fails may be given no error to fill in") {
    const client::OpenOptions options = options_for("inproc://x");
    croupier_session* session = nullptr;
    CHECK(croupier_open(&options, &session, nullptr) == -1);
    CHECK(croupier_open(nullptr, &session, nullptr) == -1);
    CHECK(croupier_open(&options, nullptr, nullptr) == -1);
}

TEST_CASE("every decision error has a text of its own") {
    for (std::uint16_t code = 0; code < static_cast<std::uint16_t>(proto::DecisionError::count_); ++code) {
        CHECK(std::strlen(croupier_decision_error_text(code)) > 0);
    }
    CHECK_THAT(croupier_decision_error_text(1), Contains("NaN"));
    CHECK_THAT(croupier_decision_error_text(9999), Contains("does not know"));
    CHECK(std::string(croupier_error_name(static_cast<std::uint32_t>(shm::Errc::ring_full))) == "ring_full");
}

TEST_CASE("a step that is too large to be sent is refused, and the ring proposed where the session has one") {
    client::OpenOptions options = options_for("ipc:///nowhere");
    options.max_batch = 65;
    options.max_support = CROUPIER_MAX_SESSION_SUPPORT;
    options.decisions_over_zmq = 1;
    CHECK_THAT(failed_open(options).text,
               Contains("a smaller max_support, max_logprobs or max_batch, or take decisions from the ring"));
    const croupier_record_channel channel = failing_channel();
    options.relay = &channel;
    CHECK_THAT(failed_open(options).text, Contains("endpoint and relay are both given"));
    options.endpoint = nullptr;
    CHECK_THAT(failed_open(options).text,
               Contains("a smaller max_support, max_logprobs or max_batch") && !Contains("from the ring"));
}

TEST_CASE("through a relay, masks that no record of a step can have are refused when the session is opened") {
    const croupier_record_channel channel = failing_channel();
    client::OpenOptions options;
    options.dtype = CROUPIER_BF16;
    options.relay = &channel;
    options.vocab = 131072;
    options.max_batch = 4096;
    // Each is 16,384 bytes, and 64 MiB is 4096 of them.
    options.mask_rows = 4033;
    const croupier_error error = failed_open(options);
    CHECK(code_of(error) == shm::Errc::bad_argument);
    CHECK_THAT(error.text, Contains("the 4033 grammar masks of a step (mask_rows) are 66076672 bytes") &&
                               Contains("a vocabulary of 131072") && Contains("they may be 66060288") &&
                               Contains("a mask_rows of at most 4032"));
    options.mask_rows = 4032;
    CHECK_THAT(failed_open(options).text, Contains("no way"));
    // A step has no more masks than columns.
    options.mask_rows = 4096;
    options.max_batch = 64;
    CHECK_THAT(failed_open(options).text, Contains("no way"));
    options.relay = nullptr;
    options.endpoint = "inproc://x";
    options.mask_rows = 4096;
    CHECK_THAT(failed_open(options).text, Contains("inproc://x"));
}
