/* SPDX-License-Identifier: MIT */
/* The core's lists, for the core alone: ready ops by lane, items that wait, slots with something to
 * report; and how a core is set up and reset. */
#ifndef OVL_CORE_LISTS_H
#define OVL_CORE_LISTS_H

#include "core/core.h"

/* Puts op into its lane's list, behind all that became ready earlier or have a lower number. */
void ovl_lane_push(ovl_core_t *core, ovl_core_op_t *op);

/* Takes it out; the lane has been passed (idle.h). */
void ovl_lane_remove(ovl_core_t *core, ovl_core_op_t *op);

/* Turns on fixed lanes (turns.c): set up for a run; and whose turn it is found anew after an op has started,
 * was skipped, or will never come. No effect on other lanes. */
void ovl_turn_begin(ovl_core_t *core, uint32_t lane, ovl_mode_t mode);
void ovl_turn_refresh(ovl_core_t *core, uint32_t lane);

/* Brings the counts of what can start up to date after the lane has changed. */
void ovl_lane_update(ovl_core_t *core, uint32_t lane);

void ovl_items_push(ovl_core_t *core, ovl_core_item_t item);
ovl_core_item_t ovl_items_pop(ovl_core_t *core);

void ovl_ended_push(ovl_core_t *core, ovl_core_slot_t *slot);
void ovl_tell_push(ovl_core_t *core, ovl_core_slot_t *slot);
ovl_core_slot_t *ovl_tell_pop(ovl_core_t *core);

/* Forgets the last run; items that wait stay, and so does what was said of their end. */
void ovl_core_reset(ovl_core_t *core);

#endif
