#include "config/schema.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <utility>

#include "config/numbers.h"
#include "config/texts.h"
#include "proto/bell.h"
#include "proto/geometry.h"
#include "proto/hot_set.h"
#include "proto/plane.h"

namespace croupier::config {

namespace {

constexpr auto reload = Change::reload;
constexpr auto restart = Change::restart;

constexpr std::size_t longest_number = 20;
// What the paths of segments, shm.dir/croupier-INSTANCE-NUMBER.seg, may have.
constexpr std::size_t longest_segment_path = 239;
constexpr std::size_t longest_segment_name =
    sizeof("/croupier-") - 1 + longest_instance_name + 1 + longest_number + sizeof(".seg") - 1;
constexpr std::size_t longest_shm_dir = longest_segment_path - longest_segment_name;
// Names of files in it come on top.
constexpr std::size_t longest_run_dir = PATH_MAX - 1 - 2 * longest_segment_name;

template <class T, class... Members>
Key key(const std::string& path, const ValueType<T>& type, Change change, const std::string& help,
        Members... members) {
    const auto field = [members...](auto& config) -> auto& {
        return (config.*....*members);
    };
    return {.path = path,
            .type = type.name,
            .allowed = type.allowed,
            .change = change,
            .help = help,
            .read = [field, parse = type.parse](
                        Config& config, const Scalar& scalar) { return parse(scalar, field(config)); },
            .write = [field, print = type.print](const Config& config) { return print(field(config)); },
            .copy = [field](Config& to, const Config& from) { field(to) = field(from); }};
}

std::vector<Key> general_keys() {
    return {
        key("instance", instance_name(), restart,
            "Name of this daemon, part of its segments' names. Two daemons on one host need two names.",
            &Config::instance),
        key("run_dir", directory(longest_run_dir), restart, "Directory of lock files and the daemon's state.",
            &Config::run_dir),
    };
}

std::vector<Key> shm_keys() {
    const ValueType<HugePages> huge_pages = choice<HugePages>(
        {{"off", HugePages::off}, {"try", HugePages::attempt}, {"require", HugePages::require}});
    return {
        key("shm.dir", directory(longest_shm_dir), restart,
            "Directory of the segments, on a tmpfs or hugetlbfs. The daemon creates it; only the daemon may "
            "write to it.",
            &Config::shm, &Shm::dir),
        key("shm.mode", file_mode(), restart,
            "Permissions of the segments: who may attach as an engine or a worker.", &Config::shm,
            &Shm::mode),
        key("shm.group", group_name(), restart,
            "Group that owns the segments; empty for the daemon's own group.", &Config::shm, &Shm::group),
        key("shm.hugepages", huge_pages, restart,
            "Huge pages for the segments: off, try (uses small pages for the rest, and logs it) or require "
            "(refuses a session that does not fit into huge pages).",
            &Config::shm, &Shm::hugepages),
        key("shm.node", numa_node(), restart,
            "NUMA node for the segments; auto is the node of most samplers' cores. If the GPUs are on "
            "another node, name that one.",
            &Config::shm, &Shm::node),
    };
}

std::vector<Key> sampler_keys() {
    const ValueType<Wait> wait =
        choice<Wait>({{"spin", Wait::spin}, {"adaptive", Wait::adaptive}, {"sleep", Wait::sleep}});
    return {
        key("samplers.count", whole_number(0, proto::kMaxSamplers), restart,
            "Number of sampler processes; 0 starts one for each core but one, and at least one.",
            &Config::samplers, &Samplers::count),
        key("samplers.threads_per_sampler", whole_number(1, 64), restart, "Threads in each sampler process.",
            &Config::samplers, &Samplers::threads_per_sampler),
        key("samplers.cores", core_list(), restart,
            "Cores that samplers may use; auto means all that the daemon may run on.", &Config::samplers,
            &Samplers::cores),
        key("samplers.pin", on_off(), restart, "Whether each sampler thread is bound to one core.",
            &Config::samplers, &Samplers::pin),
        key("samplers.wait", wait, restart,
            "How a sampler waits for work: spin (lowest latency, a whole core), sleep (least power) or "
            "adaptive (spins for spin_us and when logits are expected, otherwise sleeps).",
            &Config::samplers, &Samplers::wait),
        key("samplers.spin_us", whole_number(0, 100000), reload,
            "Microseconds that an adaptive wait spins before it sleeps.", &Config::samplers,
            &Samplers::spin_us),
        key("samplers.max_sleep_us", whole_number(1, 100000), reload,
            "Longest sleep between two checks for work, in microseconds.", &Config::samplers,
            &Samplers::max_sleep_us),
        key("samplers.heartbeat_timeout_ms", whole_number(100, 600000), reload,
            "Milliseconds without a heartbeat after which a sampler is killed and restarted; a starting one "
            "has at least 5000.",
            &Config::samplers, &Samplers::heartbeat_timeout_ms),
        key("samplers.restart_backoff_ms", whole_number(0, 60000), reload,
            "Milliseconds before a sampler that died is restarted.", &Config::samplers,
            &Samplers::restart_backoff_ms),
        key("samplers.max_state_bytes", byte_size(mib, tib), reload,
            "Most state that each sampler may derive from token logs, for penalties and DRY; a history of a "
            "thousand tokens takes about 100 KB. Beyond it, the least recently used state is dropped, and "
            "derived again when needed.",
            &Config::samplers, &Samplers::max_state_bytes),
    };
}

std::vector<Key> session_keys() {
    return {
        key("sessions.max", whole_number(1, proto::kMaxSessions), reload,
            "Sessions that may be open at once.", &Config::sessions, &Sessions::max),
        key("sessions.max_segment_bytes", byte_size(mib, tib), reload,
            "Largest segment of one session; at most max_total_bytes.", &Config::sessions,
            &Sessions::max_segment_bytes),
        key("sessions.max_total_bytes", byte_size(mib, tib), reload,
            "Shared memory that all sessions together may use.", &Config::sessions,
            &Sessions::max_total_bytes),
        key("sessions.max_batch", whole_number(1, proto::kMaxBatch), reload,
            "Largest batch, in rows of a step: a window has several.", &Config::sessions,
            &Sessions::max_batch),
        key("sessions.max_vocab", whole_number(1, proto::kMaxVocab), reload,
            "Largest vocabulary, in tokens. It bounds the time of one column, and so how long other sessions "
            "wait for a sampler.",
            &Config::sessions, &Sessions::max_vocab),
        key("sessions.max_sequences", whole_number(1, proto::kMaxSequences), reload,
            "Sequences that one session may have at once.", &Config::sessions, &Sessions::max_sequences),
        key("sessions.max_sequence_tokens", whole_number(2, proto::kMaxLength), reload,
            "Longest sequence, prompt and output together, in tokens.", &Config::sessions,
            &Sessions::max_sequence_tokens),
        key("sessions.max_support", whole_number(0, proto::kMaxSupport), reload,
            "Most tokens of its support, the tokens left to draw from, that a request may ask for. It bounds "
            "the time of one column, as max_vocab does.",
            &Config::sessions, &Sessions::max_support),
        key("sessions.max_list_tokens", whole_number(0, proto::kMaxListTokens), reload,
            "Most words of allowed ids, bad words, DRY breakers and stop strings of a request together. It "
            "bounds the time of one column, as max_vocab does.",
            &Config::sessions, &Sessions::max_list_tokens),
        key("sessions.reattach_grace_ms", whole_number(0, 3600000), reload,
            "Milliseconds that a session waits for its engine to restart.", &Config::sessions,
            &Sessions::reattach_grace_ms),
        key("sessions.drain_timeout_ms", whole_number(0, 3600000), reload,
            "Milliseconds that a stopping daemon waits for steps in flight.", &Config::sessions,
            &Sessions::drain_timeout_ms),
        key("sessions.step_deadline_ms", whole_number(0, 3600000), reload,
            "Milliseconds after a step's submission at which the daemon gives it up if logits are missing; "
            "its columns get the error given_up. 0: never.",
            &Config::sessions, &Sessions::step_deadline_ms),
    };
}

ValueType<std::uint32_t> hot_size() {
    std::vector<std::pair<std::string, std::uint32_t>> sizes{{"0", 0}};
    for (const std::uint32_t size : proto::kHotSizes) sizes.emplace_back(std::to_string(size), size);
    return choice<std::uint32_t>(sizes);
}

std::vector<Key> hot_set_keys() {
    return {
        key("hot_set.size", hot_size(), reload,
            "Size of the hot set of new sequences, in ids. Above 0, their `rng: race` becomes `shvs`, whose "
            "tokens depend on the set and the order. With 0, a request for `shvs` uses the blocks that its "
            "row puts first.",
            &Config::hot_set, &HotSet::size),
        key("hot_set.adapt", on_off(), reload,
            "Whether the daemon changes the size to the one whose draws cost least. The tokens of "
            "untruncated draws then depend on when their sequence was admitted.",
            &Config::hot_set, &HotSet::adapt),
        key("hot_set.least", hot_size(), reload, "Smallest size that adapting may choose.", &Config::hot_set,
            &HotSet::least),
        key("hot_set.most", hot_size(), reload,
            "Largest size that adapting may choose; not below hot_set.least.", &Config::hot_set,
            &HotSet::most),
        key("hot_set.hysteresis_percent", whole_number(0, 50), reload,
            "By how many percent another size must be cheaper before the daemon changes to it.",
            &Config::hot_set, &HotSet::hysteresis_percent),
    };
}

std::vector<Key> message_keys() {
    return {
        key("control.endpoint", endpoint(), restart,
            "ZMQ endpoint for control messages and streamed decisions. TCP needs both keys of control.curve.",
            &Config::control, &Control::endpoint),
        key("control.ipc_mode", file_mode(), restart, "Permissions of the sockets of ipc:// endpoints.",
            &Config::control, &Control::ipc_mode),
        key("control.max_message_bytes", byte_size(4 * kib, 256 * mib), restart,
            "Largest control message that is accepted.", &Config::control, &Control::max_message_bytes),
        key("control.connections_per_peer", whole_number(1, 65536), reload,
            "Connections that one user (over TCP: one address) may have to the control socket; more are "
            "closed at once. At most half of what the limit of open files leaves for "
            "connections, so that one user cannot keep others out.",
            &Config::control, &Control::connections_per_peer),
        key("control.curve.secret_key_file", optional_file(), restart,
            "File with the daemon's CURVE secret key; empty for no encryption.", &Config::control,
            &Control::curve, &Curve::secret_key_file),
        key("control.curve.authorized_keys_file", optional_file(), restart,
            "File with the public keys of the clients that may connect, one a line; SIGHUP reads it again.",
            &Config::control, &Control::curve, &Curve::authorized_keys_file),
    };
}

std::vector<Key> observation_keys() {
    const ValueType<LogLevel> level = choice<LogLevel>({{"trace", LogLevel::trace},
                                                        {"debug", LogLevel::debug},
                                                        {"info", LogLevel::info},
                                                        {"warn", LogLevel::warn},
                                                        {"error", LogLevel::error}});
    const ValueType<LogFormat> format =
        choice<LogFormat>({{"text", LogFormat::text}, {"json", LogFormat::json}});
    return {
        key("metrics.listen", listen_address(), restart,
            "Address of the HTTP server for the page at /, /metrics, /livez, /readyz and /explain. Port 0 "
            "takes a free one; so does the default if another program has its port. The log says which.",
            &Config::metrics, &Metrics::listen),
        key("metrics.hosts", host_names(), restart,
            "Further host names by which clients reach metrics.listen, such as a proxy's. IP addresses, "
            "localhost and the host's own name always work. Any other name is refused, which stops DNS "
            "rebinding.",
            &Config::metrics, &Metrics::hosts),
        key("metrics.explain", on_off(), restart,
            "Whether /explain shows a sequence's next decision, with its logits, prompt and output, to "
            "everyone who can reach metrics.listen (docs/security.md).",
            &Config::metrics, &Metrics::explain),
        key("metrics.tokenizer", optional_file(), restart,
            "The model's tokenizer.json or tiktoken file, with which /explain shows tokens as text; empty: "
            "ids only.",
            &Config::metrics, &Metrics::tokenizer),
        key("log.level", level, reload, "Least severe level that is logged.", &Config::log, &Log::level),
        key("log.format", format, reload,
            "Format of log lines: text (key=value; shorter on a terminal) or json.", &Config::log,
            &Log::format),
    };
}

template <class T>
const T* find_path(const std::vector<T>& all, std::string_view path) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const T& item) { return item.path == path; });
    return found == all.end() ? nullptr : &*found;
}

}  // namespace

const std::vector<Key>& keys() {
    static const std::vector<Key> all = [] {
        std::vector<Key> joined;
        for (auto& group : {general_keys(), shm_keys(), sampler_keys(), session_keys(), hot_set_keys(),
                            message_keys(), observation_keys()}) {
            joined.insert(joined.end(), group.begin(), group.end());
        }
        return joined;
    }();
    return all;
}

const std::vector<Section>& sections() {
    static const std::vector<Section> all{
        {"shm", "The shared-memory segments."},
        {"samplers", "The processes that decide tokens."},
        {"sessions", "Limits of what engines may request. A refusal names the limit."},
        {"hot_set", "The hot set of `rng: shvs`, in sessions that have a hotness order (docs/hotsets.md)."},
        {"control", "The control socket."},
        {"control.curve", "Encryption and authentication of the control socket (ZMQ CURVE)."},
        {"metrics", "Prometheus metrics and health checks."},
        {"log", "The log, written to standard error."},
    };
    return all;
}

const Key* find_key(std::string_view path) {
    return find_path(keys(), path);
}
const Section* find_section(std::string_view path) {
    return find_path(sections(), path);
}

}  // namespace croupier::config
