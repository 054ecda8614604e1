/* SPDX-License-Identifier: MIT */
/* NCCL. The calls of all members must come in the same order, which is what a device lane gives: it follows from the
 * description and the cost hints alone. */
#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_stream/checks.h"
#include "cuda_stream/collective.h"

#define NCCL(call) check_nccl((call), #call)

struct collective {
  ncclComm_t comm;
  size_t size;
};

static int check_nccl(ncclResult_t code, const char *call) {
  return check((int)code, ncclGetErrorString(code), call);
}

/* Member 0 makes the name under which all meet. */
static int meet(const team_t *team, ncclUniqueId *id) {
  int code = 0;
  _Static_assert(sizeof *id <= TEAM_LETTER, "the letter has room for NCCL's name");
  if (team->rank == 0)
    code = NCCL(ncclGetUniqueId(id));
  if (code == 0 && team->rank == 0)
    memcpy(team->page->letter, id, sizeof *id);
  if (code != 0)
    return code;
  team_meet(team);
  memcpy(id, team->page->letter, sizeof *id);
  return 0;
}

collective_t *collective_open(const team_t *team) {
  collective_t *collective = calloc(1, sizeof *collective);
  ncclUniqueId id;
  if (collective == NULL || meet(team, &id) != 0 ||
      NCCL(ncclCommInitRank(&collective->comm, (int)team->size, id, (int)team->rank)) != 0) {
    free(collective);
    return NULL;
  }
  collective->size = team->size;
  return collective;
}

int collective_put(collective_t *collective, collective_kind_t kind, const float *from, float *to,
                   size_t count, cudaStream_t stream) {
  ncclComm_t comm = collective->comm;
  switch (kind) {
  case COLLECTIVE_REDUCE_SCATTER:
    return NCCL(ncclReduceScatter(from, to, count / collective->size, ncclFloat, ncclSum, comm, stream));
  case COLLECTIVE_ALL_GATHER:
    return NCCL(ncclAllGather(from, to, count, ncclFloat, comm, stream));
  case COLLECTIVE_ALL_REDUCE:
    break;
  }
  return NCCL(ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, stream));
}

size_t collective_received(const team_t *team, collective_kind_t kind, size_t count) {
  if (kind == COLLECTIVE_REDUCE_SCATTER)
    return count / team->size;
  return kind == COLLECTIVE_ALL_GATHER ? count * team->size : count;
}

int collective_check(collective_t *collective) {
  ncclResult_t code = ncclSuccess;
  int asked = NCCL(ncclCommGetAsyncError(collective->comm, &code));
  if (asked == 0 && (code == ncclSuccess || code == ncclInProgress))
    return 0;
  (void)ncclCommAbort(collective->comm); /* its kernels end */
  collective->comm = NULL;
  return asked != 0 ? asked : check_nccl(code, "a collective");
}

void collective_close(collective_t *collective) {
  if (collective->comm != NULL)
    (void)NCCL(ncclCommDestroy(collective->comm));
  free(collective);
}

int collective_possible(void) { return 1; }
