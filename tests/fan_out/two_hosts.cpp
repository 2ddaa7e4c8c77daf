#include "tests/fan_out/two_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

namespace croupier::testing {
namespace {

bool run(const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;
}

// The calling thread's namespace, and again the one before.
class Namespace {
  public:
    explicit Namespace(const std::string& name)
        : before_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
        const int fd = ::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
        if (before_ < 0 || fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) {
            throw std::system_error(errno, std::generic_category(), "cannot enter namespace " + name);
        }
        ::close(fd);
    }
    Namespace(const Namespace&) = delete;
    Namespace& operator=(const Namespace&) = delete;
    ~Namespace() {
        (void)::setns(before_, CLONE_NEWNET);
        ::close(before_);
    }

  private:
    int before_;
};

}  // namespace

std::optional<TwoHosts> TwoHosts::in_namespaces(std::string& why_not) {
    TwoHosts hosts;
    const std::string tag = std::to_string(::getpid());
    const std::string engine = "croupier-e-" + tag;
    const std::string stage = "croupier-s-" + tag;
    std::optional<TwoHosts> made;
    if (!run("ip netns add " + engine)) {
        why_not = "network namespaces may not be made here (ip netns add)";
        return made;
    }
    hosts.engine_ = engine;
    if (run("ip netns add " + stage)) hosts.stage_ = stage;
    hosts.engine_address_ = "10.231.7.1";
    hosts.stage_address_ = "10.231.7.2";
    const std::vector<std::pair<std::string, std::string>> commands = {
        {engine, "link add croupier0 type veth peer name croupier0 netns " + stage},
        {engine, "addr add 10.231.7.1/30 dev croupier0"},
        {stage, "addr add 10.231.7.2/30 dev croupier0"},
        {engine, "link set croupier0 up"},
        {stage, "link set croupier0 up"},
        {engine, "link set lo up"},
        {stage, "link set lo up"}};
    for (const auto& [name, command] : commands) {
        std::string whole = "ip -n ";
        whole.append(name).append(" ").append(command);
        if (run(whole)) continue;
        why_not = "a veth pair cannot be made here (ip " + command + ")";
        return made;
    }
    made.emplace(std::move(hosts));
    return made;
}

TwoHosts::TwoHosts(TwoHosts&& other) noexcept
    : engine_(std::exchange(other.engine_, {})),
      stage_(std::exchange(other.stage_, {})),
      engine_address_(std::move(other.engine_address_)),
      stage_address_(std::move(other.stage_address_)) {}

TwoHosts::~TwoHosts() {
    for (const std::string& name : {engine_, stage_}) {
        if (!name.empty()) (void)run("ip netns del " + name);
    }
}

// Packets are dropped where they arrive: if the sender's own queue dropped them, its TCP would know and send
// them again sooner. The bytecode returns TC_ACT_SHOT.
bool TwoHosts::cut() const {
    bool all = true;
    for (const std::string& name : {engine_, stage_}) {
        const std::string tc = "tc -n " + name;
        all = all && run(tc + " qdisc add dev croupier0 ingress") &&
              run(tc + " filter add dev croupier0 ingress bpf direct-action bytecode '1,6 0 0 2'");
    }
    if (!all) mend();
    return all;
}

void TwoHosts::mend() const {
    for (const std::string& name : {engine_, stage_})
        (void)run("tc -n " + name + " qdisc del dev croupier0 ingress");
}

void TwoHosts::within(const std::string& name, const std::function<void()>& work) {
    if (name.empty()) return work();
    const Namespace inside(name);
    work();
}

}  // namespace croupier::testing
