/* SPDX-License-Identifier: MIT */
/* One mutex for the whole device keeps it short. Each stream has a list of what it is to do. */
#include "device_threads.h"

#include <stdlib.h>

typedef struct event {
  uint64_t recorded; /* how often */
  uint64_t done;     /* which of these the stream has come to */
  uint64_t waits;    /* on streams, which have not passed them */
  uint64_t at;       /* and when, if it is asked for */
  int timing;
} event_t;

typedef enum kind { WORK, RECORD, WAIT } kind_t;

typedef struct task {
  kind_t kind;
  device_threads_work_cb work;
  void *data;
  event_t *event;
  uint64_t record; /* which record of the event */
  struct task *next;
} task_t;

struct device_threads_stream {
  device_threads_t *device;
  uv_thread_t thread;
  task_t *first, **last; /* the first is being done */
  int ending;
  device_threads_stream_t *next;
};

/* ---- a stream's thread ---- */

static void nap(device_threads_t *device, uint64_t ns) {
  uint64_t end = uv_hrtime() + ns;
  for (uint64_t now = uv_hrtime(); now < end; now = uv_hrtime())
    (void)uv_cond_timedwait(&device->changed, &device->mutex, end - now); /* the clock tells */
}

static void do_work(device_threads_t *device, const task_t *task) {
  if (device->code != 0 && device->works-- == 0)
    device->failed = device->code;
  if (device->failed != 0)
    return;
  uv_mutex_unlock(&device->mutex);
  task->work(task->data);
  uv_mutex_lock(&device->mutex);
}

static void do_task(device_threads_t *device, const task_t *task) {
  if (device->delay_ns != 0)
    nap(device, device->delay_ns);
  if (task->kind == WORK)
    do_work(device, task);
  else if (task->kind == RECORD) {
    task->event->done = task->record;
    task->event->at = task->event->timing ? uv_hrtime() : 0;
  } else {
    while (task->event->done < task->record)
      uv_cond_wait(&device->changed, &device->mutex);
    task->event->waits--;
  }
}

static void drop_first(device_threads_stream_t *stream) {
  task_t *task = stream->first;
  stream->first = task->next;
  if (stream->first == NULL)
    stream->last = &stream->first;
  free(task);
  uv_cond_broadcast(&stream->device->changed);
}

static void run_stream(void *argument) {
  device_threads_stream_t *stream = argument;
  device_threads_t *device = stream->device;
  uv_mutex_lock(&device->mutex);
  while (stream->first != NULL || !stream->ending) {
    if (stream->first == NULL) {
      uv_cond_wait(&device->changed, &device->mutex);
      continue;
    }
    do_task(device, stream->first);
    drop_first(stream);
  }
  uv_mutex_unlock(&device->mutex);
}

/* ---- putting things on streams ---- */

static int put(device_threads_stream_t *stream, task_t task) {
  device_threads_t *device = stream->device;
  task_t *copy = malloc(sizeof *copy);
  if (copy == NULL)
    return OVL_ENOMEM;
  uv_mutex_lock(&device->mutex);
  int failed = device->failed;
  if (task.kind == RECORD)
    task.record = ++task.event->recorded;
  else if (task.kind == WAIT) {
    task.record = task.event->recorded;
    task.event->waits++;
  }
  *copy = task;
  *stream->last = copy;
  stream->last = &copy->next;
  uv_cond_broadcast(&device->changed);
  uv_mutex_unlock(&device->mutex);
  return failed;
}

int device_threads_launch(device_threads_stream_t *stream, device_threads_work_cb work, void *data) {
  return put(stream, (task_t){.kind = WORK, .work = work, .data = data});
}

void device_threads_wait(device_threads_stream_t *stream) {
  uv_mutex_lock(&stream->device->mutex);
  while (stream->first != NULL)
    uv_cond_wait(&stream->device->changed, &stream->device->mutex);
  uv_mutex_unlock(&stream->device->mutex);
}

/* ---- the table ---- */

static int event_create(void *context, int timing, void **event) {
  event_t *made = calloc(1, sizeof *made);
  (void)context;
  *event = made;
  if (made == NULL)
    return OVL_ENOMEM;
  made->timing = timing;
  return 0;
}

/* A stream may still be about to come to it, when the pipeline was enqueued: so it is kept until nothing will. */
static void event_destroy(void *context, void *event) {
  device_threads_t *device = context;
  event_t *gone = event;
  uv_mutex_lock(&device->mutex);
  while (gone->done < gone->recorded || gone->waits > 0)
    uv_cond_wait(&device->changed, &device->mutex);
  uv_mutex_unlock(&device->mutex);
  free(gone);
}

static int event_record(void *context, void *event, void *stream) {
  (void)context;
  return put(stream, (task_t){.kind = RECORD, .event = event});
}

static int stream_wait(void *context, void *stream, void *event) {
  (void)context;
  return put(stream, (task_t){.kind = WAIT, .event = event});
}

static int event_query(void *context, void *event) {
  device_threads_t *device = context;
  const event_t *asked = event;
  uv_mutex_lock(&device->mutex);
  int result = asked->done == asked->recorded ? 0 : OVL_PENDING;
  if (device->failed != 0)
    result = device->failed;
  uv_mutex_unlock(&device->mutex);
  return result;
}

static int elapsed(void *context, void *start, void *end, uint64_t *ns) {
  device_threads_t *device = context;
  const event_t *from = start, *to = end;
  uv_mutex_lock(&device->mutex);
  *ns = to->at > from->at ? to->at - from->at : 0;
  uv_mutex_unlock(&device->mutex);
  return 0;
}

/* ---- set-up ---- */

int device_threads_init(device_threads_t *device) {
  *device = (device_threads_t){.streams = NULL};
  ovl_device_init(&device->table);
  device->table.name = "threads";
  device->table.context = device;
  device->table.event_create = event_create;
  device->table.event_destroy = event_destroy;
  device->table.event_record = event_record;
  device->table.stream_wait = stream_wait;
  device->table.event_query = event_query;
  device->table.elapsed = elapsed;
  int status = uv_mutex_init(&device->mutex);
  if (status != 0)
    return status;
  status = uv_cond_init(&device->changed);
  if (status != 0)
    uv_mutex_destroy(&device->mutex);
  return status;
}

int device_threads_stream(device_threads_t *device, device_threads_stream_t **stream) {
  device_threads_stream_t *made = calloc(1, sizeof *made);
  if (made == NULL)
    return OVL_ENOMEM;
  made->device = device;
  made->last = &made->first;
  int status = uv_thread_create(&made->thread, run_stream, made);
  if (status != 0) {
    free(made);
    return status;
  }
  made->next = device->streams;
  device->streams = made;
  *stream = made;
  return 0;
}

void device_threads_finish(device_threads_t *device) {
  uv_mutex_lock(&device->mutex);
  for (device_threads_stream_t *stream = device->streams; stream != NULL; stream = stream->next)
    stream->ending = 1;
  uv_cond_broadcast(&device->changed);
  uv_mutex_unlock(&device->mutex);
  for (device_threads_stream_t *stream = device->streams, *next; stream != NULL; stream = next) {
    next = stream->next;
    uv_thread_join(&stream->thread);
    free(stream);
  }
  uv_cond_destroy(&device->changed);
  uv_mutex_destroy(&device->mutex);
}

/* ---- injecting ---- */

void device_threads_delay(device_threads_t *device, uint64_t delay_ns) {
  uv_mutex_lock(&device->mutex);
  device->delay_ns = delay_ns;
  uv_mutex_unlock(&device->mutex);
}

void device_threads_fail(device_threads_t *device, uint64_t works, int code) {
  uv_mutex_lock(&device->mutex);
  device->works = works;
  device->code = code;
  uv_mutex_unlock(&device->mutex);
}
