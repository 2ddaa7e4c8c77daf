/* An engine in C, as one that was compiled long ago: eight tokens from a daemon, each the same from the decision in-process.
 * With -DSET_GROWN it sets a field that its headers have and the library does not know: that must be refused. */
#include <croupier/beams.h>
#include <croupier/client.h>
#include <croupier/decide.h>
#include <croupier/writer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 1000, STEPS = 8 };

static croupier_error error;

static void need(int status, const char* what) {
    if (status >= 0) return;
    fprintf(stderr, "%s: %s\n", what, error.text);
    exit(1);
}

static void forward(float* logits, int position) {
    for (int id = 0; id < VOCAB; ++id) logits[id] = (float)((id * 37 + position * 11) % 101) / 25.0F;
}

static croupier_session* open_session(const char* endpoint) {
    croupier_open_options options;
    croupier_session* session = NULL;
    croupier_open_options_init(&options);
    options.endpoint = endpoint;
    options.name = "caller";
    options.max_logprobs = 5;
    options.vocab = VOCAB;
    options.dtype = CROUPIER_FP32;
    need(croupier_open(&options, &session, &error), "open");
    return session;
}

static croupier_writer* attach_writer(const croupier_session* session) {
    croupier_writer_options options;
    croupier_writer_info info;
    croupier_writer* writer = NULL;
    croupier_writer_options_init(&options);
    croupier_writer_info_init(&info);
    options.segment_path = croupier_segment_path(session);
    need(croupier_writer_attach(&options, &writer, &error), "attach");
    need(croupier_writer_get_info(writer, &info, &error), "info");
    if (info.vocab != VOCAB || info.ids != VOCAB || info.device != CROUPIER_WRITER_HOST) exit(2);
    return writer;
}

static croupier_decider* open_decider(void) {
    croupier_decider_options options;
    croupier_decider* decider = NULL;
    croupier_decider_options_init(&options);
    options.vocab = VOCAB;
    need(croupier_decider_open(&options, &decider, &error), "decider");
    return decider;
}

/* One step of a beam search over a decision's log-probs, after which all of its beams have ended. */
static void search(const croupier_step* decided) {
    const croupier_beam_row row = croupier_beam_row_of(decided, 0);
    croupier_beams_options options;
    croupier_beam_next next;
    croupier_hypothesis best;
    croupier_beams* beams = NULL;
    croupier_beams_options_init(&options);
    croupier_beam_next_init(&next);
    croupier_hypothesis_init(&best);
    options.width = 3;
    options.max_tokens = 1;
    need(croupier_beams_open(&options, &beams, &error), "beams");
    need(croupier_beam_step(beams, &row, 1, &next, &error), "beam step");
    need(croupier_beams_hypothesis(beams, 0, &best, &error), "hypothesis");
    if (next.count != 0 || best.count != 1 || best.tokens[0] != row.best[0].token) exit(5);
    croupier_beams_close(beams);
}

int main(int argc, char** argv) {
    croupier_session* session = open_session(argc > 1 ? argv[1] : "ipc:///run/croupier/control.sock");
    croupier_writer* writer = attach_writer(session);
    croupier_decider* decider = open_decider();
    const int32_t prompt[] = {1, 2, 3};
    const croupier_bias bias[] = {{5, 1.5F}, {700, -2.0F}};
    int32_t output[STEPS];
    croupier_params params;
    croupier_sequence sequence;
    croupier_params_init(&params);
    params.seed = 42;
    params.top_p = 0.95;
    params.repetition_penalty = 1.3;
    params.logprobs = 3;
#ifdef SET_GROWN
    params.grown_later = 7;
#endif
    croupier_sequence_init(&sequence);
    sequence.uid = 1;
    sequence.params = &params;
    sequence.prompt = prompt;
    sequence.prompt_count = 3;
    sequence.bias = bias;
    sequence.bias_count = 2;
    need(croupier_add(session, &sequence, &error), "add");
    for (int position = 0; position < STEPS; ++position) {
        static float logits[VOCAB];
        uint64_t step = 0;
        const croupier_column column = croupier_column_of(1);
        croupier_step decided;
        croupier_decision decision;
        croupier_row row;
        croupier_answer answer;
        forward(logits, position);
        need(croupier_submit(session, &column, 1, &step, &error), "submit");
        need(croupier_writer_begin(writer, step, &error), "begin");
        need(croupier_writer_enqueue(writer, NULL, logits, VOCAB, &error), "enqueue");
        croupier_step_init(&decided);
        need(croupier_wait(session, 20000, &decided, &error), "wait");
        if (decided.count != 1) return 3;
        decision = croupier_step_decision(&decided, 0);

        croupier_row_init(&row);
        croupier_answer_init(&answer);
        row.logits = logits;
        row.dtype = CROUPIER_FP32;
        sequence.output = output;
        sequence.output_count = (size_t)position;
        need(croupier_decide(decider, &row, &sequence, &answer, &error), "decide");
        if (answer.token != decision.token || answer.output_index != decision.output_index || answer.best_count != 3 ||
            decision.best_count != 3 || decision.best[2].token != answer.best[2].token || decision.rank != answer.rank ||
            fabsf(answer.logprob - decision.logprob) > 0.0F) {
            fprintf(stderr, "the daemon decided %d, the library %d\n", decision.token, answer.token);
            return 4;
        }
        search(&decided);
        output[position] = decision.token;
        printf("%d\n", decision.token);
    }
    croupier_decider_close(decider);
    croupier_writer_detach(writer);
    need(croupier_close(session, &error), "close");
    return 0;
}
