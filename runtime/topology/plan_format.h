// plan_format.h: what the encoder and the decoder of plans agree on. Raise the format with every change of an order.
#ifndef VERL_TOPOLOGY_PLAN_FORMAT_H
#define VERL_TOPOLOGY_PLAN_FORMAT_H

#define VERL_PLAN_FORMAT      1
#define VERL_PLAN_ITEMS       14 // of the outermost array
#define VERL_PLAN_ACTOR_ITEMS 11
#define VERL_PLAN_STAGE_ITEMS 23
#define VERL_PLAN_NEED_ITEMS  4
#define VERL_PLAN_EDGE_ITEMS  6
#define VERL_PLAN_MAX_BYTES   (64u << 20)
#define VERL_PLAN_VALUE_DEPTH 8 // of options: arrays and tables inside each other

#endif
