#include "gpu_writer/copy_path.h"

#include <algorithm>

#include "gpu_writer/copy_chunks.h"

namespace croupier::gpu_writer {
namespace {

// The tiling of what follows begins where 16-byte stores may.
std::uint32_t first_chunk_of(const SliceRows& rows, std::uint64_t tile_row_bytes) {
    const std::uint32_t granule = tile_granule(tile_row_bytes);
    const std::uint32_t tiles = tiles_in(kFirstChunk, tile_row_bytes);
    return std::min((tiles + granule - 1) / granule * granule, rows.tiles);
}

}  // namespace

shm::Result<CopyPath> CopyPath::make(const CopyRoom& room) {
    CopyPath path;
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    CROUPIER_TRY(cuda_done(
        cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &entry, 11070, cudaEnableDefault, &found),
        "cannot look for cuStreamWriteValue64 in the driver"));
    if (found != cudaDriverEntryPointSuccess || entry == nullptr) {
        return shm::fail(shm::Errc::system_error,
                         "the driver has no cuStreamWriteValue64, which the path `copy` publishes with: "
                         "choose the path `store`");
    }
    path.write_value_ = reinterpret_cast<PFN_cuStreamWriteValue64_v11070>(entry);
    CROUPIER_TRY(keep(path.copying_, make_stream()));
    CROUPIER_TRY(keep(path.publishing_, make_stream()));
    for (Stage& stage : path.stages_) {
        CROUPIER_TRY(keep(stage, make_stage(room)));
    }
    return path;
}

shm::Result<CopyPath::Stage> CopyPath::make_stage(const CopyRoom& room) {
    Stage stage;
    CROUPIER_TRY(keep(stage.elements, device_array<std::byte>(room.elements, "a step's tiles")));
    if (room.maxima != 0) {
        CROUPIER_TRY(keep(stage.maxima, device_array<float>(room.maxima / sizeof(float), "a step's maxima")));
    }
    CROUPIER_TRY(keep(stage.first_tiled, make_event()));
    CROUPIER_TRY(keep(stage.tiled, make_event()));
    CROUPIER_TRY(keep(stage.sent, make_event()));
    return stage;
}

shm::Result<bool> CopyPath::wait_for(const Event& event, cudaStream_t waiting) {
    return cuda_done(cudaStreamWaitEvent(waiting, event.get(), 0), "a stream cannot wait for an event");
}

shm::Result<bool> CopyPath::publish(std::uint64_t address, std::uint64_t value) {
    // With a fence before it, so that what the stream waited for is visible first. The flag that drops the
    // fence is not for this version of the function.
    const CUresult status = write_value_(publishing_.get(), address, value, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (status == CUDA_SUCCESS) return true;
    return shm::fail(shm::Errc::system_error, "cuStreamWriteValue64 failed with CUDA driver error " +
                                                  std::to_string(static_cast<int>(status)) +
                                                  ": choose the path `store`");
}

shm::Result<bool> CopyPath::tile(const SliceRows& rows, const Stage& stage, const CopyTarget& target,
                                 std::uint32_t first_chunk, std::uint64_t* next, cudaStream_t worker) {
    const std::string what = "cannot launch the tiling of a step";
    CROUPIER_TRY(wait_for(stage.sent, worker));
    const SliceTarget staged{stage.elements.get(), stage.maxima.get(), rows.maxima_stride, target.columns};
    CROUPIER_TRY(cuda_done(launch_tiling(rows, staged, {0, first_chunk}, next, worker), what));
    CROUPIER_TRY(cuda_done(cudaEventRecord(stage.first_tiled.get(), worker), what));
    if (first_chunk == rows.tiles) return true;
    CROUPIER_TRY(cuda_done(launch_tiling(rows, staged, {first_chunk, rows.tiles}, nullptr, worker), what));
    return cuda_done(cudaEventRecord(stage.tiled.get(), worker), what);
}

// All in one: they are whole when the last tile is, and each copy holds up the engine for longer than these
// bytes do.
shm::Result<bool> CopyPath::send_maxima(const SliceRows& rows, const Stage& stage, const CopyTarget& target) {
    if (target.maxima == nullptr) return true;
    const std::size_t bytes = std::size_t{target.columns} * rows.maxima_stride * sizeof(float);
    return cuda_done(
        cudaMemcpyAsync(target.maxima, stage.maxima.get(), bytes, cudaMemcpyDeviceToHost, copying_.get()),
        "cannot send a step's maxima");
}

shm::Result<bool> CopyPath::send_chunk(const Stage& stage, const CopyTarget& target, TileRange tiles,
                                       std::uint64_t tile_row_bytes) {
    const std::size_t first = tiles.first * tile_row_bytes;
    CROUPIER_TRY(cuda_done(
        cudaMemcpyAsync(static_cast<std::byte*>(target.elements) + first, stage.elements.get() + first,
                        (tiles.end - tiles.first) * tile_row_bytes, cudaMemcpyDeviceToHost, copying_.get()),
        "cannot send a step's tiles"));
    CROUPIER_TRY(cuda_done(cudaEventRecord(stage.sent.get(), copying_.get()), "cannot mark a chunk"));
    CROUPIER_TRY(wait_for(stage.sent, publishing_.get()));
    return publish(target.ready, target.word.pack() + tiles.end);
}

shm::Result<bool> CopyPath::send_rest(const Stage& stage, const CopyTarget& target, TileRange tiles,
                                      std::uint64_t tile_row_bytes) {
    std::uint64_t bytes = kFirstChunk;
    for (std::uint32_t first = tiles.first; first < tiles.end;) {
        const std::uint32_t end = chunk_end(first, tiles.end, tile_row_bytes, bytes);
        CROUPIER_TRY(send_chunk(stage, target, {first, end}, tile_row_bytes));
        first = end;
    }
    return true;
}

shm::Result<bool> CopyPath::send(const SliceRows& rows, const CopyTarget& target, std::uint64_t* next,
                                 cudaStream_t worker) {
    const Stage& stage = stages_[sent_ % stages_.size()];
    const std::uint64_t row_bytes =
        std::uint64_t{target.columns} * rows.tile * proto::element_bytes(rows.dtype);
    const std::uint32_t first_chunk = first_chunk_of(rows, row_bytes);
    CROUPIER_TRY(tile(rows, stage, target, first_chunk, next, worker));

    const bool whole = first_chunk == rows.tiles;
    CROUPIER_TRY(wait_for(stage.first_tiled, copying_.get()));
    // On the tiles' own stream and before the last of them: on another one they might wait for all copies.
    if (whole) {
        CROUPIER_TRY(send_maxima(rows, stage, target));
    }
    CROUPIER_TRY(send_chunk(stage, target, {0, first_chunk}, row_bytes));
    if (!whole) {
        CROUPIER_TRY(wait_for(stage.tiled, copying_.get()));
        CROUPIER_TRY(send_maxima(rows, stage, target));
        CROUPIER_TRY(send_rest(stage, target, {first_chunk, rows.tiles}, row_bytes));
    }
    ++sent_;
    return publish(target.finished, target.ticket);
}

shm::Result<bool> CopyPath::settle() {
    return cuda_done(cudaStreamSynchronize(publishing_.get()), "the copies of earlier steps have failed");
}

}  // namespace croupier::gpu_writer
