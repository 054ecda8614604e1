/* SPDX-License-Identifier: MIT */
/* The library's own version. */
#include "ovl/version.h"

#define TEXT(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *ovl_version_string(void) {
  return VERSION_TEXT(OVL_VERSION_MAJOR, OVL_VERSION_MINOR, OVL_VERSION_PATCH);
}

unsigned ovl_version(void) { return OVL_VERSION; }
