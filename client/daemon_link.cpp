#include "client/daemon_link.h"

#include <utility>
#include <vector>

#include "client/relayed_control.h"

namespace croupier::client {
namespace {

std::string text_of(const flatbuffers::String* text) {
    return text == nullptr ? std::string() : text->str();
}

flatbuffers::Offset<wire::Open> open_message(flatbuffers::FlatBufferBuilder& builder,
                                             const OpenRequest& request) {
    const auto name = builder.CreateString(request.name);
    flatbuffers::Offset<flatbuffers::Vector<std::uint32_t>> order;
    if (!request.order.empty()) order = builder.CreateVector(request.order.data(), request.order.size());
    const proto::Geometry& geometry = request.geometry;
    std::vector<wire::Shard> cut;
    for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
        cut.emplace_back(geometry.shards[rank].first_id, geometry.shards[rank].count);
    }
    const auto shards = builder.CreateVectorOfStructs(cut);
    flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>> tokens;
    const auto image = request.tokens.image();
    if (!image.empty())
        tokens = builder.CreateVector(reinterpret_cast<const std::uint8_t*>(image.data()), image.size());
    wire::OpenBuilder open(builder);
    open.add_name(name);
    open.add_vocab(geometry.vocab);
    open.add_tp(geometry.tp);
    open.add_max_batch(geometry.max_batch);
    open.add_max_windows(geometry.max_windows);
    open.add_slots(geometry.slots);
    open.add_dtype(static_cast<std::uint32_t>(geometry.dtype));
    open.add_tile(geometry.tile);
    open.add_max_sequences(geometry.max_sequences);
    open.add_max_length(geometry.max_length);
    open.add_max_bias(geometry.max_bias);
    open.add_max_stop_ids(geometry.max_stop_ids);
    open.add_max_list_tokens(geometry.max_list_tokens);
    open.add_mask_rows(geometry.mask_rows);
    open.add_summaries(geometry.has_summaries != 0);
    open.add_max_logprobs(geometry.max_logprobs);
    open.add_max_support(geometry.max_support);
    open.add_lean_blocks(geometry.lean_blocks);
    open.add_shards(shards);
    if (!order.IsNull()) open.add_order(order);
    if (!tokens.IsNull()) open.add_token_table(tokens);
    open.add_takeover(request.takeover);
    open.add_resume(request.resume);
    return open.Finish();
}

shm::Result<std::unique_ptr<Control>> control_for(zmq::context_t& context, const OpenRequest& request) {
    std::unique_ptr<Control> control;
    if (request.relay) {
        control = std::make_unique<RelayedControl>(*request.relay, request.timeout);
    } else {
        CROUPIER_TRY_VALUE(channel,
                           ControlChannel::connect(context, request.endpoint, request.keys, request.timeout));
        control = std::make_unique<ControlChannel>(std::move(channel));
    }
    return control;
}

}  // namespace

shm::Result<DaemonLink> DaemonLink::open(const OpenRequest& request) {
    zmq::context_t context;
    CROUPIER_TRY_VALUE(control, control_for(context, request));
    DaemonLink link(std::move(context), std::move(control), request);
    CROUPIER_TRY(link.ask_open(request));
    return link;
}

shm::Result<bool> DaemonLink::ask_open(const OpenRequest& request) {
    flatbuffers::FlatBufferBuilder builder;
    const auto question = open_message(builder, request);
    return control_->ask<wire::SessionInfo>(builder, question, [&](const wire::SessionInfo& answer) {
        facts_ = {answer.session_id(), text_of(answer.segment_path()), text_of(answer.shm_directory()),
                  text_of(answer.instance()), answer.resumed()};
    });
}

shm::Result<bool> DaemonLink::configure(bool decisions_over_zmq) {
    flatbuffers::FlatBufferBuilder builder;
    const auto question = wire::CreateConfigure(builder, facts_.id, decisions_over_zmq);
    return control_->ask<wire::Configured>(builder, question, [](const wire::Configured&) {});
}

shm::Result<bool> DaemonLink::close() {
    flatbuffers::FlatBufferBuilder builder;
    const auto question = wire::CreateClose(builder, facts_.id);
    return control_->ask<wire::Closed>(builder, question, [](const wire::Closed&) {});
}

}  // namespace croupier::client
