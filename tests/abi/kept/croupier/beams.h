/* Beam search over the best log-probs that decisions bring: which tokens continue which beams, which
 * hypotheses are finished, and when the search is over, as Hugging Face's generate(num_beams) defines it.
 *
 * Log-probs are those that the sequences ask for (croupier_params.logprob_mode): raw ones are of the row
 * under its mask, processed ones of what penalties and biases made of it. Hugging Face's processors change
 * log-probs, and do not normalise them again.
 *
 * The search itself has no session: it takes log-probs from wherever they come. croupier_beam_fork() carries
 * a step out in a session. docs/python.md has a whole loop.
 *
 * A search is used by one thread at a time. Functions return 0 (or a positive count) on success and -1 on
 * failure; then `error`, when given, says what, where and what would be right, and nothing has changed unless
 * the function says otherwise.
 */
#ifndef CROUPIER_BEAMS_H
#define CROUPIER_BEAMS_H

#include "croupier/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using): this header is C. */
typedef struct croupier_beams croupier_beams;

/* When a search is over before max_tokens: Hugging Face's early_stopping. */
enum {
    /* False: when `width` hypotheses are finished and the best beam, with the penalty of its length now, is
     * not better than the worst of them. */
    CROUPIER_EARLY_STOPPING_FALSE = 0,
    CROUPIER_EARLY_STOPPING_TRUE = 1, /* True: when `width` hypotheses are finished */
    /* "never": when no beam can become better than the worst of `width` finished hypotheses. */
    CROUPIER_EARLY_STOPPING_NEVER = 2
};

/* croupier_beams_options_init() fills in the defaults; width and max_tokens must be set. */
typedef struct croupier_beams_options {
    uint32_t size;
    uint32_t version;
    uint32_t width;          /* beams, and the hypotheses that are kept */
    uint32_t max_tokens;     /* of a hypothesis, its stop id included */
    uint32_t min_tokens;     /* of a hypothesis: before, stop ids are passed over */
    uint32_t early_stopping; /* CROUPIER_EARLY_STOPPING_... */
    double length_penalty;   /* a hypothesis of n tokens has the score logprob / n ^ length_penalty */
    const int32_t* stop_ids; /* that end a hypothesis: EOS and others */
    size_t stop_count;
} croupier_beams_options;

static inline void croupier_beams_options_init(croupier_beams_options* options) {
    memset(options, 0, sizeof(*options));
    options->size = (uint32_t)sizeof(*options);
    options->version = CROUPIER_ABI_VERSION;
    options->length_penalty = 1.0;
}

/* What one beam brings to a step. Never grows. */
typedef struct croupier_beam_row {
    const croupier_logprob* best; /* each token once, in any order; their ranks are not looked at */
    uint32_t count;               /* croupier_beams_candidates() or more */
    uint32_t is_all; /* 1: the row has no other token, for instance under a mask; fewer will do */
} croupier_beam_row;

/* A row of a decided step, as croupier_step_decision() counts them. */
static inline croupier_beam_row croupier_beam_row_of(const croupier_step* step, size_t row) {
    const croupier_decision decision = croupier_step_decision(step, row);
    croupier_beam_row brought;
    brought.best = decision.best;
    brought.count = decision.best_count;
    brought.is_all = 0;
    return brought;
}

/* A beam that goes on: beam `parent` of the step, and this token. Never grows. */
typedef struct croupier_beam {
    uint32_t parent;
    int32_t token;
    double logprob; /* of all its tokens */
} croupier_beam;

/* croupier_beam_next_init() begins one. The arrays are valid until the next call on the search. */
typedef struct croupier_beam_next {
    uint32_t size;
    uint32_t version;
    const croupier_beam* beams; /* the best first: the rows of the next step, in this order */
    size_t count;               /* 0: the search is over */
} croupier_beam_next;

static inline void croupier_beam_next_init(croupier_beam_next* next) {
    memset(next, 0, sizeof(*next));
    next->size = (uint32_t)sizeof(*next);
    next->version = CROUPIER_ABI_VERSION;
}

/* croupier_hypothesis_init() begins one. */
typedef struct croupier_hypothesis {
    uint32_t size;
    uint32_t version;
    const int32_t* tokens; /* the stop id included; valid until the next call on the search */
    size_t count;
    double score;
    double logprob;   /* of all its tokens */
    uint32_t stopped; /* 1: by a stop id; 0: by max_tokens */
    uint32_t reserved;
} croupier_hypothesis;

static inline void croupier_hypothesis_init(croupier_hypothesis* hypothesis) {
    memset(hypothesis, 0, sizeof(*hypothesis));
    hypothesis->size = (uint32_t)sizeof(*hypothesis);
    hypothesis->version = CROUPIER_ABI_VERSION;
}

/* A search of one beam without tokens, the prompt. */
int croupier_beams_open(const croupier_beams_options* options, croupier_beams** beams, croupier_error* error);
void croupier_beams_close(croupier_beams* beams);
/* How many log-probs each beam brings to a step: the width and one for each stop id, which is what the step
 * needs to be exact. Ask for so many with croupier_params.logprobs. */
uint32_t croupier_beams_candidates(const croupier_beams* beams);

/* One row for each beam, in their order: one in the first step, then as many as the last step returned. The
 * beams that go on are the `width` best that no stop id ends, by their log-prob in double; ties go to the
 * smaller beam, then to the smaller id. Of the `width` best of all, those that end are hypotheses. */
int croupier_beam_step(croupier_beams* beams, const croupier_beam_row* rows, size_t count,
                       croupier_beam_next* next, croupier_error* error);

/* The finished hypothesis number `index`, the best first: 1, or 0 when there are no more. At most `width` are
 * kept; of equal scores, the one that was finished first. */
int croupier_beams_hypothesis(croupier_beams* beams, size_t index, croupier_hypothesis* hypothesis,
                              croupier_error* error);

/* Carries the last step of the search out in a session, whose decisions were waited for. `uids` has one for
 * each of the `width` beams: first those of the beams that stood in the step, in one row each and in their
 * order; others are not live. After it, first those of the beams that go on. A beam's first child keeps its
 * sequence, others are forked, and a beam without children is finished; when the search is over, all are. The
 * sequences are not in flight, and on this host. Where shared memory is full, part of it may have been done.
 */
int croupier_beam_fork(croupier_session* session, const croupier_beams* beams, uint64_t* uids, size_t count,
                       croupier_error* error);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
