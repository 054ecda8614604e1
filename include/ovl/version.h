/* SPDX-License-Identifier: MIT */
/* The version of the header a program was compiled with, and of the library it runs with. */
#ifndef OVL_VERSION_H
#define OVL_VERSION_H

#include "ovl/types.h"

#define OVL_VERSION_MAJOR 0
#define OVL_VERSION_MINOR 1
#define OVL_VERSION_PATCH 0

/* 0xMMmmpp: comparable with < and >. */
#define OVL_VERSION ((OVL_VERSION_MAJOR << 16) | (OVL_VERSION_MINOR << 8) | OVL_VERSION_PATCH)

OVL_BEGIN_DECLS

/* The library's version as "major.minor.patch"; a static string. Any thread. */
OVL_EXTERN const char *ovl_version_string(void);

/* The library's version in the form of OVL_VERSION. Any thread. */
OVL_EXTERN unsigned ovl_version(void);

OVL_END_DECLS

#endif
