/* The schedule ring: a client publishes steps into two slots and takes them; samplers, however late, claim
 * columns by a word that holds the step. Proved: who wins a claim works on the record of that step, whole;
 * each column is decided once; steps are taken in order, none before it is decided.
 *
 * Mutants: UNTAGGED_CLAIM (the claim word holds the owner only), PUBLISH_FIRST (the counter before the record),
 * TAKE_EARLY (a slot is given back before its last decision). */
#define SLOTS 2
#define STEPS 4
#define COLUMNS 2
#define SAMPLERS 2
#define FREE 0

byte published = 0;
byte taken = 0;
byte record[SLOTS];            /* the step that the record is of, +1; 0: half-written */
byte claim_tag[4];             /* [slot * COLUMNS + column] */
byte claim_owner[4];
bit committed[4];
byte decided[8];               /* [step * COLUMNS + column]: how often */
byte answer[4];                /* the step that the decision is for, +1 */

#define CELL(slot, column) ((slot) * COLUMNS + (column))

inline write_record(step) {
    slot = step % SLOTS;
    record[slot] = 0;
    committed[CELL(slot, 0)] = 0;
    committed[CELL(slot, 1)] = 0;
    d_step { claim_tag[CELL(slot, 0)] = step; claim_owner[CELL(slot, 0)] = FREE }
    d_step { claim_tag[CELL(slot, 1)] = step; claim_owner[CELL(slot, 1)] = FREE }
    record[slot] = step + 1
}

proctype Client() {
    byte slot;
    byte next = 0;
    byte gone = 0;
    do
    :: gone == STEPS -> break
    :: next < STEPS && next - gone < SLOTS ->
#ifdef PUBLISH_FIRST
        published = next + 1;
        write_record(next);
#else
        write_record(next);
        published = next + 1;
#endif
        next++
    :: gone < next ->
        slot = gone % SLOTS;
#ifdef TAKE_EARLY
        (committed[CELL(slot, 0)] || committed[CELL(slot, 1)]);
#else
        (committed[CELL(slot, 0)] && committed[CELL(slot, 1)]);
#endif
        assert(answer[CELL(slot, 0)] == gone + 1 && answer[CELL(slot, 1)] == gone + 1);
        gone++;
        taken = gone
    od
}

inline try_column(column) {
    cell = CELL(step % SLOTS, column);
    atomic {
#ifdef UNTAGGED_CLAIM
        won = (claim_owner[cell] == FREE);
#else
        won = (claim_owner[cell] == FREE && claim_tag[cell] == step);
#endif
        if
        :: won -> claim_owner[cell] = me
        :: else
        fi
    };
    if
    :: won ->
        assert(record[step % SLOTS] == step + 1);
        answer[cell] = step + 1;
        decided[CELL(step, column)]++;
        assert(decided[CELL(step, column)] == 1);
        committed[cell] = 1
    :: else
    fi
}

proctype Sampler(byte me) {
    byte step;
    byte end;
    byte cell;
    bool won;
    do
    :: taken == STEPS -> break
    :: taken < published ->
        /* Any time may pass between this look and the claims that follow from it. */
        end = published;
        step = taken;
        do
        :: step < end ->
            try_column(0);
            try_column(1);
            step++
        :: else -> break
        od
    od
}

init {
    atomic {
        claim_owner[0] = 9; claim_owner[1] = 9; claim_owner[2] = 9; claim_owner[3] = 9;
        run Client();
        run Sampler(1);
        run Sampler(2)
    }
}

ltl every_step_is_taken { <> (taken == STEPS) }
