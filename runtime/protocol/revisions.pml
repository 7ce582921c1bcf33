// revisions.pml: a change of a running topology: candidate, cut, begin, retire; and a crash at any step of it.
//
//     revision 1: S -> A -> K      revision 2: S -> B -> K
//
// A is swapped for B while batches 1 .. N pass. S, A, B and K may be killed, CRASHES times in all. Each revision has
// its own stages and channels in an actor (its worlds). K writes a file, as a recorder does: a successor cuts it at its
// start.
// Checked: no batch runs under two revisions, each stands in K's file once and in order, no table is missing where it
// is needed, revision 1 is retired, no candidate is left behind, and every run ends.
// STATE: A and B keep state: the permit of the cut is held until all batches below it are done, A saves, B restores,
// and only then the cut is made; the death of whoever keeps state is left to rollback.pml. AT: the cut is that very
// batch.
//
// holds: -DCRASHES=0 -DTRIES=2
// holds: -DCRASHES=1 -DTRIES=1
// holds: -DCRASHES=1 -DTRIES=1 -DSTATE
// holds: -DCRASHES=1 -DTRIES=1 -DAT=2
// large: -DCRASHES=1 -DTRIES=2
// large: -DCRASHES=1 -DTRIES=2 -DAT=2
// large: -DCRASHES=1 -DTRIES=2 -DSTATE
// large: -DCRASHES=2 -DTRIES=1
// large: -DN=3 -DCRASHES=1 -DTRIES=1
// large: -DN=3 -DCRASHES=1 -DTRIES=1 -DSTATE
// fails: -DCRASHES=0 -DW_CUTDONE
// fails: -DCRASHES=1 -DW_NOCONFIRM
// fails: -DCRASHES=1 -DW_NOCANDIDATE
// fails: -DCRASHES=1 -DW_REUSE
// fails: -DCRASHES=0 -DW_RETIREIDLE
// fails: -DCRASHES=0 -DW_OPENEARLY
// fails: -DCRASHES=0 -DW_PERMITALL
// fails: -DCRASHES=0 -DSTATE -DW_SAVEEARLY
// fails: -DCRASHES=0 -DSTATE -DW_NOHOLD
#ifndef N
#define N 2
#endif
#ifndef FLIGHT
#define FLIGHT 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef TRIES
#define TRIES 2                             // changes that are begun; all but the last may be given up
#endif
#ifndef AT
#define AT 0
#endif
#define S 0                                 // actors
#define A 1
#define B 2
#define K 3
#define S1 0                                // stages of a revision in an actor
#define S2 1
#define A1 2
#define B2 3
#define K1 4
#define K2 5
#define SEATS 6
#define ACTOR(s)  ((s) < A1 -> S : ((s) == A1 -> A : ((s) == B2 -> B : K)))
#define SECOND(s) ((s) == S2 || (s) == B2 || (s) == K2)
#define MAKER(e)  ((e) == 0 -> S1 : ((e) == 1 -> A1 : ((e) == 2 -> S2 : B2)))
#define READER(e) ((e) == 0 -> A1 : ((e) == 1 -> K1 : ((e) == 2 -> B2 : K2)))
#define BIT(k)    (1 << (k))
#define BELOW(k)  (BIT(k) - 2)
#define ALL       BELOW(N + 1)
#define LOWEST(set) ((set) & BIT(1) -> 1 : ((set) & BIT(2) -> 2 : ((set) & BIT(3) -> 3 : N + 1)))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define MAX(a, b) ((a) > (b) -> (a) : (b))

// Channels deliver at once and readers are heard at once: channel.pml has the delays.
byte kept[4];                               // made, and the reader is not done with it
byte mail[4];                               // of it, what is left in the mailbox from a maker that died
#define DEAD  0
#define NEW   1                             // started
#define BEGUN 2
byte state[4];                              // of actors; B is dead where there is none
byte strange[4], unwired[4], before[4];     // see channel.pml
byte sent[4], has[4];                       // the candidate, or revision 2: the table is under way, is there; which try
bit  inforce[4];                            // it was told to begin it, and where the cut is
bit  gone[4];                               // revision 1 was retired there
byte next[SEATS], reports[SEATS];
byte answered[SEATS];                       // see channel.pml
byte file;                                  // K's
byte memory[2];                             // STATE: what A and B have seen

// The director.
byte ledger[3];                             // of S, of A or B, of K
byte granted, cut;                          // cut 0: none yet
byte try;                                   // number of the change
bit  trying, retired;
byte saved;                                 // STATE: 1: asked for, 2: done, 3: restored
byte held;                                  // the batch whose permit is held; 0: none
byte said[4];                               // which try an actor says it is wired for; on its way
byte wired[4];                              // and the director knows
byte under[4];                              // revisions that a batch ran under
byte crashes = CRASHES;
byte x, e, k;

#define LEDGER(s)  ((s) < A1 -> 0 : ((s) < K1 -> 1 : 2))
#define EVERYWHERE (ledger[0] & ledger[1] & ledger[2])
#define DONE_ALL   (LOWEST(ALL & ~EVERYWHERE) - 1)                     // all up to it are done everywhere
#define END(s)     (SECOND(s) || !inforce[ACTOR(s)] || cut == 0 -> N + 1 : cut)

// --- acknowledging and starts: as in channel.pml, with a batch's reader by its revision
#define OUT(s)   ((s) == S1 -> kept[0] : ((s) == A1 -> kept[1] : ((s) == S2 -> kept[2] : ((s) == B2 -> kept[3] : 0))))
#ifdef STATE
#define KEEPS(s) ((s) == A1 || (s) == B2)
#else
#define KEEPS(s) 0
#endif
#define DONE(s)  (KEEPS(s) -> next[s] : MIN(next[s], LOWEST(OUT(s) | (ALL & ~answered[s]))))
#define BEHIND   (cut == 0 -> 0 : ALL & ~BELOW(cut))                   // the batches of revision 2
#define ROW(a, b) ((answered[a] & ~BEHIND) | (answered[b] & BEHIND))
#define MISSING(a, b) LOWEST(ALL & ~ROW(a, b))
#define NEED_K MISSING(K1, K2)
#ifdef STATE
#define NEED_M N + 1
#define NEED_S MIN(MISSING(S1, S2), MISSING(A1, B2))
#else
#define NEED_M MIN(MISSING(A1, B2), NEED_K)
#define NEED_S MIN(MISSING(S1, S2), NEED_M)
#endif
#define NEED(a) ((a) == S -> NEED_S : ((a) == K -> NEED_K : NEED_M))

// --- channels
#define TOLD(s, of) (!(strange[s] & BIT(of)))
#define HERE(s)     (SECOND(s) -> has[ACTOR(s)] != 0 : !gone[ACTOR(s)])
#define LIVE(s)     (state[ACTOR(s)] != DEAD && HERE(s))
#define OPENED(e)   (LIVE(MAKER(e)) && LIVE(READER(e)) && \
                     TOLD(ACTOR(READER(e)), ACTOR(MAKER(e))) && TOLD(ACTOR(MAKER(e)), ACTOR(READER(e))))
#define READS(e)    (state[ACTOR(READER(e))] == BEGUN && (!SECOND(READER(e)) || inforce[ACTOR(READER(e))]))

// Readers are done with what they are done with: behind to front, since one hangs on the other.
inline settle() {
    e = 4;
    do
    :: e > 0 ->
        e--;
        if :: OPENED(e) && READS(e) -> kept[e] = kept[e] & ~BELOW(DONE(READER(e))) :: else fi
    :: else -> break
    od;
    e = 0
}

// --- stages
#ifdef W_PERMITALL                          // a source's leave is not bounded by the cut
#define PERMITTED(s) (next[s] <= granted)
#else
#define PERMITTED(s) (next[s] <= (SECOND(s) || cut == 0 -> granted : MIN(granted, cut - 1)))
#endif
#ifdef W_OPENEARLY                          // a stage does not wait until its older self is over
#define FIRST(s) (1)
#else
#define FIRST(s) ((s) == S2 -> gone[S] || next[S1] >= cut : ((s) == K2 -> gone[K] || next[K1] >= cut : 1))
#endif
#define BOX(e)   (mail[e] | (OPENED(e) -> kept[e] : 0))
#define IN(s)    ((s) == A1 -> BOX(0) : ((s) == K1 -> BOX(1) : ((s) == B2 -> BOX(2) : BOX(3))))
#define READY(s) (HERE(s) && (!SECOND(s) || (inforce[ACTOR(s)] && FIRST(s))) && next[s] < END(s) && \
                  (ACTOR(s) == S -> PERMITTED(s) : (IN(s) & BIT(next[s])) != 0))

inline work(s) {
    k = next[s];
    if
    :: s == S1 -> kept[0] = kept[0] | BIT(k); under[k] = under[k] | 1
    :: s == S2 -> kept[2] = kept[2] | BIT(k); under[k] = under[k] | 2
    :: s == A1 -> mail[0] = mail[0] & ~BIT(k); kept[1] = kept[1] | BIT(k); memory[0] = memory[0] | BIT(k)
    :: s == B2 -> mail[2] = mail[2] & ~BIT(k); kept[3] = kept[3] | BIT(k);
#ifdef STATE
           assert(memory[1] == BELOW(k));   // what it goes on from is all that was before
#endif
           memory[1] = memory[1] | BIT(k)
    :: s == K1 || s == K2 ->
           if :: s == K1 -> mail[1] = mail[1] & ~BIT(k) :: else -> mail[3] = mail[3] & ~BIT(k) fi;
           assert(file == BELOW(k)); file = file | BIT(k)
    fi;
    assert(under[k] != 3);                  // in two revisions
    next[s] = k + 1; reports[s] = reports[s] | BIT(k); k = 0
}

proctype stage(byte id) {
end:
    do
    :: d_step { state[ACTOR(id)] == BEGUN && next[id] <= N && READY(id) -> work(id) }
    :: d_step { reports[id] && (id == S2 || id == K2 -> reports[id - 1] == 0 : 1) ->    // one channel: in order
           k = LOWEST(reports[id]); reports[id] = reports[id] & ~BIT(k);
           ledger[LEDGER(id)] = ledger[LEDGER(id)] | BIT(k); answered[id] = answered[id] | BIT(k);
           if :: reports[id] == 0 -> before[ACTOR(id)] = before[ACTOR(id)] & ~BIT(id) :: else fi;
           k = 0; settle() }
    od
}

#define REPORTS(a) ((a) == S -> (reports[S1] != 0) + 2 * (reports[S2] != 0) : ((a) == A -> 4 * (reports[A1] != 0) : \
                    ((a) == B -> 8 * (reports[B2] != 0) : 16 * (reports[K1] != 0) + 32 * (reports[K2] != 0))))
#define CANDIDATE (trying || (cut && try))

// "begin" of revision 2 where revision 1 runs: nothing below the cut is its own.
inline begin2(a) {
    if
    :: a == S -> next[S2] = MAX(cut, next[S2]); answered[S2] = answered[S2] | BELOW(next[S2])
    :: a == B -> next[B2] = MAX(cut, next[B2]); answered[B2] = answered[B2] | BELOW(next[B2])
    :: a == K -> next[K2] = MAX(cut, next[K2]); answered[K2] = answered[K2] | BELOW(next[K2])
    fi
}

inline retire(a) {
    gone[a] = 1;
    if
    :: a == S -> kept[0] = 0
    :: a == K -> mail[1] = 0
    fi
}

// --- an actor hears of a candidate, of its end, of being in force, of the end of revision 1, and of its peers
proctype actor(byte id) {
end:
    do
    :: d_step { state[id] != DEAD && sent[id] -> has[id] = sent[id]; said[id] = sent[id]; sent[id] = 0;
           assert(!cut) }                   // it could still say no
    :: d_step { state[id] != DEAD && !trying && cut == 0 && has[id] && !sent[id] -> has[id] = 0 }        // "drop"
    :: d_step { id != A && state[id] == BEGUN && cut && !inforce[id] && sent[id] == 0 ->
           assert(has[id] == try); inforce[id] = 1; begin2(id); settle() }
    :: d_step { (id == S || id == K) && state[id] == BEGUN && retired && !gone[id] -> retire(id) }
    :: d_step { state[id] != DEAD && strange[id] -> strange[id] = 0; before[id] = REPORTS(id); settle() }
    :: d_step { said[id] ->
#ifdef W_REUSE
           wired[id] = try;                 // whichever try it was
#else
           wired[id] = said[id];
#endif
           said[id] = 0 }
    od
}

// --- deaths and restarts
#define WIRED(a, of) (!(unwired[of] & BIT(a)) || (TOLD(a, of) && before[a] == 0))
#define ALL_WIRED(a) (WIRED(S, a) && WIRED(A, a) && WIRED(B, a) && WIRED(K, a))

inline each_edge_of(a) {
    e = 0;
    do
    :: e < 4 ->
        if :: ACTOR(READER(e)) == a -> mail[e] = 0 :: else fi;
        if
        :: ACTOR(MAKER(e)) == a ->
            k = kept[e] & ~BELOW(next[READER(e)]);
            if                              // none of it had come, or the first, or all
            :: skip
            :: OPENED(e) && k -> mail[e] = mail[e] | BIT(LOWEST(k))
            :: OPENED(e) && k -> mail[e] = mail[e] | k
            fi;
            kept[e] = 0; k = 0
        :: else
        fi;
        e++
    :: else -> break
    od;
    e = 0
}

inline wipe(a) {
    each_edge_of(a);
    x = 0;
    do
    :: x < SEATS -> if :: ACTOR(x) == a -> next[x] = 1; reports[x] = 0 :: else fi; x++
    :: else -> break
    od;
    x = 0;
    do
    :: x < 4 -> unwired[x] = unwired[x] & ~BIT(a); x++
    :: else -> break
    od;
    x = 0; state[a] = DEAD; strange[a] = 0; unwired[a] = 0; before[a] = 0; sent[a] = 0; has[a] = 0; inforce[a] = 0;
    said[a] = 0; gone[a] = 0;
#ifndef W_NOCANDIDATE
    wired[a] = 0;
#endif
}

inline give_up() {                          // the candidate: stops what is new, the others drop the table
    trying = 0; held = 0; saved = 0; wipe(B); memory[1] = 0; wired[S] = 0; wired[K] = 0; wired[B] = 0;
    answered[B2] = 0
}

#ifdef STATE
#define MORTAL(a) (a == S || a == K || (a == B && trying))
#else
#define MORTAL(a) (1)
#endif
#define WANTED(a) (a == A -> !retired : (a == B -> trying || cut != 0 : 1))

inline restart(a) {
    state[a] = NEW; gone[a] = retired; x = 0;
#ifndef W_NOCANDIDATE                       // tables of all that is alive, and of the candidate
    if :: trying && a != A -> sent[a] = try :: else fi;
#endif
    if :: cut && a != A -> has[a] = try :: else fi;
    do
    :: x < 4 ->
        if
        :: x != a && state[x] != DEAD -> strange[x] = strange[x] | BIT(a); unwired[a] = unwired[a] | BIT(x)
        :: else
        fi;
        x++
    :: else -> break
    od;
    x = 0
}

inline begin(a) {
    state[a] = BEGUN; unwired[a] = 0; k = NEED(a);
    if :: cut && a != A -> inforce[a] = 1 :: else fi;
    if :: a == K -> file = file & BELOW(k) :: else fi;
    x = 0;
    do
    :: x < SEATS ->
        if
        :: ACTOR(x) == a ->
            next[x] = (SECOND(x) -> MAX(k, cut) : (cut -> MIN(k, cut) : k));
            answered[x] = BELOW(next[x])
        :: else
        fi;
        x++
    :: else -> break
    od;
    x = 0; k = 0; settle()
}

proctype life(byte id) {
end:
    do
    :: atomic { MORTAL(id) && state[id] != DEAD && crashes > 0 ->
           crashes--;
           if :: id == B && trying -> give_up() :: else -> wipe(id) fi }
    :: d_step { state[id] == DEAD && WANTED(id) && id != B || (id == B && state[B] == DEAD && cut) -> restart(id) }
    :: d_step { state[id] == NEW && (id != B || cut) && ALL_WIRED(id) -> begin(id) }
    od
}

// --- the director
#ifdef W_CUTDONE                            // the first that is not done, rather than the first that was not granted
#define CUT (DONE_ALL + 1)
#else
#define CUT (granted + 1)
#endif
#ifdef W_NOCONFIRM
#define CONFIRMED (1)
#else
#define CONFIRMED (wired[S] == try && wired[B] == try && wired[K] == try)
#endif
#ifdef STATE
#define MOVED (saved == 3)
#else
#define MOVED (1)
#endif
#ifdef W_SAVEEARLY                          // the old one saves before all that is its own is done
#define ALLDONE (1)
#else
#define ALLDONE (DONE_ALL + 1 == held)
#endif
#ifdef W_RETIREIDLE                         // when the old one has handled its last batch
#define OVER (next[A1] >= cut)
#else
#define OVER (DONE_ALL + 1 >= cut)
#endif

proctype director() {
end:
    do
    :: d_step { granted < N && granted < DONE_ALL + FLIGHT && granted + 1 != held &&
                !(AT && try == TRIES && trying && granted + 1 == AT) -> granted++ }
    :: d_step { cut == 0 && !trying && try < TRIES && (AT == 0 || try + 1 < TRIES || granted < AT) ->
           try++; trying = 1; state[B] = NEW; saved = 0;
           sent[S] = (state[S] -> try : 0); sent[K] = (state[K] -> try : 0); sent[B] = try }
    :: d_step { trying && try < TRIES -> give_up() }
#ifdef STATE
#ifdef W_NOHOLD
    :: d_step { trying && CONFIRMED && saved == 0 -> saved = 1; held = N + 2 }
    :: d_step { trying && saved == 1 && state[A] == BEGUN -> saved = 2; memory[1] = memory[0] }
#else
    :: d_step { trying && CONFIRMED && held == 0 -> held = granted + 1 }
    :: d_step { trying && saved == 0 && held && ALLDONE -> saved = 1 }
    :: d_step { trying && saved == 1 && state[A] == BEGUN -> saved = 2; memory[1] = memory[0] }
#endif
    :: d_step { trying && saved == 2 && state[B] != DEAD -> saved = 3 }
#endif
    :: d_step { trying && CONFIRMED && MOVED && state[B] == NEW && (AT == 0 || try < TRIES || granted + 1 == AT) ->
           cut = CUT; trying = 0; held = 0; assert(AT == 0 || try < TRIES || cut == AT);
           state[B] = BEGUN }
    :: d_step { cut && !retired && OVER -> retired = 1; wipe(A); answered[A1] = ALL }
    od
}

proctype judge() {
    timeout -> assert(EVERYWHERE == ALL && file == ALL && (kept[0] | kept[1] | kept[2] | kept[3]) == 0 &&
                      !trying && (cut == 0 || retired) && (cut || (!has[S] && !has[K] && state[B] == DEAD)))
}

init {
    atomic {
        do
        :: x < SEATS -> next[x] = 1; run stage(x); x++
        :: else -> break
        od;
        state[S] = BEGUN; state[A] = BEGUN; state[K] = BEGUN;
        x = 0;
        do
        :: x < 4 -> run actor(x); run life(x); x++
        :: else -> break
        od;
        x = 0;
        run director(); run judge()
    }
}
