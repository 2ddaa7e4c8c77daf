#include "gpu_writer/named_ids.h"

#include "proto/lean_part.h"
#include "request/wants.h"

namespace croupier::gpu_writer {

bool NamedIds::is_there(const Kept& kept, const Kept& list) const {
    const bool is_same = kept.sequence == list.sequence && kept.admission == list.admission &&
                         kept.at == list.at && kept.count == list.count;
    return list.admission != 0 && is_same && kept.step + 1 == list.step;
}

template <typename IdAt>
std::optional<std::uint32_t> NamedIds::put(std::uint32_t column, const NamedLists& lists, std::uint32_t count,
                                           IdAt id_at) {
    const std::uint32_t words = StepNames::words_of(count);
    if (room_.size() - used_ < words) return std::nullopt;
    const Kept list{lists.sequence, lists.admission, used_, count, step_};
    used_ += words;
    const bool stays = is_there(kept_[column], list);
    kept_[column] = list;
    if (stays) return list.at;
    const auto to = room_.subspan(list.at, words);
    std::fill(to.begin(), to.end(), StepNames::kNoId);
    to[0] = count;
    to[1] = proto::word_of_ids(count, id_at);
    for (std::uint32_t i = 0; i < count; ++i)
        to[StepNames::kHeadWords + i] = static_cast<std::uint32_t>(id_at(i));
    return list.at;
}

LeanWant NamedIds::want_of(std::uint32_t column, const request::Plan& plan,
                           const proto::SamplingParams& params, const NamedLists& lists,
                           std::uint32_t blocks) {
    const bool allows = plan.rules.lists;
    const std::size_t count = allows ? lists.allowed.size() : lists.biases.size();
    if (count == 0) return request::want_of(plan, params, {blocks, std::uint16_t{0}});
    std::optional<std::uint32_t> at;
    if (count <= request::most_named(plan.rules, blocks)) {
        const auto ids = static_cast<std::uint32_t>(count);
        at = allows ? put(column, lists, ids, [&](std::uint32_t i) { return lists.allowed[i]; })
                    : put(column, lists, ids, [&](std::uint32_t i) { return lists.biases[i].token; });
    }
    if (!at) return request::want_of(plan, params, {blocks, std::nullopt});
    LeanWant want = request::want_of(plan, params, {blocks, static_cast<std::uint16_t>(count)});
    want.names_line = static_cast<std::uint16_t>(*at / StepNames::kLineWords);
    return want;
}

}  // namespace croupier::gpu_writer
