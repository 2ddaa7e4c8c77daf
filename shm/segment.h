// One session's segment: created by the daemon, attached by its client, its writers and every sampler.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "proto/decision_slot.h"
#include "proto/logits_slot.h"
#include "proto/request_cell.h"
#include "proto/schedule_slot.h"
#include "proto/segment_header.h"
#include "proto/sequence_entry.h"
#include "proto/stored.h"
#include "shm/memory_placement.h"

namespace croupier::shm {

// Who may hold a liveness lock on a segment. Writers follow, one a rank.
// daemon: who answers for it, which is the daemon or, while there is none, who stands in for it.
// samplers: all processes that decide; they share it.
enum class Role : std::uint64_t { daemon = 0, client = 1, samplers = 2, first_writer = 16 };
constexpr Role writer_role(std::uint32_t rank) {
    return static_cast<Role>(static_cast<std::uint64_t>(Role::first_writer) + rank);
}

struct SegmentSpec {
    std::string directory;
    std::string instance;
    std::uint64_t session_id = 0;
    std::string name;
    proto::Geometry geometry;
    FileOwnership ownership;
    Hugepages hugepages = Hugepages::off;
    std::int32_t node = -1;             // of NUMA, where its memory should lie; -1: where the kernel likes
    proto::ElementBytes elements = {};  // but in tests, this build's
};

std::string segment_path(const std::string& directory, const std::string& instance, std::uint64_t session_id);

class Segment {
  public:
    // The new segment is locked by Role::daemon before anybody can see it.
    // `stop`: to give up in the middle of a large one.
    static Result<Segment> create(const SegmentSpec& spec, const std::stop_token& stop = {});
    // Refuses, naming both sides, whatever does not match this build's idea of the file.
    static Result<Segment> attach(const std::string& path, Access access);
    // Of an open file, by another one with locks of its own: without its name, which other users must not
    // learn and which may be gone.
    static Result<Segment> attach(int descriptor, Access access);

    const std::string& path() const { return path_; }
    std::uint64_t id() const { return id_; }
    const std::string& name() const { return name_; }
    // Private copies: what another process later scribbles over the header moves no index of ours.
    const proto::Geometry& geometry() const { return geometry_; }
    const proto::SegmentLayout& layout() const { return layout_; }
    proto::SegmentHeader& header() const { return *at<proto::SegmentHeader>(0); }
    const Mapping& mapping() const { return mapping_; }
    // False: somebody cut the file off, and what this process reads of it may be zeros of its own.
    bool intact() const;
    // Who has it open keeps it; nobody else finds it any more.
    bool removed() const { return is_removed(file_); }
    // Without its locks, for a process that attaches to it.
    Result<FileDescriptor> open_again() const { return shm::open_again(file_.get(), Access::read_write); }
    // What of `hugepages` was had; empty when they were not asked for.
    const std::string& hugepage_note() const { return hugepage_note_; }

    bool hold(Role role) { return try_lock_byte(file_, static_cast<std::uint64_t>(role)); }
    bool share(Role role) { return try_share_byte(file_, static_cast<std::uint64_t>(role)); }
    void release(Role role) { unlock_byte(file_, static_cast<std::uint64_t>(role)); }
    // By another open file: a holder does not see its own lock.
    bool is_held(Role role) const { return byte_is_locked(file_, static_cast<std::uint64_t>(role)); }

    std::uint32_t slot_of(std::uint64_t step) const {
        return static_cast<std::uint32_t>(step % geometry_.slots);
    }

    // All blocks of the vocabulary, and those of a rank, hottest first; empty: identity.
    std::span<std::uint32_t> model_order() const;
    std::span<std::uint32_t> order(std::uint32_t rank) const;
    // How many blocks at the start of each rank's slice are a hot set's; empty: there is no order, or no such
    // set.
    std::span<std::uint32_t> hot_blocks(std::uint32_t choice) const;
    proto::SequenceEntry& sequence(std::uint32_t index) const;
    proto::Stored<proto::SamplingParams> params(std::uint32_t index) const;
    proto::KeptFeedback& feedback(std::uint32_t index) const;
    proto::TokenBias* biases(std::uint32_t index) const;
    std::int32_t* stop_ids(std::uint32_t index) const;
    std::int32_t* lists(std::uint32_t index) const;
    std::int32_t* token_log(std::uint32_t index) const;
    // Of the session's client: gives the log memory for so many tokens, or more; no_memory where the host has
    // none. What it has stays.
    Result<bool> make_log_room(std::uint32_t index, std::uint64_t tokens);
    // Gives back most of it, when nothing in flight names the sequence any more.
    void give_back_log(std::uint32_t index);

    proto::ScheduleRecord& schedule(std::uint32_t slot) const;
    // With room for a full batch, as are the decisions.
    proto::StoredArray<proto::ScheduleColumn> schedule_columns(std::uint32_t slot) const;

    proto::DecisionSlotHead& decision_head(std::uint32_t slot) const;
    std::atomic<std::uint64_t>* committed(std::uint32_t slot) const;
    std::atomic<std::uint64_t>* claims(std::uint32_t slot) const;
    std::atomic<std::uint32_t>* crashes(std::uint32_t slot) const;
    proto::StoredArray<proto::Decision> decisions(std::uint32_t slot) const;
    // The drawn token's own, then the best; empty: the session has no room for any.
    proto::StoredArray<proto::RankedLogprob> logprobs(std::uint32_t slot, std::uint32_t column) const;
    // What the token was drawn from, and how many of it are there; empty: the session has no room for any.
    std::span<proto::Survivor> support(std::uint32_t slot, std::uint32_t column) const;
    proto::SupportHead& support_head(std::uint32_t slot, std::uint32_t column) const;

    std::atomic<std::uint64_t>& randoms_ready(std::uint32_t slot) const;
    proto::ColumnRandoms* randoms(std::uint32_t slot) const;
    // What the rank's writer says that each column was computed from, a RowInput.
    std::atomic<std::uint64_t>* inputs(std::uint32_t slot, std::uint32_t rank) const;
    std::uint32_t* mask_row(std::uint32_t slot, std::uint32_t row) const;
    // The tokens' bytes (text/token_table.h); empty: the session has no tokenizer.
    std::span<std::byte> token_table() const;

    proto::ReadyCell& ready(std::uint32_t slot, std::uint32_t rank) const;
    void* logits(std::uint32_t slot, std::uint32_t rank) const;
    // Of the rank's tiles: [columns][maxima_stride], with room for a full batch. Empty: no summaries.
    std::span<float> maxima(std::uint32_t slot, std::uint32_t rank) const;
    // What the rank sends of a lean step (proto/lean_part.h); null: the session's writers send rows alone.
    std::byte* lean(std::uint32_t slot, std::uint32_t rank) const;
    proto::RequestBoard& request_board(std::uint32_t slot) const;
    proto::RequestCell& request_cell(std::uint32_t slot, std::uint32_t column) const;

  private:
    Segment(std::string path, FileDescriptor file, Mapping mapping);
    static Result<Segment> attach(FileDescriptor file, const std::string& path, Access access);

    template <typename T>
    T* at(std::uint64_t offset) const {
        return reinterpret_cast<T*>(static_cast<std::byte*>(mapping_.get_address()) + offset);
    }
    template <typename T>
    proto::StoredArray<T> array_at(std::uint64_t offset, std::uint64_t stride, std::uint64_t count) const {
        return {at<std::byte>(offset), stride, count};
    }
    std::uint64_t decision_slot(std::uint32_t slot) const {
        return layout_.decisions + slot * layout_.decision_stride;
    }
    std::uint64_t sequence_offset(std::uint32_t index) const {
        return layout_.sequences + index * layout_.sequence_stride;
    }

    std::string path_;
    FileDescriptor file_;
    Mapping mapping_;
    std::uint64_t id_ = 0;
    std::string name_;
    proto::Geometry geometry_;
    proto::SegmentLayout layout_;
    std::string hugepage_note_;
};

}  // namespace croupier::shm
