/* One sequence in windows of two rows, two steps in flight; samplers of which one may die between any two
 * stores; a writer that says what each row was computed from; a client that may cut the sequence back once.
 * A row's token depends on its input and on its position, as a model's and a random number's do. Proved:
 * whatever was drafted, each token that the client takes is the one that plain decoding brings, the log has
 * no gap, and the client is never left waiting.
 *
 * Mutants: UNCHECKED_INPUT (a row counts whatever it was computed from), HEAD_ONLY (a head waits for the head
 * of the window before), FULL_WINDOWS (a head's position is that of a window whose rows all counted),
 * REJECTED_GROWS (a rejected row lengthens the log). */
#define ROWS 2
#define SLOTS 2
#define STEPS 2
#define COLUMNS 4
#define NOBODY 0
#define PROMPT 1     /* the last token of the prompt */
#define NO_DRAFT 2
#define NO_TOKEN 3

#define FINE 0
#define REJECTED 1
#define VOID 2

#define LATER 0
#define NOW 1
#define NEVER 2
#define WRONG 3

/* The token at a position after a token. */
#define SHIFT(position) ((position == 0 || position == 2 || position == 3) -> 1 : 0)
#define NEXT(position, input) ((input + SHIFT(position)) % 2)

byte published = 0;
byte taken = 0;
byte revision = 0;
byte length = 0;              /* outputs */
byte log[8];
byte revision_of[SLOTS];
bit follows[SLOTS];
bit ready[SLOTS];
byte input[COLUMNS];
byte owner[COLUMNS];
bit committed[COLUMNS];
byte error[COLUMNS];
byte token[COLUMNS];
byte position[COLUMNS];
byte plain[8];                /* ghost: what plain decoding brings */
byte dead = NOBODY;
bit died_once = 0;
bool client_done = false;

#define COLUMN(step, row) (((step) % SLOTS) * ROWS + (row))
#define LAST_OF(head) ((error[(head) + 1] == FINE) -> position[(head) + 1] : position[head])

/* Sets `due` and `at`. */
inline find_turn(step, row) {
    d_step {
        due = LATER;
        at = 0;
        column = COLUMN(step, row);
        before = COLUMN(step + 1, 0);  /* of two slots the other one */
        if
        :: revision_of[step % SLOTS] != revision -> due = NEVER
        :: else ->
            if
            :: row == 0 && (!follows[step % SLOTS] || taken >= step) -> due = NOW; at = length
            :: row == 0 && follows[step % SLOTS] && taken < step ->
                if
#ifdef HEAD_ONLY
                :: !committed[before] -> skip
#else
                :: !committed[before] || !committed[before + 1] -> skip
#endif
                :: else ->
                    if
                    :: revision_of[(step + 1) % SLOTS] != revision_of[step % SLOTS] -> due = NOW; at = length
                    :: revision_of[(step + 1) % SLOTS] == revision_of[step % SLOTS] && error[before] == VOID ->
                        due = NEVER
                    :: else ->
                        due = NOW;
#ifdef FULL_WINDOWS
                        at = position[before] + ROWS
#else
                        at = LAST_OF(before) + 1
#endif
                    fi
                fi
            :: row != 0 && !committed[column - 1] -> skip
            :: row != 0 && committed[column - 1] && error[column - 1] == VOID -> due = NEVER
            :: row != 0 && committed[column - 1] && error[column - 1] != VOID ->
                if
#ifdef UNCHECKED_INPUT
                :: input[column] != NO_DRAFT -> due = NOW; at = position[column - 1] + 1
#else
                :: input[column] == token[column - 1] -> due = NOW; at = position[column - 1] + 1
#endif
                :: else -> due = WRONG
                fi
            fi
        fi
    }
}

#define MAY_DIE if \
    :: atomic { !died_once && dead == NOBODY -> died_once = 1; dead = me }; goto died \
    :: true \
    fi

proctype Sampler(byte me) {
    byte step;
    byte row;
    byte column;
    byte before;
    byte due;
    byte at;
    do
    :: client_done -> goto over
    :: atomic { taken < published ->
            /* One row after another. */
            row = 1 - row;
            step = ((row == 0) -> step + 1 : step);
            step = ((step < taken || step >= published) -> taken : step);
            column = COLUMN(step, row)
        };
        find_turn(step, row);
        if
        :: due == LATER || committed[column] || (due == NOW && !ready[step % SLOTS])
        :: else ->
            atomic {
                if
                :: owner[column] == NOBODY && !committed[column] && taken <= step -> owner[column] = me
                :: else -> column = COLUMNS
                fi
            };
            if
            :: column == COLUMNS
            :: else ->
                MAY_DIE;
                find_turn(step, row);
                if
                :: due == NOW ->
                    token[column] = NEXT(at, input[column]);
                    log[at] = token[column];
                    MAY_DIE;
                    d_step { error[column] = FINE; position[column] = at }
                :: due == NEVER -> d_step { error[column] = VOID; token[column] = NO_TOKEN }
                :: due == WRONG -> d_step { error[column] = REJECTED; token[column] = NO_TOKEN }
                :: due == LATER -> assert(false)
                fi;
                MAY_DIE;
                committed[column] = 1
            fi
        fi;
        d_step { due = 0; at = 0; before = 0; column = 0 }
    od;
died:
    (dead == NOBODY || client_done);
over:
    skip
}

/* Another one comes in the dead one's place: the other sampler goes on. */
proctype Supervisor() {
    byte column;
end:
    do
    :: atomic { dead != NOBODY ->
            for (column : 0 .. COLUMNS - 1) {
                if
                :: owner[column] == dead && !committed[column] -> owner[column] = NOBODY
                :: else
                fi
            }
            dead = NOBODY }
    :: client_done -> break
    od
}

/* It knows the sequence's last token once the head is due, and drafts what it likes. */
proctype Writer() {
    byte step;
    byte column;
    byte before;
    byte due;
    byte at;
    do
    :: client_done -> break
    :: step < published && step < taken -> step = taken
    :: step < published && step >= taken ->
        find_turn(step, 0);
        if
        :: due == LATER
        :: else ->
            atomic {
                if
                :: step >= taken ->
                    input[COLUMN(step, 0)] = ((due == NOW && at > 0) -> log[at - 1] : PROMPT);
                    if
                    :: input[COLUMN(step, 1)] = 0
                    :: input[COLUMN(step, 1)] = 1
                    :: input[COLUMN(step, 1)] = NO_DRAFT
                    fi;
                    ready[step % SLOTS] = 1
                :: else
                fi;
                step++
            }
        fi
    od
}

inline publish() {
    d_step {
        revision_of[published % SLOTS] = revision;
        follows[published % SLOTS] = (published > taken);
        ready[published % SLOTS] = 0;
        for (row : 0 .. ROWS - 1) {
            committed[COLUMN(published, row)] = 0;
            owner[COLUMN(published, row)] = NOBODY
        }
        published++
    }
}

inline take() {
    d_step {
        for (row : 0 .. ROWS - 1) {
            column = COLUMN(taken, row);
            if
            :: revision_of[taken % SLOTS] != revision -> skip
            :: revision_of[taken % SLOTS] == revision && error[column] == FINE ->
                assert(position[column] == length);
                assert(token[column] == plain[length] && log[length] == plain[length]);
                length++
#ifdef REJECTED_GROWS
            :: revision_of[taken % SLOTS] == revision && error[column] == REJECTED -> length++
#endif
            :: else
            fi
        }
        taken++
    }
}

proctype Client() {
    byte row;
    byte column;
    bit cut = 0;
    do
    :: published < STEPS && published - taken < SLOTS -> publish()
    :: taken < published && committed[COLUMN(taken, 0)] && committed[COLUMN(taken, 1)] -> take()
    :: atomic { !cut && length > 0 -> cut = 1; revision++; length-- }
    :: taken == STEPS -> break
    od;
    client_done = true
}

init {
    byte at;
    byte last = PROMPT;
    d_step {
        for (at : 0 .. 7) {
            plain[at] = NEXT(at, last);
            last = plain[at]
        }
    }
    atomic {
        run Client();
        run Sampler(1);
        run Sampler(2);
        run Supervisor();
        run Writer()
    }
}

ltl the_client_is_answered { <> client_done }
