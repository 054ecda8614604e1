/* SPDX-License-Identifier: MIT */
/* Sleeps that are never too short. A test that needs one thing to take longer than another naps for a multiple of
 * what the other took, so it does not depend on how fast the machine is. */
#ifndef OVL_TESTS_NAP_H
#define OVL_TESTS_NAP_H

#include <stdint.h>
#include <uv.h>

/* For `ns` at least, and for `least`. */
static inline void nap_for(uint64_t ns, uint64_t least) {
  uint64_t began = uv_hrtime(), wanted = ns > least ? ns : least;
  for (uint64_t passed = 0; passed < wanted; passed = uv_hrtime() - began)
    uv_sleep((unsigned)((wanted - passed) / 1000000 + 1));
}

#endif
