#include "daemon/worker/segment_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace croupier::daemon {
namespace {

struct Message {
    explicit Message(std::uint64_t& id) : part{&id, sizeof(id)} {
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control.data();
        header.msg_controllen = control.size();
    }

    iovec part;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr header{};
};

bool send_segment(const shm::FileDescriptor& line, std::uint64_t id, const shm::FileDescriptor& file) {
    Message message(id);
    cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = file.get();
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(descriptor));
    return ::sendmsg(line.get(), &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(sizeof(id));
}

}  // namespace

shm::Result<bool> SegmentChannel::offer(const shm::Segment& segment) {
    CROUPIER_TRY_VALUE(file, segment.open_again());
    const std::uint64_t id = segment.id();
    segments_[id] = std::move(file);
    for (Line& line : lines_) {
        line.owed.insert(id);
        send_owed(line);
    }
    return true;
}

void SegmentChannel::withdraw(std::uint64_t session_id) {
    segments_.erase(session_id);
    for (Line& line : lines_) line.owed.erase(session_id);
}

shm::Result<shm::FileDescriptor> SegmentChannel::connect(std::uint32_t sampler) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return shm::system_failure("cannot open", "a pair of sockets", errno);
    shm::FileDescriptor theirs(ends[1]);
    Line& line = lines_[sampler];
    line = Line{shm::FileDescriptor(ends[0]), {}};
    for (const auto& [id, file] : segments_) line.owed.insert(id);
    send_owed(line);
    return theirs;
}

bool SegmentChannel::catch_up() {
    bool sent = false;
    for (Line& line : lines_) sent = (!line.owed.empty() && send_owed(line)) || sent;
    return sent;
}

bool SegmentChannel::send_owed(Line& line) {
    bool sent = false;
    while (!line.owed.empty()) {
        const std::uint64_t id = *line.owed.begin();
        if (!send_segment(line.end, id, segments_.at(id))) return sent;
        line.owed.erase(id);
        sent = true;
    }
    return sent;
}

std::optional<ReceivedSegment> receive_segment(int line) {
    ReceivedSegment received;
    Message message(received.session_id);
    const auto length = ::recvmsg(line, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (length != static_cast<ssize_t>(sizeof(received.session_id))) return std::nullopt;
    const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
    // Without room for another descriptor there is none: the session is not served, and the log says so.
    if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(rights), sizeof(descriptor));
        received.file = shm::FileDescriptor(descriptor);
    }
    return received;
}

}  // namespace croupier::daemon
