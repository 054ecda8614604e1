/* SPDX-License-Identifier: MIT */
/* Shows that library and header agree on the version, in both of its forms. */
#include <stdio.h>

#include "ovl/version.h"
#include "support/cmocka_all.h"

static void library_and_header_are_of_one_version(void **state) {
  (void)state;
  assert_int_equal(ovl_version(), OVL_VERSION);
}

static void the_text_says_the_same_as_the_number(void **state) {
  (void)state;
  unsigned major, minor, patch;
  char rest;
  assert_int_equal(sscanf(ovl_version_string(), "%u.%u.%u%c", &major, &minor, &patch, &rest), 3);
  assert_int_equal(major << 16 | minor << 8 | patch, ovl_version());
}

static void the_parts_fit_their_places(void **state) {
  (void)state;
  assert_in_range(OVL_VERSION_MAJOR, 0, 255);
  assert_in_range(OVL_VERSION_MINOR, 0, 255);
  assert_in_range(OVL_VERSION_PATCH, 0, 255);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(library_and_header_are_of_one_version),
      cmocka_unit_test(the_text_says_the_same_as_the_number),
      cmocka_unit_test(the_parts_fit_their_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
