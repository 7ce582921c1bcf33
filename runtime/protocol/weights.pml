// weights.pml: which version of the weights a batch is worked with, across a change and across a resume.
//
//     G -> U      U publishes to G
//
// U updates the weights after each batch, G (another actor) reads them STALE batches late: batch k wants the version of
// update k - 1 - STALE, or, where that lies before the base of its revision, the base. A change comes into force at batch
// CUT (0: none). With KEPT 1 it touches neither G nor U: the base is none, as before. With KEPT 0 it does: the base is
// update CUT - 1, the weights as they were at the cut. Channels do not cross a cut: U publishes again, to the world of
// the second revision, what it keeps and G wants of before, from when it hears of the cut, and the rest when that world
// opens. It keeps what is wanted behind its own next batch. Batches are 0 .. N - 1; FLIGHT are alive. CRASHES times the
// run goes back to its last checkpoint (rollback.pml), which holds the weights and those older versions that are kept.
// Checked: the version of a batch follows from its number and the bases alone, whatever crashed, and every run ends.
//
// holds: -DSTALE=0 -DCUT=2
// holds: -DSTALE=1 -DCUT=2
// holds: -DSTALE=2 -DCUT=3 -DFLIGHT=3
// holds: -DSTALE=2 -DCUT=1 -DFLIGHT=1
// holds: -DSTALE=0 -DCUT=2 -DKEPT=1
// holds: -DSTALE=1 -DCUT=2 -DKEPT=1
// holds: -DSTALE=2 -DCUT=3 -DFLIGHT=3 -DKEPT=1
// holds: -DSTALE=2 -DCUT=1 -DFLIGHT=1 -DKEPT=1
// large: -DSTALE=2 -DCUT=5 -DFLIGHT=4 -DN=9 -DCRASHES=3
// large: -DSTALE=2 -DCUT=5 -DFLIGHT=4 -DN=9 -DCRASHES=3 -DKEPT=1
// fails: -DSTALE=0 -DCUT=2 -DW_NOBASE
// fails: -DSTALE=1 -DCUT=3 -DW_EARLYBASE
// fails: -DSTALE=1 -DCUT=0 -DW_WEIGHTSONLY
// fails: -DSTALE=1 -DCUT=0 -DW_LATEST
// fails: -DSTALE=1 -DCUT=3 -DKEPT=1 -DW_BASEONLY
// fails: -DSTALE=1 -DCUT=3 -DKEPT=1 -DW_KEEPLAST
// fails: -DSTALE=2 -DCUT=3 -DFLIGHT=3 -DKEPT=1 -DW_REBASE
#ifndef N
#define N 6
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FLIGHT
#define FLIGHT 2
#endif
#ifndef EVERY
#define EVERY 2
#endif
#ifndef KEPT
#define KEPT 0
#endif
#define BIT(v)     (1 << ((v) + 1))         // version v is the one of update v; -1: what everybody loads
#define MAX(a, b)  ((a) > (b) -> (a) : (b))
#define REVISION(k) (CUT && (k) >= CUT)
#define BASE(k)    (REVISION(k) && !(KEPT && !rebased) -> CUT - 1 : -1)
#define WANTED(k)  MAX((k) - 1 - STALE, BASE(k))
#define MEANT(k)   MAX((k) - 1 - STALE, (REVISION(k) && !KEPT -> CUT - 1 : -1))
#define PAST       ((BIT(CUT) - 1) & ~(BIT(MAX(WANTED(CUT), 0)) - 1))     // of before the cut, and wanted behind it

short g, u;                                 // the batches that G and U work on next; so many updates are made: u
short got[2];                               // by revision: versions in G's mailbox, as bits
short using = -1;                           // the version that G has in use …
bit   from;                                 // … and the revision by which it came
short content[N + 1];                       // of version v, at v + 1: how many updates are in it
bit   rebased;
short kept, passed;                         // versions that U keeps, and that it published again, as bits
bit   heard;                                // U knows of the second revision: it passes on what it keeps …
bit   open;                                 // … and works in it: the rest is published
short checkpoint, held, past[N + 1];        // batches before it are in it; versions that it holds, and their contents
byte  crashes = CRASHES;
short v;

#ifdef W_LATEST                             // G takes the newest that is there
#define THERE(k) ((got[REVISION(k)] & ~(BIT(WANTED(k)) - 1)) || WANTED(k) < 0)
#else
#define THERE(k) (WANTED(k) < 0 || (using == WANTED(k) && from == REVISION(k)) || (got[REVISION(k)] & BIT(WANTED(k))))
#endif

inline take(k) {
    v = WANTED(k);
#ifdef W_LATEST
    v = u - 1;
#endif
    if
    :: v >= 0 ->
        using = v; from = REVISION(k); got[REVISION(k)] = got[REVISION(k)] & ~(BIT(v - 1) | (BIT(v - 1) - 1))
    :: else
    fi;
    assert(v == MEANT(k) && (v < 0 || content[v + 1] == v + 1));    // its number says what is in it
    v = 0
}

// The writer begins anew behind a checkpoint: the weights as they are, and of the older versions those that it holds.
inline again() {
    g = checkpoint; u = checkpoint; got[0] = 0; got[1] = 0; using = -1; from = 0; kept = 0; passed = 0;
    heard = (CUT && checkpoint > CUT); open = heard;
#ifdef W_REBASE                             // the base is judged again, and not in the checkpoint
    rebased = open;
#endif
    v = MAX(checkpoint - 1 - STALE, (open -> BASE(CUT) : -1));
    do
    :: v < checkpoint ->
        if
        :: v >= 0 && (v == checkpoint - 1 || (held & BIT(v))) ->
            got[open] = got[open] | BIT(v); kept = kept | BIT(v);
            content[v + 1] = (v == checkpoint - 1 -> checkpoint : past[v + 1])
        :: else
        fi;
        v++
    :: else -> break
    od;
    v = 0
}

inline save() {
    checkpoint = u; held = 0; v = 0;
#ifndef W_WEIGHTSONLY
    held = kept;
    do
    :: v < u -> past[v + 1] = content[v + 1]; v++
    :: else -> break
    od;
#endif
    v = 0
}

// What U publishes after an update of the first revision is for its world; nobody there wants the last one.
inline update() {
    content[u + 1] = u + 1;
    if :: !CUT || u != CUT - 1 -> got[REVISION(u)] = got[REVISION(u)] | BIT(u) :: else fi;
#ifdef W_KEEPLAST                           // the newest only
    kept = BIT(u);
#else
    kept = (STALE -> (kept | BIT(u)) & ~(BIT(MAX(u - STALE, 0)) - 1) : 0);
#endif
    u++
}

active proctype party() {
end:
    do
    :: d_step { g < N && g < u + FLIGHT && THERE(g) -> take(g); g++ }
    :: d_step { u < g && (!REVISION(u) || open || u != CUT) -> update() }
    :: d_step { CUT && !heard -> heard = 1 }
#ifndef W_BASEONLY
    :: d_step { heard && !open && (kept & PAST & ~passed) ->
           got[1] = got[1] | (kept & PAST & ~passed); passed = passed | (kept & PAST) }
#endif
    // The world of the second revision opens when the first is over: the weights as they are, and older ones.
#ifdef W_EARLYBASE
    :: d_step { heard && !open && u + 1 >= CUT -> open = 1; got[1] = got[1] | BIT(CUT - 1); content[CUT] = u }
#elif defined(W_NOBASE)
    :: d_step { heard && !open && u == CUT -> open = 1 }
#elif defined(W_BASEONLY)
    :: d_step { heard && !open && u == CUT -> open = 1; got[1] = got[1] | BIT(CUT - 1) }
#else
    :: d_step { heard && !open && u == CUT ->
           open = 1; got[1] = got[1] | ((BIT(CUT - 1) | kept) & PAST & ~passed) }
#endif
    :: d_step { u > checkpoint && u % EVERY == 0 && u < N -> save() }
    :: d_step { crashes > 0 -> crashes--; again() }
    od
}

active proctype judge() {
    timeout -> assert(g == N && u == N)
}
