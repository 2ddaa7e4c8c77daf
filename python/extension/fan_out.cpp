#include "python/extension/fan_out.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "python/extension/bindings.h"
#include "python/extension/numbers.h"

namespace croupier::python {
namespace {

croupier_fan_out* open_group(const std::string& endpoint, const std::string& public_key,
                             const std::string& secret_key, const std::string& peer_key, nb::handle timeout) {
    croupier_fan_out_options options;
    croupier_fan_out_options_init(&options);
    const auto seconds = number_of<double>(timeout);
    if (!seconds || !(*seconds > 0 && *seconds <= 4e6)) {
        throw bad_argument("timeout is " + shown(timeout) + "; allowed: seconds above 0, up to 4000000");
    }
    options.endpoint = endpoint.c_str();
    options.own_public_key = public_key.c_str();
    options.own_secret_key = secret_key.c_str();
    options.peer_public_key = peer_key.c_str();
    options.join_timeout_ms = static_cast<std::uint32_t>(std::ceil(*seconds * 1000));
    croupier_fan_out* group = nullptr;
    const nb::gil_scoped_release released;
    checked([&](croupier_error* error) { return croupier_fan_out_open(&options, &group, error); });
    return group;
}

std::pair<std::string, std::string> make_keys() {
    croupier_fan_out_keys keys{};
    checked([&](croupier_error* error) { return croupier_fan_out_make_keys(&keys, error); });
    return {keys.public_key, keys.secret_key};
}

}  // namespace

FanOut::FanOut(croupier_fan_out* group) : held_("fan-out", group), group_channel_(), channel_() {
    croupier_record_channel_init(&group_channel_);
    checked([&](croupier_error* error) { return croupier_fan_out_channel(group, &group_channel_, error); });
    croupier_record_channel_init(&channel_);
    channel_.context = this;
    channel_.send = send;
    channel_.receive = receive;
    channel_.descriptor = descriptor;
}

FanOut::~FanOut() {
    held_.let_go(croupier_fan_out_close);
}

// The session calls it with or without the GIL, from the thread that uses the session.
template <typename Call>
int FanOut::through(croupier_error* error, Call&& call) {
    try {
        return held_.use_without_gil([&](croupier_fan_out* /*group*/) { return call(group_channel_); });
    } catch (const Failure& failure) {
        error->code = failure.code();
        std::strncpy(error->text, failure.what(), sizeof(error->text) - 1);
        return -1;
    }
}

int FanOut::send(void* self, const void* record, std::size_t size, croupier_error* error) {
    return static_cast<FanOut*>(self)->through(error, [&](const croupier_record_channel& group) {
        return group.send(group.context, record, size, error);
    });
}

int FanOut::receive(void* self, std::uint32_t timeout_ms, const void** answer, std::size_t* size,
                    croupier_error* error) {
    return static_cast<FanOut*>(self)->through(error, [&](const croupier_record_channel& group) {
        return group.receive(group.context, timeout_ms, answer, size, error);
    });
}

int FanOut::descriptor(void* self) {
    croupier_error error{};
    return static_cast<FanOut*>(self)->through(
        &error, [](const croupier_record_channel& group) { return group.descriptor(group.context); });
}

void bind_fan_out(nb::module_& module) {
    nb::class_<FanOut>(module, "FanOut",
                       "A scheduler's way to the relay (`croupier relay`) on the host of its session, for "
                       "Session's argument relay.")
        .def(
            "__init__",
            [](FanOut* place, const std::string& endpoint, const std::string& public_key,
               const std::string& secret_key, const std::string& relay_key, nb::handle timeout) {
                new (place) FanOut(open_group(endpoint, public_key, secret_key, relay_key, timeout));
            },
            nb::arg("endpoint"), nb::kw_only(), nb::arg("public_key") = "", nb::arg("secret_key") = "",
            nb::arg("relay_key") = "", nb::arg("timeout") = 5.0,
            nb::sig("def __init__(self, endpoint: str, *, public_key: str = '', secret_key: str = '', "
                    "relay_key: str = '', timeout: float = 5.0) -> None"),
            "Listens at endpoint, tcp://HOST:PORT with keys or ipc://PATH, and returns when the relay is "
            "there.")
        .def_static("make_keys", &make_keys, nb::sig("def make_keys() -> tuple[str, str]"),
                    "A new pair of CURVE keys: the public one, and the secret one.")
        .def_prop_ro("is_open", &FanOut::is_open, "False once it was closed")
        .def("close", &FanOut::close,
             "Ends the group, after its session was closed or detached. Nothing the second time.");
}

}  // namespace croupier::python
