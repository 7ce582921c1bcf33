// shared.pml: two stages of one actor that is fed by versions of the weights.
//
//     A -> … -> B     in one actor, which has one version in use;     A -> … -> U publishes to both, after every UE-th batch
//
// Batch k wants the version of the last update before batch k - STALE, or what everybody loads: -1. A stage takes a version
// where its last batch wanted another, and only while the other stage has no batch left for an older one. Batches are
// 0 .. N - 1; FLIGHT are alive. The way from A to B, and to U, takes any time.
// Checked: the version in use is the one that the batch wants, and every run ends.
//
// holds: -DSTALE=1
// holds: -DSTALE=2 -DFLIGHT=4
// holds: -DSTALE=1 -DUE=2
// holds: -DSTALE=2 -DUE=3 -DFLIGHT=6
// holds: -DSTALE=1 -DFLIGHT=1
// large: -DSTALE=3 -DUE=2 -DFLIGHT=6 -DN=14
// fails: -DSTALE=1 -DFLIGHT=3 -DW_FREE
// fails: -DSTALE=2 -DUE=3 -DFLIGHT=6 -DW_FREE
#ifndef N
#define N 9
#endif
#ifndef UE
#define UE 1
#endif
#ifndef FLIGHT
#define FLIGHT 3
#endif
#define WANTED(k)  ((k) - 1 - STALE < 0 -> -1 : (((k) - 1 - STALE) / UE) * UE)
#define MADE(v)    ((v) < u)                // u: the batch that U works on next
#ifdef W_FREE                               // whoever is ready takes
#define ALONE(v, other) true
#else
#define ALONE(v, other) ((other) >= N || WANTED(other) >= (v))
#endif

short next[2], u;                           // of A and B
short last[2], using;                       // what each took last, and what is in use: the update + 1

// Stage s works on its next batch.
inline work(s) {
    if
    :: last[s] != WANTED(next[s]) + 1 -> last[s] = WANTED(next[s]) + 1; using = last[s]
    :: else
    fi;
    assert(using == WANTED(next[s]) + 1);
    next[s]++
}

#define READY(s)  (MADE(WANTED(next[s])) && (last[s] == WANTED(next[s]) + 1 || ALONE(WANTED(next[s]), next[1 - s])))

active proctype party() {
end:
    do
    :: d_step { next[0] < N && next[0] < next[1] + FLIGHT && next[0] < u + FLIGHT && READY(0) -> work(0) }
    :: d_step { next[1] < next[0] && READY(1) -> work(1) }
    :: d_step { u < next[0] -> u++ }
    od
}

active proctype judge() {
    timeout -> assert(next[0] == N && next[1] == N && u == N)
}
