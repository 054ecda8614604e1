/* SPDX-License-Identifier: MIT */
/* NVTX is headers alone, and does nothing unless a profiler has attached itself. */
#include "cuda_stream/ranges.h"

#include <nvtx3/nvToolsExt.h>

void ranges_name_lane(ovl_lane_t lane, const char *name) { nvtxNameCategoryA(lane.id, name); }

void ranges_begin(const ovl_op_t *op, const char *stage) {
  nvtxEventAttributes_t range = {.version = NVTX_VERSION,
                                 .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                 .category = op->lane.id,
                                 .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
                                 .payload.ullValue = op->microbatch,
                                 .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                 .message.ascii = stage};
  (void)nvtxRangePushEx(&range);
}

void ranges_end(void) { (void)nvtxRangePop(); }
