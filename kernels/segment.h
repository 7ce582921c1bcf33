// segment.h: how a packed ragged batch shares prefixes.
//
// A batch is one array of rows (tokens). A segment is a run of them; its parent, where it has one, is the segment
// whose tokens come directly before it. So a prompt with S samples is one segment with S children, and the prompt's
// rows are computed once. Segments that reach one root form a tree; different trees share nothing.
#ifndef VERL_KERNELS_SEGMENT_H
#define VERL_KERNELS_SEGMENT_H
#include <stdint.h>

typedef struct verl_segment {
    int64_t start, length;                  // rows; a length of 0 is allowed
    int64_t parent;                         // index of an earlier segment, or -1
} verl_segment_t;
#endif
