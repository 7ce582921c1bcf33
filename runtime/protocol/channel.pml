// channel.pml: channels, chained acknowledgement, and the restart of actors that keep no state.
//
//     S -> A -> J -> K      S -> J      A -> K
//
// S (a source), A and J keep no state; each may be killed, CRASHES times in all, and is started again. K keeps state:
// its death takes the whole run back (rollback.pml). Batches are 1 .. N.
// Checked: no batch is lost, none takes effect at K twice or out of order, and every run ends.
//
// A sender keeps what its reader is not done with; a channel delivers in order. What a dead incarnation had sent, told
// or reported and comes late looks like what came before the death, until its reader has the list of peers that ends
// it; so here it comes before or never.
//
// holds: -DN=1 -DCRASHES=2
// holds: -DN=2 -DCRASHES=1
// large: -DN=1 -DCRASHES=3
// large: -DN=2 -DCRASHES=2
// large: -DN=3 -DCRASHES=1 -DFLIGHT=3
// Each rule that is weakened has to fail:
// fails: -DN=1 -DCRASHES=2 -DW_RECEIPT
// fails: -DN=1 -DCRASHES=2 -DW_UNREPORTED
// fails: -DN=1 -DCRASHES=2 -DW_DUPLICATE
// fails: -DN=1 -DCRASHES=2 -DW_OWN
// fails: -DN=1 -DCRASHES=2 -DW_DIRECT
// fails: -DN=1 -DCRASHES=2 -DW_WHOLE
// fails: -DN=1 -DCRASHES=2 -DW_FORMER
// fails: -DN=1 -DCRASHES=2 -DW_NOWAIT
#ifndef N
#define N 2                                 // batches
#endif
#ifndef FLIGHT
#define FLIGHT 2                            // most that are alive
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#define S 0
#define A 1
#define J 2
#define K 3
#define STAGES 4
#define EDGES  5                            // S->A 0, A->J 1, J->K 2, S->J 3, A->K 4
#define MAKER(e)  ((e) == 0 || (e) == 3 -> S : ((e) == 1 || (e) == 4 -> A : J))
#define READER(e) ((e) == 0 -> A : ((e) == 1 || (e) == 3 -> J : K))
#define BIT(k)    (1 << (k))
#define BELOW(k)  (BIT(k) - 2)              // the set 1 .. k - 1
#define ALL       BELOW(N + 1)
#define LOWEST(set) ((set) & BIT(1) -> 1 : ((set) & BIT(2) -> 2 : ((set) & BIT(3) -> 3 : N + 1)))
#define MIN(a, b) ((a) < (b) -> (a) : (b))

byte kept[EDGES];                           // made, and the reader was not heard to be done with it
byte mail[EDGES];                           // in the reader's mailbox, not worked on
#define DEAD  0
#define NEW   1                             // started; works on nothing before the director has said where to begin
#define BEGUN 2
byte state[STAGES];
byte next[STAGES];                          // the batch that it works on next
byte reports[STAGES];                       // on their way to the director
byte before[STAGES];                        // of them, those in front of its answer to the last list of peers
byte strange[STAGES];                       // stages of whose new incarnations it has not been told, as bits
byte ledger[STAGES];                        // batches that the director has a report of
byte answered[STAGES];                      // the same of this incarnation alone, all below its begin counted
byte unwired[STAGES];                       // who has yet to answer the list with this one's newest incarnation
byte crashes = CRASHES;
byte x, e, k;                               // of the step that is made

// What a stage is done with: all below. One without state: its readers are, and the director has its report.
#if defined(W_RECEIPT)                      // done as soon as its handler has run
#define OPEN(s) 0
#elif defined(W_UNREPORTED)                 // whether or not the director has its report
#define OPEN(s) (OUT(s))
#else
#define OPEN(s) (OUT(s) | (ALL & ~answered[s]))
#endif
#define OUT(s)  ((s) == S -> kept[0] | kept[3] : ((s) == A -> kept[1] | kept[4] : kept[2]))
#define DONE(s) ((s) == K -> next[s] : MIN(next[s], LOWEST(OPEN(s))))

// Where a successor begins: its own report is missing, or what it made may be wanted again.
#ifdef W_FORMER                             // reports of former incarnations count: who does a batch again is not seen
#define MISSING(s) LOWEST(ALL & ~ledger[s])
#else
#define MISSING(s) LOWEST(ALL & ~answered[s])
#endif
#if defined(W_OWN)                          // its own reports only
#define NEED_J MISSING(J)
#define NEED_A MISSING(A)
#define NEED_S MISSING(S)
#elif defined(W_DIRECT)                     // and those of its direct readers
#define NEED_J MIN(MISSING(J), MISSING(K))
#define NEED_A MIN(MISSING(A), MIN(MISSING(J), MISSING(K)))
#define NEED_S MIN(MISSING(S), MIN(MISSING(A), MISSING(J)))
#elif defined(W_WHOLE)                      // the lowest that is not done everywhere
#define NEED_J MIN(MIN(MISSING(J), MISSING(K)), MIN(MISSING(A), MISSING(S)))
#define NEED_A NEED_J
#define NEED_S NEED_J
#else                                       // and those of readers of readers, through all that keep no state
#define NEED_J MIN(MISSING(J), MISSING(K))
#define NEED_A MIN(MISSING(A), NEED_J)
#define NEED_S MIN(MISSING(S), NEED_A)
#endif
#define NEED(s) ((s) == S -> NEED_S : ((s) == A -> NEED_A : NEED_J))

#define EVERYWHERE (ledger[S] & ledger[A] & ledger[J] & ledger[K])
#define GRANTED    MIN(N, LOWEST(ALL & ~EVERYWHERE) - 1 + FLIGHT)

#define TOLD(s, of) (!(strange[s] & BIT(of)))
#define OPENED(e)   (state[MAKER(e)] != DEAD && state[READER(e)] != DEAD && TOLD(READER(e), MAKER(e)) && \
                     TOLD(MAKER(e), READER(e)))
#define TO_COME(e)  (kept[e] & ~(mail[e] | BELOW(next[READER(e)])))    // the rest is dropped: had already
#define DONE_WITH(e) (state[READER(e)] == BEGUN && (kept[e] & BELOW(DONE(READER(e)))))

proctype channel(byte id) {
end:
    do
    :: d_step { OPENED(id) && TO_COME(id) -> mail[id] = mail[id] | BIT(LOWEST(TO_COME(id))) }
    :: d_step { OPENED(id) && DONE_WITH(id) -> kept[id] = kept[id] & ~BELOW(DONE(READER(id))) }
    od
}

#ifdef W_DUPLICATE                          // a batch that was had already counts as done at once
#define KEEP(e) if :: k < next[READER(e)] && state[READER(e)] == BEGUN -> skip :: else -> kept[e] = kept[e] | BIT(k) fi
#else
#define KEEP(e) kept[e] = kept[e] | BIT(k)
#endif
#define TAKE(e)  mail[e] = mail[e] & ~BIT(k)
#define IN(e, s) (mail[e] & BIT(next[s]))
#define READY(s) ((s) == S -> next[s] <= GRANTED : ((s) == A -> IN(0, s) != 0 : \
                  ((s) == J -> IN(1, s) && IN(3, s) : IN(2, s) && IN(4, s))))

inline work(s) {
    k = next[s];
    if
    :: s == S -> KEEP(0); KEEP(3)
    :: s == A -> TAKE(0); KEEP(1); KEEP(4)
    :: s == J -> TAKE(1); TAKE(3); KEEP(2)
    :: s == K -> TAKE(2); TAKE(4)
    fi;
    next[s] = k + 1; reports[s] = reports[s] | BIT(k); k = 0
}

proctype stage(byte id) {
end:
    do
    :: d_step { state[id] == BEGUN && next[id] <= N && READY(id) -> work(id) }
    :: d_step { reports[id] ->              // the director hears, in order
           k = LOWEST(reports[id]); reports[id] = reports[id] & ~BIT(k); before[id] = before[id] & ~BIT(k);
           ledger[id] = ledger[id] | BIT(k); answered[id] = answered[id] | BIT(k); k = 0 }
    :: d_step { state[id] != DEAD && strange[id] -> strange[id] = 0; before[id] = reports[id] }  // a list; "wired"
    od
}

#ifdef W_NOWAIT                             // does not wait for the answers of the others
#define ALL_WIRED(s) (1)
#else
#define WIRED(s, of) (!(unwired[of] & BIT(s)) || (TOLD(s, of) && before[s] == 0))
#define ALL_WIRED(s) (WIRED(S, s) && WIRED(A, s) && WIRED(J, s) && WIRED(K, s))
#endif

inline each_edge_of(s, all) {               // its mailbox, and with its process what it kept
    e = 0;
    do
    :: e < EDGES ->
        if :: READER(e) == s -> mail[e] = mail[e] & ~all :: else fi;
        if :: MAKER(e) == s -> kept[e] = kept[e] & ~all :: else fi;
        e++
    :: else -> break
    od;
    e = 0
}

inline die(s) {
    crashes--; state[s] = DEAD; each_edge_of(s, 255);
    next[s] = 1; reports[s] = 0; before[s] = 0; strange[s] = 0; unwired[s] = 0;
    x = 0;                                  // nobody waits for its answers; its successor takes the newest list
    do
    :: x < STAGES -> unwired[x] = unwired[x] & ~BIT(s); x++
    :: else -> break
    od;
    x = 0
}

inline restart(s) {                         // the others get a list with it
    state[s] = NEW; x = 0;
    do
    :: x < STAGES ->
        if
        :: x != s && state[x] != DEAD -> strange[x] = strange[x] | BIT(s); unwired[s] = unwired[s] | BIT(x)
        :: else
        fi;
        x++
    :: else -> break
    od;
    x = 0
}

proctype director(byte id) {                // as far as it has to do with one stage
end:
    do
    :: d_step { state[id] != DEAD && crashes > 0 -> die(id) }
    :: d_step { state[id] == DEAD -> restart(id) }
    :: d_step { state[id] == NEW && ALL_WIRED(id) ->
           state[id] = BEGUN; next[id] = NEED(id); answered[id] = BELOW(next[id]); unwired[id] = 0;
           each_edge_of(id, BELOW(next[id])) }
    od
}

#define OVER(s) (next[s] == N + 1)
proctype judge() {                          // when nothing moves any more, everything is done, and nobody keeps a thing
    timeout -> assert(EVERYWHERE == ALL && OVER(S) && OVER(A) && OVER(J) && OVER(K) &&
                      (kept[0] | kept[1] | kept[2] | kept[3] | kept[4]) == 0)
}

init {
    atomic {
        do
        :: x < STAGES -> state[x] = BEGUN; next[x] = 1; run stage(x); if :: x != K -> run director(x) :: else fi; x++
        :: else -> break
        od;
        x = 0;
        do
        :: x < EDGES -> run channel(x); x++
        :: else -> break
        od;
        x = 0;
        run judge()
    }
}
