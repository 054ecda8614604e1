/* SPDX-License-Identifier: MIT */
/* Shows that every code has a name and a text of its own, and the value that it should have. */
#include <limits.h>
#include <string.h>
#include <uv.h>

#include "ovl.h"
#include "support/cmocka_all.h"

typedef struct code {
  int value;
  const char *name;
  const char *text;
} code_t;

static const code_t codes[] = {
#define CODE(name, value, text) {OVL_##name, "OVL_" #name, text},
    OVL_ERROR_MAP(CODE)
#undef CODE
};
enum { CODES = sizeof codes / sizeof *codes };

static void every_code_has_its_name_and_text(void **state) {
  (void)state;
  for (int i = 0; i < CODES; i++) {
    assert_string_equal(ovl_err_name(codes[i].value), codes[i].name);
    assert_string_equal(ovl_strerror(codes[i].value), codes[i].text);
  }
}

static void no_two_codes_are_alike(void **state) {
  (void)state;
  for (int i = 0; i < CODES; i++)
    for (int k = 0; k < i; k++) {
      assert_int_not_equal(codes[i].value, codes[k].value);
      assert_string_not_equal(codes[i].text, codes[k].text);
    }
}

static void every_code_is_negative_and_none_is_pending(void **state) {
  (void)state;
  for (int i = 0; i < CODES; i++)
    assert_true(codes[i].value < 0);
  assert_true(OVL_PENDING > 0);
}

static void texts_are_sentences_without_their_end(void **state) {
  (void)state;
  for (int i = 0; i < CODES; i++) {
    size_t length = strlen(codes[i].text);
    assert_in_range(length, 10, 100);
    assert_null(strchr(codes[i].text, '\n'));
    assert_int_not_equal(codes[i].text[length - 1], '.');
  }
}

/* What libuv calls UV_EAGAIN we call OVL_EAGAIN, so a status may be passed on either way. */
static void codes_of_libuv_have_libuvs_values(void **state) {
  (void)state;
  int shared = 0;
  for (int i = 0; i < CODES; i++) {
    char name[64];
    if (uv_err_name_r(codes[i].value, name, sizeof name) == NULL || strncmp(name, "Unknown", 7) == 0)
      continue;
    assert_string_equal(name, codes[i].name + strlen("OVL_"));
    shared++;
  }
  assert_int_equal(shared, 8);
  assert_int_equal(OVL_ECANCELED, UV_ECANCELED);
  assert_int_equal(OVL_ETIMEDOUT, UV_ETIMEDOUT);
}

static void codes_of_our_own_lie_outside_libuvs_range(void **state) {
  (void)state;
  const int own[] = {OVL_EDEADLK, OVL_EBADRESULT, OVL_ENOTRUNNING, OVL_EFROZEN, OVL_ESTRUCTSIZE, OVL_EOPTION,
                     OVL_ENOLANE, OVL_ENOSTAGE,   OVL_ECALLBACK,   OVL_ECYCLE,  OVL_ETOOBIG,     OVL_EITEMS};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    assert_true(own[i] < UV_ERRNO_MAX && own[i] < -10000);
}

static void success_has_a_name_and_a_text(void **state) {
  (void)state;
  assert_string_equal(ovl_err_name(0), "OVL_OK");
  assert_string_equal(ovl_strerror(0), "success");
}

static void an_unknown_code_is_said_to_be_one(void **state) {
  (void)state;
  const int unknown[] = {1, -1, UV_EOF, -10000, -20000, -29999, INT_MIN, INT_MAX, OVL_PENDING};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
    assert_string_equal(ovl_err_name(unknown[i]), "OVL_UNKNOWN");
    assert_non_null(strstr(ovl_strerror(unknown[i]), "not libovl's"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_has_its_name_and_text),
      cmocka_unit_test(no_two_codes_are_alike),
      cmocka_unit_test(every_code_is_negative_and_none_is_pending),
      cmocka_unit_test(texts_are_sentences_without_their_end),
      cmocka_unit_test(codes_of_libuv_have_libuvs_values),
      cmocka_unit_test(codes_of_our_own_lie_outside_libuvs_range),
      cmocka_unit_test(success_has_a_name_and_a_text),
      cmocka_unit_test(an_unknown_code_is_said_to_be_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
