/* SPDX-License-Identifier: MIT */
/* Names and texts of codes, and the words that go with a refused call. */
#include "ovl/errors.h"

#include <stdarg.h>
#include <stdio.h>
#include <uv.h>

#include "api/pipeline.h"

#define SAME(name) _Static_assert((int)OVL_##name == (int)UV_##name, #name " has libuv's value")
SAME(EAGAIN);
SAME(EALREADY);
SAME(EBUSY);
SAME(ECANCELED);
SAME(EINVAL);
SAME(ENOMEM);
SAME(EPIPE);
SAME(ETIMEDOUT);

const char *ovl_strerror(int code) {
  switch (code) {
#define CASE(name, value, text) \
  case OVL_##name:              \
    return text;
    OVL_ERROR_MAP(CASE)
#undef CASE
  case 0:
    return "success";
  }
  return "a code that is not libovl's, passed on from a callback or from libuv";
}

const char *ovl_err_name(int code) {
  switch (code) {
#define CASE(name, value, text) \
  case OVL_##name:              \
    return "OVL_" #name;
    OVL_ERROR_MAP(CASE)
#undef CASE
  case 0:
    return "OVL_OK";
  }
  return "OVL_UNKNOWN";
}

/* ---- why the last call was refused, in words --------------------------------------------------------------- */

/* Of a create that failed, for there is no pipeline to keep it. */
static _Thread_local char create_error[sizeof((ovl_pipeline_t *)0)->error];

int ovl_refuse(ovl_pipeline_t *p, int code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(p != NULL ? p->error : create_error, sizeof create_error, format, arguments);
  va_end(arguments);
  return code;
}

int ovl_accept(ovl_pipeline_t *p) {
  (p != NULL ? p->error : create_error)[0] = '\0';
  return 0;
}

const char *ovl_pipeline_error(const ovl_pipeline_t *p) { return p != NULL ? p->error : create_error; }
