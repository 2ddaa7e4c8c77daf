/* The columns of one sequence in several steps in flight: a ring of two or three slots, three steps of one column each. The
 * client publishes each column behind the one before it, with the sequence's revision and the predicted
 * position; it takes steps in order, may give one up and may cut the sequence back by one. Samplers read as
 * turn_of() does, load by load, claim, look again, write the token, and commit; one may die in between.
 * Proved: at most one of them is about to write to the log, and never below the length that the client sees;
 * who decides a column of the present revision reads the final tokens of that timeline below it; when the
 * client takes it, its token stands in the log at its position, and that is the number of tokens before it;
 * each column is committed once; each is committed in the end, though logits come for no void one. In each run at
 * most TROUBLES of: a death, a stop, a truncate, a step given up. A truncate whose client stores the revision
 * before the length breaks nothing here, and is no mutant.
 *
 * Mutants: NO_SECOND_LOOK (`taken` is not read again after the slot of the column before), NO_WALK (after a
 * truncate only the column right before is asked, and one that was given up hides one that is being decided),
 * EARLY_TURN (a column is claimed before the one before it is committed), REVISE_AFTER_TAKE (the revision is
 * stored after `taken`), VOID_SUSPECT_LEFT (who answers what is void leaves what a dead sampler held, until
 * logits come), FRESH_STEP_UNWATCHED (a column that follows none is taken to be of the present revision when a
 * sampler first looks, and not asked again before the next one). */
#define SLOTS 3                /* or one fewer */
#define STEPS 3
#define SLOT(step) ((step) % slots)

/* Owners of a claim. */
#define FREE 0
#define HELD 1
#define SUSPECT 2
#define GIVER 3

/* Decisions. */
#define TOKEN 1
#define STOP 2                 /* a token, and the sequence's last */
#define VOID 4
#define GIVEN_UP 5
#define BAD 6                  /* the position or the record is refused */

/* Turns. */
#define NOW 1
#define LATER 2
#define NEVER 3
#define BROKEN 4
#define BY_LOG 5               /* now, once the length is read */

/* What is known of the column before. */
#define NONE 1
#define UNDECIDED 2
#define DECIDED 3

#define FIRST_TOKEN 7
#ifndef TROUBLES
#define TROUBLES 2
#endif

byte slots = SLOTS;
byte published = 0;
byte taken = 0;
byte revision = 0;
byte length = 1;
byte log[5];
byte column[SLOTS];            /* the step whose column stands there, +1; 0: half-written */
bit committed[SLOTS];
byte decision[SLOTS];
byte decided_at[SLOTS];
byte claim_step[SLOTS];
byte claim_owner[SLOTS];
/* What a column says, by step. */
byte revision_of[STEPS];
byte position_of[STEPS];
bit follows[STEPS];
#ifdef FRESH_STEP_UNWATCHED
byte revisions = 0;            /* how often any sequence was revised */
#endif

byte pending = 0;              /* ghost: samplers between the check of a position and the commit */
bit done[STEPS];               /* ghost: committed */
byte troubles = TROUBLES;      /* how many more deaths, stops, truncates, steps given up: one of each at most */
bit died = 0;
bit ended = 0;

#define CLAIMABLE(step) (claim_step[SLOT(step)] == (step) && !committed[SLOT(step)] && \
    (claim_owner[SLOT(step)] == FREE || claim_owner[SLOT(step)] == SUSPECT))

/* The decision is written before the bit, and read after it: one step. */
inline commit(step, owner, what) {
    d_step {
        assert(!done[step] && !committed[SLOT(step)]);
        assert(claim_step[SLOT(step)] == step && claim_owner[SLOT(step)] == owner);
        decision[SLOT(step)] = what;
        decided_at[SLOT(step)] = position_of[step];
        committed[SLOT(step)] = 1;
        done[step] = 1;
        if
        :: owner == HELD && (what == TOKEN || what == STOP) -> pending--
        :: else
        fi
    }
}

inline revise() {
    revision++;
#ifdef FRESH_STEP_UNWATCHED
    revisions++
#endif
}

/* What the engine knows to bring no token. */
#define IS_VOID(step) (done[step] || revision_of[step] != revision || \
    (follows[step] && taken < (step) && done[(step) - 1] && decision[SLOT((step) - 1)] != TOKEN && \
     revision_of[(step) - 1] == revision_of[step]))

inline publish() {
    committed[SLOT(published)] = 0;
    d_step {
        claim_step[SLOT(published)] = published;
        claim_owner[SLOT(published)] = FREE;
        column[SLOT(published)] = 0
    };
    d_step {
        revision_of[published] = revision;
        position_of[published] = length;
        follows[published] = taken < published;
        each = taken;
        do
        :: each == published -> break
        :: each < published && revision_of[each] == revision -> position_of[published]++; each++
        :: else -> each++
        od;
        each = 0;
        column[SLOT(published)] = published + 1;
        published++
    }
}

inline take() {
    d_step {
        each = (revision_of[taken] == revision -> decision[SLOT(taken)] : 0);
        if
        :: each != 0 ->
            assert(each != BAD && each != VOID);
            assert(position_of[taken] == length && decided_at[SLOT(taken)] == length);
            assert((each != TOKEN && each != STOP) || log[length] == taken + 1)
        :: else
        fi;
        if
        :: each == TOKEN || each == STOP -> length = position_of[taken] + 1
        :: else
        fi
    };
#ifdef REVISE_AFTER_TAKE
    taken++;
    if
    :: each > TOKEN -> revise()
    :: else
    fi;
    each = 0
#else
    if
    :: each > TOKEN -> revise()
    :: else
    fi;
    atomic { taken++; each = 0 }
#endif
}

inline give_up(step) {
    if
    :: atomic { CLAIMABLE(step) -> claim_owner[SLOT(step)] = GIVER };
        commit(step, GIVER, GIVEN_UP)
    :: else
    fi;
    each = 0
}

proctype Client() {
    byte each = 0;
    bool gives_up = true;
    bool truncates = true;
    do
    :: taken == STEPS -> break
    :: published < STEPS && published - taken < slots -> publish()
    :: taken < published && committed[SLOT(taken)] -> take()
    /* At any moment, or never. */
    :: gives_up && troubles > 0 -> gives_up = false
    :: truncates && troubles > 0 -> truncates = false
    :: atomic { gives_up && troubles > 0 && taken < published ->
            gives_up = false;
            troubles--;
            each = taken;
            do
            :: each + 1 < published -> each++
            :: break
            od
       };
       give_up(each)
    :: atomic { truncates && troubles > 0 && length > 0 -> truncates = false; troubles-- };
#ifdef TRUNCATE_REVISION_FIRST
       revise();
       length--
#else
       length--;
       revise()
#endif
    od;
    atomic { gives_up = false; truncates = false }
}

/* Of the column of step `at`, and validated by the second look. */
inline column_before() {
    over = (taken >= at);
    if
    :: !over ->
        same = (column[SLOT(at - 1)] == at);
        bits = committed[SLOT(at - 1)];
        d_step { what = decision[SLOT(at - 1)]; where = decided_at[SLOT(at - 1)] }
    :: else
    fi;
    d_step {
        if
#ifdef NO_SECOND_LOOK
        :: over -> before = NONE
#else
        :: taken >= at -> before = NONE
#endif
        :: else ->
            if
            :: !same -> before = BROKEN
            :: same && bits -> before = DECIDED
            :: same && !bits -> before = UNDECIDED
            fi
        fi;
        over = 0; same = 0; bits = 0
    }
}

/* Sets `turn` and, if it is NOW, `outputs`. */
inline turn_of() {
    atomic {
        at = step;
        if
        :: revision != revision_of[step] -> turn = NEVER
        :: else -> turn = (follows[step] -> 0 : BY_LOG)
        fi
    }
    if
    :: turn == 0 ->
        column_before();
        if
        :: before == NONE -> turn = (revision == revision_of[step] -> BY_LOG : NEVER)
        :: before == BROKEN -> turn = BROKEN
#ifdef EARLY_TURN
        :: before == UNDECIDED -> atomic { turn = NOW; outputs = position_of[step] }
#else
        :: before == UNDECIDED -> turn = LATER
#endif
        :: before == DECIDED && revision_of[step - 1] == revision_of[step] ->
            d_step {
                if
                :: what == TOKEN -> turn = NOW; outputs = where + 1
                :: else -> turn = NEVER
                fi
            }
        :: before == DECIDED && revision_of[step - 1] != revision_of[step] ->
#ifdef NO_WALK
            turn = BY_LOG
#else
            do
            :: turn != 0 -> break
            :: turn == 0 ->
                at--;
                if
                :: !follows[at] -> turn = BY_LOG
                :: else ->
                    column_before();
                    d_step {
                        if
                        :: before == NONE -> turn = BY_LOG
                        :: before == UNDECIDED -> turn = LATER
                        :: before == BROKEN -> turn = BROKEN
                        :: before == DECIDED -> skip
                        fi
                    }
                fi
            od
#endif
        fi
    :: else
    fi;
    if
    :: turn == BY_LOG -> d_step { outputs = length; turn = NOW }
    :: else
    fi;
    d_step { before = 0; what = 0; where = 0; at = 0 }
}

/* The tokens below are those of its timeline, and nobody else is about to write one. */
inline check_log() {
    assert(pending == 1);
    assert(position_of[step] >= length);
    at = taken;
    do
    :: at >= step || revision != revision_of[step] -> break
    :: else ->
        assert(revision_of[at] != revision || (done[at] && log[position_of[at]] == at + 1));
        at++
    od;
    at = 0
}


/* Logits come for what is not void, and for nothing else. */
#define MAY_CLAIM (CLAIMABLE(step) && (turn == NEVER && (ready || ANSWERS_VOID && WATCHED) || ready && turn != LATER))
#ifdef FRESH_STEP_UNWATCHED
#define WATCHED (follows[step] || looked[step] != revisions + 1)
#define NOTE_FIRST_LOOK looked[step] = (looked[step] == 0 -> revisions + 1 : looked[step])
#else
#define WATCHED true
#define NOTE_FIRST_LOOK skip
#endif
#ifdef VOID_SUSPECT_LEFT
#define ANSWERS_VOID (claim_owner[SLOT(step)] == FREE)
#else
#define ANSWERS_VOID true
#endif

inline claim() {
    claim_owner[SLOT(step)] = HELD;
    assert(column[SLOT(step)] == step + 1)
}

#define MAY_DIE if \
    :: atomic { !died && troubles > 0 -> died = 1; troubles--; goto dead } \
    :: true \
    fi

/* What is done with the turn that was found once the column is claimed. */
inline choose() {
    assert(turn == NOW || turn == NEVER);
    if
    :: turn == NEVER -> what = VOID
    :: turn == NOW && outputs != position_of[step] -> what = BAD
    :: turn == NOW && outputs == position_of[step] ->
        pending++;
        what = TOKEN;
        if
        :: true
        :: !ended && troubles > 0 -> ended = 1; troubles--; what = STOP
        fi
    fi
}

inline write() {
    if
    :: atomic { what == TOKEN || what == STOP -> check_log(); log[position_of[step]] = step + 1 };
       MAY_DIE
    :: else
    fi
}

/* The supervisor reopens what the dead one held; another sampler takes its place. */
inline reopen() {
    assert(claim_owner[SLOT(step)] == HELD && claim_step[SLOT(step)] == step);
    if
    :: what != 0 -> pending--
    :: else
    fi;
    claim_owner[SLOT(step)] = SUSPECT
}

inline forget() {
    turn = 0; outputs = 0; what = 0; ready = 0; step = 0
}

#define LOOKS_AT(ahead) (taken + ahead < published && CLAIMABLE(taken + ahead))

/* A look at the first column that nobody has claimed, at one blow; and once, by one sampler, at any, one load
 * after the other. That is enough: of claims that are wrong one is the first, and those before it are what
 * looks at one blow would have claimed. */
proctype Sampler(bool slow) {
    byte step = 0;
    byte at = 0;
    byte turn = 0;
    byte outputs = 0;
    byte before = 0;
    byte what = 0;
    byte where = 0;
    bool over = false;
    bool same = false;
    bool bits = false;
    bool ready = false;
#ifdef FRESH_STEP_UNWATCHED
    byte looked[STEPS];
#endif
    do
    :: taken == STEPS -> break
    :: atomic {
            if
            :: LOOKS_AT(0) -> step = taken
            :: LOOKS_AT(1) && !LOOKS_AT(0) -> step = taken + 1
            :: LOOKS_AT(2) && !LOOKS_AT(0) && !LOOKS_AT(1) -> step = taken + 2
            fi;
            NOTE_FIRST_LOOK;
            ready = !IS_VOID(step);
            turn_of();
            if
            :: MAY_CLAIM -> claim()
            :: else -> goto next
            fi
       };
       MAY_DIE;
       atomic {
            if
            :: ready -> turn = 0; outputs = 0; turn_of()
            :: else
            fi;
            choose()
       };
decided:
       write();
       atomic { commit(step, HELD, what); goto next };
dead:  atomic { reopen() };
next:  atomic { forget() }
    :: atomic { slow ->
            slow = false;
            if
            :: LOOKS_AT(0) -> step = taken
            :: LOOKS_AT(1) -> step = taken + 1
            :: LOOKS_AT(2) -> step = taken + 2
            :: true -> goto next                 /* never */
            fi;
            NOTE_FIRST_LOOK;
            ready = !IS_VOID(step)
       };
       /* The record: of a later step, if so much time has passed. */
       atomic {
            if
            :: column[SLOT(step)] != step + 1 -> assert(claim_step[SLOT(step)] != step); goto next
            :: else
            fi
       };
       turn_of();
       atomic {
            if
            :: MAY_CLAIM -> claim()
            :: else -> goto next
            fi
       };
       MAY_DIE;
       if
       :: ready -> atomic { turn = 0; outputs = 0 }; turn_of()
       :: else
       fi;
       atomic { choose(); goto decided }
    od
}

init {
    atomic {
        if
        :: slots = SLOTS
        :: slots = SLOTS - 1
        fi;
        log[0] = FIRST_TOKEN;
        claim_step[0] = 9; claim_step[1] = 9; claim_step[2] = 9;
        run Client();
        run Sampler(false);
        run Sampler(true)
    }
}

ltl every_column_is_committed { <> (taken == STEPS) }
