/* SPDX-License-Identifier: MIT */
/* Says what a test was waiting for when it hangs: after 30 seconds in which the process used no processor, and
 * when it is told to terminate (as Meson does after a test's time). A test that is merely slow is left alone. */
#ifndef TEST_SUPPORT_WATCHDOG_H
#define TEST_SUPPORT_WATCHDOG_H

/* From now on the test waits for `what` (kept by address). The first call starts the watchdog. */
void watchdog_expect(const char *what);

#endif
