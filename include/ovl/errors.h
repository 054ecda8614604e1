/* SPDX-License-Identifier: MIT */
/* Every code that the library returns, its name and its text, from one list.
 * 0 is success, a negative value an error. Codes that libuv has, have libuv's value (on POSIX
 * systems -errno); the library's own lie below libuv's range. A callback's own negative value is
 * passed on as it is, so other values can appear as the status of a run. */
#ifndef OVL_ERRORS_H
#define OVL_ERRORS_H

#include <errno.h>

#include "ovl/types.h"

/* XX(name, value, text) */
#define OVL_ERROR_MAP(XX)                                                                    \
  XX(EAGAIN, -EAGAIN, "the submit queue is full; on_room will tell when there is room")      \
  XX(EALREADY, -EALREADY, "the operation has already been completed")                        \
  XX(EBUSY, -EBUSY, "a run of this pipeline is in flight")                                   \
  XX(ECANCELED, -ECANCELED, "the run was cancelled")                                         \
  XX(EINVAL, -EINVAL, "invalid argument")                                                    \
  XX(ENOMEM, -ENOMEM, "not enough memory")                                                   \
  XX(EPIPE, -EPIPE, "the stream of items was finished; no more are accepted")                \
  XX(ETIMEDOUT, -ETIMEDOUT, "an operation outlived its deadline")                            \
  XX(EDEADLK, -20001, "a blocking run from inside a callback would wait for itself")         \
  XX(EBADRESULT, -20002, "a callback returned a positive code that is not libovl's")         \
  XX(ENOTRUNNING, -20003, "no run of this pipeline is in flight")                            \
  XX(EFROZEN, -20004, "the description is frozen since the pipeline's first run or submit")  \
  XX(ESTRUCTSIZE, -20005, "a struct's size is 0 or unknown; was its _init function called?") \
  XX(EOPTION, -20006, "an option has a value that is not one of those it may have")          \
  XX(ENOLANE, -20007, "no such lane in this pipeline")                                       \
  XX(ENOSTAGE, -20008, "no such stage in this pipeline")                                     \
  XX(ECALLBACK, -20009, "a callback that is required was not given")                         \
  XX(ECYCLE, -20010, "the dependencies within a microbatch form a cycle")                    \
  XX(ETOOBIG, -20011, "a count or a size is beyond what can be represented")                 \
  XX(EWIDTH, -20013, "a lane of fixed order must have width 1")                              \
  XX(EORDER, -20014, "an explicit order is incomplete, or contradicts the dependencies")     \
  XX(EDEVICE, -20015, "a lane's kind or device does not allow this call")                    \
  XX(ECAPTURE, -20016, "the capture of a stream was invalidated")                            \
  XX(EPOISONED, -20017, "work on a device was given up; the pipeline can only be closed")    \
  XX(EITEMS, -20012, "items were submitted, so the run must be a streaming one")

OVL_BEGIN_DECLS

enum ovl_errno {
#define OVL_ERROR_ENUM(name, value, text) OVL_##name = (value),
  OVL_ERROR_MAP(OVL_ERROR_ENUM)
#undef OVL_ERROR_ENUM
};

/* The text of a code; "success" for 0, and for a code that is not in the list a text that says so.
 * A static string. Any thread. */
OVL_EXTERN const char *ovl_strerror(int code);

/* The name of a code, such as "OVL_ECANCELED"; "OVL_OK" for 0, "OVL_UNKNOWN" for a code that is not
 * in the list. A static string. Any thread. */
OVL_EXTERN const char *ovl_err_name(int code);

OVL_END_DECLS

#endif
