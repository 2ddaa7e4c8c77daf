#include "shm/segment.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "shm/memory_placement.h"
#include "shm/stamped_file.h"

namespace croupier::shm {
namespace {

using proto::SegmentHeader;

// A token log grows by so much, 4,096 tokens, and a slot of the sequence table keeps so much.
constexpr std::uint64_t kLogPiece = 16384;

void copy_text(char* to, std::size_t capacity, const std::string& from) {
    std::strncpy(to, from.c_str(), capacity - 1);
    to[capacity - 1] = '\0';
}

constexpr StampedKind kSegment{
    "segment",
    {proto::kSegmentMagic, proto::kSegmentVersion, proto::kHeaderBytes},
    {": version is ", " in the segment and ", " in this build; update the older of the two"},
    {": header_bytes is ", " in the segment and ", " in this build"},
    Errc::wrong_size};

Result<bool> check_identity(const SegmentHeader& header, std::uint64_t file_bytes, const std::string& path) {
    const Stamp stamp{header.magic, header.version, header.header_bytes};
    CROUPIER_TRY(check_stamp(stamp, kSegment, path));
    if (header.total_bytes != file_bytes) {
        return fail(Errc::wrong_size, path + ": the header says " + std::to_string(header.total_bytes) +
                                          " bytes, the file has " + std::to_string(file_bytes));
    }
    return true;
}

Result<bool> check_content(const SegmentHeader& header, const proto::Geometry& geometry,
                           const proto::SegmentLayout& layout, const std::string& path) {
    if (auto fault = proto::geometry_fault(geometry)) return fail(Errc::bad_geometry, path + ": " + *fault);
    // What another minor version lays otherwise is not known here.
    if (header.minor == proto::kSegmentMinor && layout != proto::layout_of(geometry, {})) {
        return fail(Errc::corrupt_header, path + ": its layout is not the one that its geometry gives");
    }
    if (auto fault = proto::layout_fault(geometry, layout, header.total_bytes)) {
        return fail(Errc::corrupt_header, path + ": " + *fault);
    }
    if (proto::header_checksum(header) != header.checksum) {
        return fail(Errc::corrupt_header, path + ": the header's checksum does not match its content");
    }
    return true;
}

// Copied before it is checked, because the header may be written to meanwhile.
Result<std::string> copy_name(const char* text, std::size_t capacity, const std::string& path) {
    const std::string copy(text, capacity);
    const auto end = copy.find('\0');
    if (end == std::string::npos) {
        return fail(Errc::corrupt_header, path + ": a name in the header does not end");
    }
    return copy.substr(0, end);
}

void write_header(void* memory, const SegmentSpec& spec, const proto::SegmentLayout& layout) {
    auto* header = new (memory) SegmentHeader{};
    header->magic = proto::kSegmentMagic;
    header->version = proto::kSegmentVersion;
    header->header_bytes = proto::kHeaderBytes;
    header->minor = proto::kSegmentMinor;
    header->total_bytes = layout.total_bytes;
    header->session_id = spec.session_id;
    copy_text(header->name, sizeof(header->name), spec.name);
    copy_text(header->instance, sizeof(header->instance), spec.instance);
    header->geometry = spec.geometry;
    header->layout = layout;
    header->checksum = proto::header_checksum(*header);
    header->state.store(proto::SessionState::active, std::memory_order_relaxed);
}

Result<bool> allocate_session(const FileDescriptor& file, std::uint64_t bytes, const std::string& directory,
                              const std::stop_token& stop) {
    auto allocated = allocate(file, bytes, directory, stop);
    if (allocated || allocated.error().code != Errc::no_memory) return allocated;
    return fail(Errc::no_memory, allocated.error().message +
                                     ", or open the session with a smaller batch, fewer steps in flight or "
                                     "fewer sequences");
}

}  // namespace

std::string segment_path(const std::string& directory, const std::string& instance,
                         std::uint64_t session_id) {
    return directory + "/croupier-" + instance + "-" + std::to_string(session_id) + ".seg";
}

Segment::Segment(std::string path, FileDescriptor file, Mapping mapping)
    : path_(std::move(path)), file_(std::move(file)), mapping_(std::move(mapping)) {}

Result<Segment> Segment::create(const SegmentSpec& spec, const std::stop_token& stop) {
    if (auto fault = proto::geometry_fault(spec.geometry)) return fail(Errc::bad_geometry, *fault);
    const proto::SegmentLayout layout = proto::layout_of(spec.geometry, spec.elements);
    const std::string path = segment_path(spec.directory, spec.instance, spec.session_id);
    CROUPIER_TRY_VALUE(file, create_unnamed(spec.directory, layout.total_bytes, spec.ownership));
    if (!try_lock_byte(file, static_cast<std::uint64_t>(Role::daemon))) {
        return system_failure("cannot lock", path, errno);
    }
    CROUPIER_TRY_VALUE(mapping, map_file(file, layout.total_bytes, Access::read_write, path));
    // Both rule the pages that are allocated after them.
    place_on_node(mapping, spec.node);
    const std::uint64_t at_open = layout.bytes_at_open();
    if (spec.hugepages != Hugepages::off) ask_for_huge_pages(mapping, at_open);
    CROUPIER_TRY(allocate_session(file, at_open, spec.directory, stop));
    CROUPIER_TRY_VALUE(note, huge_pages_had(mapping, at_open, spec.hugepages, spec.directory));
    write_header(mapping.get_address(), spec, layout);
    CROUPIER_TRY(publish_name(file, path));
    Segment segment(path, std::move(file), std::move(mapping));
    segment.id_ = spec.session_id;
    segment.name_ = spec.name;
    segment.geometry_ = spec.geometry;
    segment.layout_ = layout;
    segment.hugepage_note_ = std::move(note);
    return segment;
}

Result<Segment> Segment::attach(const std::string& path, Access access) {
    CROUPIER_TRY_VALUE(file, open_file(path, access));
    return attach(std::move(file), path, access);
}

Result<Segment> Segment::attach(int descriptor, Access access) {
    CROUPIER_TRY_VALUE(file, shm::open_again(descriptor, access));
    return attach(std::move(file), path_of(descriptor), access);
}

Result<Segment> Segment::attach(FileDescriptor file, const std::string& path, Access access) {
    CROUPIER_TRY_VALUE(size, file_size(file, path));
    if (size < proto::kHeaderBytes) {
        return fail(Errc::wrong_size, path + " has " + std::to_string(size) +
                                          " bytes, a segment's header alone has " +
                                          std::to_string(proto::kHeaderBytes));
    }
    CROUPIER_TRY_VALUE(mapping, map_file(file, size, access, path));
    const auto& header = *static_cast<const SegmentHeader*>(mapping.get_address());
    CROUPIER_TRY(check_identity(header, size, path));
    // Copied before it is checked: what is checked is then what is used.
    const proto::SegmentLayout layout = header.layout;
    const proto::Geometry geometry = header.geometry;
    CROUPIER_TRY(check_content(header, geometry, layout, path));
    CROUPIER_TRY_VALUE(name, copy_name(header.name, sizeof(header.name), path));
    CROUPIER_TRY(copy_name(header.instance, sizeof(header.instance), path));
    const std::uint64_t id = header.session_id;
    Segment segment(path, std::move(file), std::move(mapping));
    segment.id_ = id;
    segment.name_ = std::move(name);
    segment.geometry_ = geometry;
    segment.layout_ = layout;
    return segment;
}

bool Segment::intact() const {
    const auto bytes = file_size(file_, path_);
    return !mapping_.lost() && bytes && bytes.value() == layout_.total_bytes;
}

std::span<std::uint32_t> Segment::hot_blocks(std::uint32_t choice) const {
    if (geometry_.has_order == 0 || choice == 0 || choice >= proto::kHotChoices) return {};
    return {at<std::uint32_t>(layout_.hot_blocks) + std::size_t{choice - 1} * geometry_.tp, geometry_.tp};
}

std::span<std::byte> Segment::token_table() const {
    return {at<std::byte>(layout_.token_table), geometry_.token_table_bytes};
}

std::span<std::uint32_t> Segment::model_order() const {
    return {at<std::uint32_t>(layout_.order), geometry_.has_order != 0 ? geometry_.blocks() : 0};
}

std::span<std::uint32_t> Segment::order(std::uint32_t rank) const {
    if (geometry_.has_order == 0) return {};
    std::size_t before = geometry_.blocks();
    for (std::uint32_t i = 0; i < rank; ++i) before += geometry_.shards[i].blocks();
    return {at<std::uint32_t>(layout_.order) + before, geometry_.shards[rank].blocks()};
}

proto::SequenceEntry& Segment::sequence(std::uint32_t index) const {
    return *at<proto::SequenceEntry>(sequence_offset(index));
}

proto::Stored<proto::SamplingParams> Segment::params(std::uint32_t index) const {
    return {at<std::byte>(sequence_offset(index) + layout_.params_offset), layout_.elements.params};
}

proto::KeptFeedback& Segment::feedback(std::uint32_t index) const {
    return *at<proto::KeptFeedback>(sequence_offset(index) + layout_.feedback_offset);
}

proto::TokenBias* Segment::biases(std::uint32_t index) const {
    return at<proto::TokenBias>(sequence_offset(index) + layout_.bias_offset);
}

std::int32_t* Segment::stop_ids(std::uint32_t index) const {
    return at<std::int32_t>(sequence_offset(index) + layout_.stops_offset);
}

std::int32_t* Segment::lists(std::uint32_t index) const {
    return at<std::int32_t>(sequence_offset(index) + layout_.lists_offset);
}

std::int32_t* Segment::token_log(std::uint32_t index) const {
    return at<std::int32_t>(layout_.token_logs + index * layout_.token_log_stride);
}

Result<bool> Segment::make_log_room(std::uint32_t index, std::uint64_t tokens) {
    auto& room = sequence(index).log_room;
    if (tokens <= room.load(std::memory_order_relaxed)) return true;
    const std::uint64_t pieces = (tokens * sizeof(std::int32_t) + kLogPiece - 1) / kLogPiece;
    const std::uint64_t bytes = std::min(pieces * kLogPiece, layout_.token_log_stride);
    const std::uint64_t at = layout_.token_logs + index * layout_.token_log_stride;
    // Pages that are there keep their content.
    if (const int error = take_memory(file_, at, bytes); error != 0)
        return system_failure("cannot allocate " + std::to_string(bytes) + " bytes for a token log in", path_,
                              error);
    // SYNC: release; pairs with the acquire of samplers.
    room.store(static_cast<std::uint32_t>(bytes / sizeof(std::int32_t)), std::memory_order_release);
    return true;
}

void Segment::give_back_log(std::uint32_t index) {
    auto& room = sequence(index).log_room;
    const std::uint64_t bytes = std::uint64_t{room.load(std::memory_order_relaxed)} * sizeof(std::int32_t);
    if (bytes <= kLogPiece || bytes > layout_.token_log_stride) return;
    // In this order: a client that dies in between leaves pages that its successor counts as absent.
    room.store(kLogPiece / sizeof(std::int32_t), std::memory_order_relaxed);
    const std::uint64_t at = layout_.token_logs + index * layout_.token_log_stride + kLogPiece;
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                static_cast<off_t>(bytes - kLogPiece));
}

proto::ScheduleRecord& Segment::schedule(std::uint32_t slot) const {
    return *at<proto::ScheduleRecord>(layout_.schedule + slot * layout_.schedule_stride);
}

proto::StoredArray<proto::ScheduleColumn> Segment::schedule_columns(std::uint32_t slot) const {
    return array_at<proto::ScheduleColumn>(
        layout_.schedule + slot * layout_.schedule_stride + layout_.columns_offset, layout_.elements.column,
        geometry_.max_batch);
}

proto::DecisionSlotHead& Segment::decision_head(std::uint32_t slot) const {
    return *at<proto::DecisionSlotHead>(decision_slot(slot));
}

std::atomic<std::uint64_t>* Segment::committed(std::uint32_t slot) const {
    return at<std::atomic<std::uint64_t>>(decision_slot(slot) + sizeof(proto::DecisionSlotHead));
}

std::atomic<std::uint64_t>* Segment::claims(std::uint32_t slot) const {
    return at<std::atomic<std::uint64_t>>(decision_slot(slot) + layout_.claims_offset);
}

std::atomic<std::uint32_t>* Segment::crashes(std::uint32_t slot) const {
    return at<std::atomic<std::uint32_t>>(decision_slot(slot) + layout_.crashes_offset);
}

proto::StoredArray<proto::RankedLogprob> Segment::logprobs(std::uint32_t slot, std::uint32_t column) const {
    if (geometry_.max_logprobs == 0) return {};
    const std::uint64_t offset = layout_.logprobs_offset + column * layout_.logprobs_stride;
    return array_at<proto::RankedLogprob>(decision_slot(slot) + offset, layout_.elements.ranked,
                                          std::uint64_t{geometry_.max_logprobs} + 1);
}

proto::SupportHead& Segment::support_head(std::uint32_t slot, std::uint32_t column) const {
    return *at<proto::SupportHead>(layout_.support + slot * layout_.support_slot_stride +
                                   column * layout_.support_stride);
}

std::span<proto::Survivor> Segment::support(std::uint32_t slot, std::uint32_t column) const {
    if (geometry_.max_support == 0) return {};
    auto* head = reinterpret_cast<proto::Survivor*>(&support_head(slot, column));
    return {head + 1, geometry_.max_support};
}

proto::StoredArray<proto::Decision> Segment::decisions(std::uint32_t slot) const {
    return array_at<proto::Decision>(decision_slot(slot) + layout_.decision_offset, layout_.elements.decision,
                                     geometry_.max_batch);
}

std::atomic<std::uint64_t>& Segment::randoms_ready(std::uint32_t slot) const {
    return *at<std::atomic<std::uint64_t>>(layout_.randoms + slot * layout_.random_stride);
}

proto::ColumnRandoms* Segment::randoms(std::uint32_t slot) const {
    // The ready word has a cache line of its own before the numbers.
    return at<proto::ColumnRandoms>(layout_.randoms + slot * layout_.random_stride + 64);
}

std::atomic<std::uint64_t>* Segment::inputs(std::uint32_t slot, std::uint32_t rank) const {
    return at<std::atomic<std::uint64_t>>(layout_.inputs + slot * layout_.input_stride +
                                          rank * layout_.input_rank_stride);
}

std::uint32_t* Segment::mask_row(std::uint32_t slot, std::uint32_t row) const {
    return at<std::uint32_t>(layout_.masks + slot * layout_.mask_stride +
                             row * layout_.mask_row_words * sizeof(std::uint32_t));
}

proto::ReadyCell& Segment::ready(std::uint32_t slot, std::uint32_t rank) const {
    return *at<proto::ReadyCell>(layout_.ready + slot * layout_.ready_stride +
                                 rank * sizeof(proto::ReadyCell));
}

void* Segment::logits(std::uint32_t slot, std::uint32_t rank) const {
    return at<void*>(layout_.logits + slot * layout_.logits_stride + layout_.rank_offset[rank]);
}

std::byte* Segment::lean(std::uint32_t slot, std::uint32_t rank) const {
    if (geometry_.lean_blocks == 0) return nullptr;
    return at<std::byte>(layout_.lean + slot * layout_.lean_slot_stride + rank * layout_.lean_rank_stride);
}

proto::RequestBoard& Segment::request_board(std::uint32_t slot) const {
    return *at<proto::RequestBoard>(layout_.requests + slot * layout_.request_slot_stride);
}

proto::RequestCell& Segment::request_cell(std::uint32_t slot, std::uint32_t column) const {
    return *at<proto::RequestCell>(layout_.requests + slot * layout_.request_slot_stride +
                                   sizeof(proto::RequestBoard) + column * layout_.request_stride);
}

std::span<float> Segment::maxima(std::uint32_t slot, std::uint32_t rank) const {
    if (geometry_.has_summaries == 0) return {};
    return {at<float>(layout_.logits + slot * layout_.logits_stride + layout_.maxima_offset[rank]),
            std::size_t{geometry_.maxima_stride(rank)} * geometry_.max_batch};
}

}  // namespace croupier::shm
