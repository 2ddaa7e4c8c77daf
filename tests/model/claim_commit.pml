/* The one column that is left of a step; samplers that may die between any two stores; a supervisor that reopens what the dead
 * had claimed, beside a second cleaner. Proved: a column is committed exactly once, never changes after, the
 * client never waits for ever, and deaths on a column are counted exactly and end in an error at the
 * limit; a client that gives the step up answers what nobody has claimed, and no sampler that wakes afterwards
 * touches the column.
 *
 * Mutants: REOPEN_LIVE (claims of the living are freed too), REOPEN_DECIDED (so are committed columns),
 * SILENT_REOPEN (the bell is not rung for one that died before he rang), BLIND_CLEANERS (a crash is counted
 * before the claim is won from the other cleaners), GIVE_UP_UNCLAIMED (the client answers without a claim). */
#define COLUMNS 1
#define FREE 0
#define CLEANER 99
#define GIVER 98
#define CRASH_LIMIT 2
#define DEATHS 3
#define NOBODY 0
#define ERROR 200
#define GIVEN_UP 201

byte owner[COLUMNS];
bit committed[COLUMNS];
byte value[COLUMNS];       /* who decided; ERROR: given up */
byte crashes[COLUMNS];
byte commits[COLUMNS];
byte deaths_on[COLUMNS];   /* ghost: deaths with the column claimed and not committed */
byte bell = 0;
byte deaths = 0;
byte incarnation = 0;
byte dead = NOBODY;        /* the one that waitpid returned */
bit cleans[2];             /* who has begun to clean up after the dead one */
byte finished = 0;         /* how many are done with it */
bool client_done = false;

#define ALL_COMMITTED (committed[0])

inline commit_bit(column, what) {
    value[column] = what;
    atomic {
        assert(!committed[column]);
        assert(value[column] == what);
        committed[column] = 1;
        commits[column]++
    }
    if
    :: ALL_COMMITTED -> bell = 1
    :: else
    fi
}

/* May die before each of its stores; dies with the number that it bears. */
#define MAY_DIE(column) if \
    :: atomic { deaths < DEATHS && dead == NOBODY -> deaths++; \
        if :: owner[column] == me && !committed[column] -> deaths_on[column]++ :: else fi; \
        dead = me }; goto died \
    :: true \
    fi

proctype Sampler() {
    byte me;
    byte column;
    bool won;
born:
    atomic { incarnation++; me = incarnation }
    do
    :: client_done -> goto over
    :: !client_done ->
        atomic {
            won = (owner[column] == FREE);
            if
            :: won -> owner[column] = me
            :: else
            fi
        }
        if
        :: won ->
            MAY_DIE(column);
            assert(!committed[column]);
            value[column] = me;
            MAY_DIE(column);
            atomic {
                assert(!committed[column] && value[column] == me);
                committed[column] = 1;
                commits[column]++
            }
            MAY_DIE(column);
            if
            :: ALL_COMMITTED -> MAY_DIE(column); bell = 1
            :: else
            fi
        :: else
        fi
    od;
died:
    (dead == NOBODY || client_done);
    if
    :: client_done -> goto over
    :: else -> goto born
    fi;
over:
    skip
}

inline win(column, victim) {
    atomic {
        won = (owner[column] == victim);
        if
        :: won -> owner[column] = CLEANER
        :: else
        fi
    }
}

inline clean(column) {
    victim = owner[column];
#ifdef REOPEN_LIVE
    if
    :: victim != FREE && victim != CLEANER &&
#else
    if
    :: victim == dead &&
#endif
#ifdef REOPEN_DECIDED
       true ->
#else
       !committed[column] ->
#endif
#ifdef BLIND_CLEANERS
        won = true;
        atomic { crashes[column]++; counted = crashes[column]; assert(counted <= deaths_on[column]) };
        if
        :: counted >= CRASH_LIMIT -> commit_bit(column, ERROR)
        :: else -> atomic { if :: owner[column] == victim -> owner[column] = FREE :: else fi }
        fi
#else
        win(column, victim);
        if
        :: won ->
            atomic { crashes[column]++; counted = crashes[column]; assert(counted <= deaths_on[column]) };
            if
            :: counted >= CRASH_LIMIT -> commit_bit(column, ERROR)
            :: else -> owner[column] = FREE
            fi
        :: else
        fi
#endif
    :: else
    fi
}

proctype Cleaner(byte number) {
    byte victim;
    byte counted;
    bool won;
end:
    do
    :: dead != NOBODY && !cleans[number] ->
        cleans[number] = 1;
        clean(0);
#ifndef SILENT_REOPEN
        bell = 1;
#endif
        atomic {
            finished++;
            if
            :: finished == 2 -> dead = NOBODY; finished = 0; cleans[0] = 0; cleans[1] = 0
            :: else
            fi
        }
    :: client_done -> break
    od
}

proctype Client() {
    bool won = false;
    /* At any moment, or never. */
    do
    :: ALL_COMMITTED -> break
    :: !won ->
#ifdef GIVE_UP_UNCLAIMED
        won = !committed[0];
#else
        atomic {
            won = (owner[0] == FREE);
            if
            :: won -> owner[0] = GIVER
            :: else
            fi
        }
#endif
        if
        :: won -> commit_bit(0, GIVEN_UP)
        :: else
        fi;
        break
    :: break
    od;
    do
    :: ALL_COMMITTED -> break
    :: else -> (bell == 1); bell = 0
    od;
    assert(commits[0] == 1);
    client_done = true
}

init {
    atomic {
        run Client();
        run Sampler();
        run Sampler();
        run Cleaner(0);
        run Cleaner(1)
    }
}

ltl the_client_is_answered { <> client_done }
