/* SPDX-License-Identifier: MIT */
/* libovl: overlap scheduling. This header includes every topic header; a program may also include
 * only those that it needs. */
#ifndef OVL_H
#define OVL_H

#include "ovl/device.h"
#include "ovl/errors.h"
#include "ovl/explain.h"
#include "ovl/pipeline.h"
#include "ovl/simulate.h"
#include "ovl/stats.h"
#include "ovl/theory.h"
#include "ovl/trace.h"
#include "ovl/types.h"
#include "ovl/version.h"

#endif
