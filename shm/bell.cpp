#include "shm/bell.h"

#include <unistd.h>

#include <cstddef>
#include <new>
#include <utility>

#include "shm/futex.h"
#include "shm/stamped_file.h"

namespace croupier::shm {
namespace {

constexpr std::uint32_t kBellBytes = 4096;
constexpr StampedKind kBell{"bell",
                            {proto::kBellMagic, proto::kBellVersion, kBellBytes},
                            {" has bell version ", ", this build speaks ", ""},
                            {" says that it has ", " bytes, a bell has ", ""},
                            Errc::corrupt_header};
static_assert(offsetof(proto::BellPage, magic) == offsetof(Stamp, magic) &&
              offsetof(proto::BellPage, version) == offsetof(Stamp, version) &&
              offsetof(proto::BellPage, bytes) == offsetof(Stamp, bytes));

void write_header(proto::BellPage& page) {
    page.magic = proto::kBellMagic;
    page.version = proto::kBellVersion;
    page.bytes = kBellBytes;
}

void write_page(const Mapping& mapping) {
    write_header(*new (mapping.get_address()) proto::BellPage{});
}

bool header_is_sound(const proto::BellPage& page) {
    return Stamp{page.magic, page.version, page.bytes} == kBell.stamp;
}

}  // namespace

std::string bell_path(const std::string& directory, const std::string& instance) {
    return directory + "/croupier-" + instance + ".bell";
}

Result<Bell> Bell::open(const std::string& path) {
    CROUPIER_TRY_VALUE(opened, open_stamped(path, Access::read_write, kBell));
    return Bell(std::move(opened.file), std::move(opened.mapping));
}

Result<Bell> Bell::create_or_adopt(const std::string& directory, const std::string& instance,
                                   const FileOwnership& ownership) {
    const std::string path = bell_path(directory, instance);
    // One that is there is mended and never replaced: clients that live have mapped it. Whatever stands in
    // it, they may have written; a bell of another version would have another name.
    auto present = open_file(path, Access::read_write);
    if (present) return adopt(std::move(present).value(), path, ownership);
    if (present.error().code == Errc::permission_denied) return present.error();
    ::unlink(path.c_str());
    CROUPIER_TRY_VALUE(file, create_unnamed(directory, kBellBytes, ownership));
    CROUPIER_TRY(allocate(file, kBellBytes, directory));
    CROUPIER_TRY_VALUE(mapping, map_file(file, kBellBytes, Access::read_write, path));
    write_page(mapping);
    CROUPIER_TRY(publish_name(file, path));
    return Bell(std::move(file), std::move(mapping));
}

Result<Bell> Bell::adopt(FileDescriptor file, const std::string& path, const FileOwnership& ownership) {
    CROUPIER_TRY(own_file(file, ownership, path));
    if (::ftruncate(file.get(), kBellBytes) != 0) return system_failure("cannot size", path, errno);
    CROUPIER_TRY(allocate(file, kBellBytes, path));
    CROUPIER_TRY_VALUE(mapping, map_file(file, kBellBytes, Access::read_write, path));
    Bell bell(std::move(file), std::move(mapping));
    bell.mend();
    return bell;
}

Result<Bell> Bell::attach(const std::string& directory, const std::string& instance) {
    return open(bell_path(directory, instance));
}

void Bell::mend() {
    const auto bytes = file_size(file_, "the bell");
    if (!mapping_.lost() && bytes && bytes.value() == kBellBytes) {
        // The counts stay: samplers sleep on them.
        if (!header_is_sound(page())) write_header(page());
        return;
    }
    // Clients keep the file that they have mapped: it is this one that must be whole again.
    if (::ftruncate(file_.get(), kBellBytes) != 0) return;
    auto mapping = map_file(file_, kBellBytes, Access::read_write, "the bell");
    if (!mapping) return;
    mapping_ = std::move(mapping).value();
    write_page(mapping_);
}

void Bell::ring() {
    auto& bell = page();
    // seq_cst on both words, here and in sleep(): either the sleeper sees the new count, or we see its bit.
    bell.rung.fetch_add(1, std::memory_order_seq_cst);
    for (auto& word : bell.sleepers) {
        if (word.load(std::memory_order_seq_cst) != 0) {
            futex_wake_all(bell.rung);
            return;
        }
    }
}

std::uint32_t Bell::seen() const {
    return page().rung.load(std::memory_order_acquire);
}

void Bell::sleep(std::uint32_t sampler, std::uint32_t seen, std::chrono::nanoseconds timeout) {
    auto& bell = page();
    auto& word = bell.sleepers[sampler / 64];
    const std::uint64_t bit = 1ULL << (sampler % 64);
    word.fetch_or(bit, std::memory_order_seq_cst);
    if (bell.rung.load(std::memory_order_seq_cst) == seen) futex_wait(bell.rung, seen, timeout);
    word.fetch_and(~bit, std::memory_order_relaxed);
}

void Bell::forget_sleeper(std::uint32_t sampler) {
    page().sleepers[sampler / 64].fetch_and(~(1ULL << (sampler % 64)), std::memory_order_relaxed);
}

}  // namespace croupier::shm
