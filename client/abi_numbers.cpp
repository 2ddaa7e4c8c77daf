// The numbers of the C ABI are those of proto/ and shm/.
#include "croupier/client.h"
#include "proto/decision.h"
#include "proto/dtype.h"
#include "proto/geometry.h"
#include "proto/sampling.h"
#include "proto/schedule_slot.h"
#include "shm/error.h"

namespace proto = croupier::proto;
using croupier::proto::DecisionError;
using croupier::shm::Errc;

template <typename Ours>
constexpr bool same(int number, Ours ours) {
    return number == static_cast<int>(ours);
}

static_assert(same(CROUPIER_IGNORE_EOS, proto::kIgnoreEos));
static_assert(same(CROUPIER_NO_LOGPROB, proto::kNoLogprob));
static_assert(same(CROUPIER_STOPS_ONLY_BAN, proto::kStopsOnlyBan));
static_assert(same(CROUPIER_RANK_COUNTS_TIES, proto::kRankCountsTies));
static_assert(same(CROUPIER_INCLUDE_STOP, proto::kIncludeStop));
static_assert(same(CROUPIER_KEEP_SPECIAL, proto::kKeepSpecial));
static_assert(same(CROUPIER_STOP_AT_JSON, proto::kStopAtJson));
static_assert(same(CROUPIER_ORDER_END, proto::Step::end));
static_assert(same(CROUPIER_ORDER_PENALTIES, proto::Step::penalties));
static_assert(same(CROUPIER_ORDER_DRY, proto::Step::dry));
static_assert(same(CROUPIER_ORDER_TOP_N_SIGMA, proto::Step::top_n_sigma));
static_assert(same(CROUPIER_ORDER_TEMPERATURE, proto::Step::temperature));
static_assert(same(CROUPIER_ORDER_MIN_P, proto::Step::min_p));
static_assert(same(CROUPIER_ORDER_TOP_K, proto::Step::top_k));
static_assert(same(CROUPIER_ORDER_TOP_P, proto::Step::top_p));
static_assert(same(CROUPIER_ORDER_TYPICAL_P, proto::Step::typical_p));
static_assert(same(CROUPIER_ORDER_XTC, proto::Step::xtc));
static_assert(same(CROUPIER_ORDER_XTC + 1, proto::Step::count_), "a new step is public");
static_assert(same(CROUPIER_MAX_ORDER, proto::kOrderSteps));
static_assert(same(CROUPIER_RNG_RACE, proto::Rng::race));
static_assert(same(CROUPIER_RNG_SHVS, proto::Rng::shvs));
static_assert(same(CROUPIER_RNG_SGLANG, proto::Rng::sglang));
static_assert(same(CROUPIER_RNG_VLLM, proto::Rng::vllm));
static_assert(same(CROUPIER_LOGPROB_RAW, proto::LogprobMode::raw));
static_assert(same(CROUPIER_LOGPROB_PROCESSED, proto::LogprobMode::processed));
static_assert(same(CROUPIER_STOPPED_EOS, proto::kStoppedByEos));
static_assert(same(CROUPIER_STOPPED_TOKEN, proto::kStoppedByToken));
static_assert(same(CROUPIER_STOPPED_LENGTH, proto::kStoppedByLength));
static_assert(same(CROUPIER_STOPPED_STRING, proto::kStoppedByString));
static_assert(same(CROUPIER_STOPPED_LOOP, proto::kStoppedByLoop));
static_assert(same(CROUPIER_STOPPED_JSON, proto::kStoppedByJson));
static_assert((CROUPIER_STOPPED & proto::kStoppedMask) == proto::kStoppedMask);
static_assert((CROUPIER_STOPPED & (CROUPIER_GREEDY | CROUPIER_TRUNCATED | CROUPIER_SUPPORT_CUT)) == 0);
static_assert(same(CROUPIER_BF16, proto::Dtype::bf16));
static_assert(same(CROUPIER_FP16, proto::Dtype::fp16));
static_assert(same(CROUPIER_FP32, proto::Dtype::fp32));
static_assert(same(CROUPIER_GREEDY, proto::kGreedy));
static_assert(same(CROUPIER_TRUNCATED, proto::kTruncated));
static_assert(same(CROUPIER_SUPPORT_CUT, proto::kSupportCut));
static_assert(same(CROUPIER_MAX_SESSION_SUPPORT, proto::kMaxSupport));
static_assert(same(CROUPIER_ERROR_NOT_FOUND, Errc::not_found));
static_assert(same(CROUPIER_ERROR_PERMISSION_DENIED, Errc::permission_denied));
static_assert(same(CROUPIER_ERROR_NO_MEMORY, Errc::no_memory));
static_assert(same(CROUPIER_ERROR_BAD_MAGIC, Errc::bad_magic));
static_assert(same(CROUPIER_ERROR_WRONG_VERSION, Errc::wrong_version));
static_assert(same(CROUPIER_ERROR_WRONG_SIZE, Errc::wrong_size));
static_assert(same(CROUPIER_ERROR_CORRUPT_HEADER, Errc::corrupt_header));
static_assert(same(CROUPIER_ERROR_BAD_GEOMETRY, Errc::bad_geometry));
static_assert(same(CROUPIER_ERROR_ALREADY_HELD, Errc::already_held));
static_assert(same(CROUPIER_ERROR_STALE_EPOCH, Errc::stale_epoch));
static_assert(same(CROUPIER_ERROR_SESSION_CLOSED, Errc::session_closed));
static_assert(same(CROUPIER_ERROR_DRAINING, Errc::draining));
static_assert(same(CROUPIER_ERROR_RING_FULL, Errc::ring_full));
static_assert(same(CROUPIER_ERROR_BAD_ARGUMENT, Errc::bad_argument));
static_assert(same(CROUPIER_ERROR_UNKNOWN_SEQUENCE, Errc::unknown_sequence));
static_assert(same(CROUPIER_ERROR_TABLE_FULL, Errc::table_full));
static_assert(same(CROUPIER_ERROR_DAEMON_GONE, Errc::daemon_gone));
static_assert(same(CROUPIER_ERROR_TIMED_OUT, Errc::timed_out));
static_assert(same(CROUPIER_ERROR_REFUSED, Errc::refused));
static_assert(same(CROUPIER_ERROR_SYSTEM_ERROR, Errc::system_error));
static_assert(same(CROUPIER_ERROR_PEER_GONE, Errc::peer_gone));
static_assert(same(CROUPIER_ERROR_FORKED, Errc::forked));
static_assert(same(CROUPIER_DECISION_FINE, DecisionError::none));
static_assert(same(CROUPIER_DECISION_NAN_LOGIT, DecisionError::nan_logit));
static_assert(same(CROUPIER_DECISION_INFINITE_LOGIT, DecisionError::infinite_logit));
static_assert(same(CROUPIER_DECISION_NO_TOKEN_LEFT, DecisionError::no_token_left));
static_assert(same(CROUPIER_DECISION_BAD_PARAMETER, DecisionError::bad_parameter));
static_assert(same(CROUPIER_DECISION_BAD_TOKEN, DecisionError::bad_token));
static_assert(same(CROUPIER_DECISION_BAD_SEQUENCE, DecisionError::bad_sequence));
static_assert(same(CROUPIER_DECISION_BAD_POSITION, DecisionError::bad_position));
static_assert(same(CROUPIER_DECISION_BAD_MASK, DecisionError::bad_mask));
static_assert(same(CROUPIER_DECISION_SEQUENCE_FULL, DecisionError::sequence_full));
static_assert(same(CROUPIER_DECISION_BAD_RECORD, DecisionError::bad_record));
static_assert(same(CROUPIER_DECISION_SAMPLER_CRASHED, DecisionError::sampler_crashed));
static_assert(same(CROUPIER_DECISION_GIVEN_UP, DecisionError::given_up));
static_assert(same(CROUPIER_DECISION_VOID, DecisionError::voided));
static_assert(same(CROUPIER_DECISION_NO_MEMORY, DecisionError::no_memory));
static_assert(same(CROUPIER_DECISION_REJECTED, DecisionError::rejected));
static_assert(same(CROUPIER_DECISION_BAD_INPUT, DecisionError::bad_input));
static_assert(same(CROUPIER_DECISION_BAD_INPUT + 1, DecisionError::count_), "a new decision error is public");
static_assert(same(CROUPIER_MAX_VOCAB, proto::kMaxVocab));
static_assert(same(CROUPIER_MAX_BATCH, proto::kMaxBatch));
static_assert(same(CROUPIER_MAX_TP, proto::kMaxTp));
static_assert(same(CROUPIER_MAX_STEPS_IN_FLIGHT, proto::kMaxSlots));
static_assert(same(CROUPIER_MAX_WINDOW_ROWS, proto::kMaxWindowRows));
static_assert(same(CROUPIER_MAX_SEQUENCES, proto::kMaxSequences));
static_assert(same(CROUPIER_MAX_LENGTH, proto::kMaxLength));
static_assert(same(CROUPIER_MAX_BIAS, proto::kMaxBias));
static_assert(same(CROUPIER_MAX_STOP_IDS, proto::kMaxStopIds));
static_assert(same(CROUPIER_MAX_LIST_TOKENS, proto::kMaxListTokens));
static_assert(same(CROUPIER_MAX_STOP_STRINGS, proto::kMaxStopStrings));
static_assert(same(CROUPIER_MAX_STOP_STRING_BYTES, proto::kMaxStopStringBytes));
static_assert(same(CROUPIER_MAX_LOOP_PERIOD, proto::kMaxLoopPeriod));
static_assert(same(CROUPIER_MAX_LOGPROBS, proto::kMaxLogprobs));
static_assert(same(CROUPIER_MAX_SESSION_LOGPROBS, proto::kMaxSessionLogprobs));
static_assert(same(CROUPIER_MAX_CHILD + 1, proto::kMostChildren));
