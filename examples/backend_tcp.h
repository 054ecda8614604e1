/* SPDX-License-Identifier: MIT */
/* A backend for a loop lane: messages go over TCP, on the caller's loop, to a peer that answers.
 * It shows how an op that only begins something ends later, by ovl_op_complete() from a libuv callback.
 *
 * Both ends of the connection are here and on the same loop, over 127.0.0.1. The peer sums the bytes of every
 * message and sends the sum back, so an op that has ended is proof that all of its bytes went through.
 * Everything runs on the loop's thread, so there are no locks. */
#ifndef EXAMPLES_BACKEND_TCP_H
#define EXAMPLES_BACKEND_TCP_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "ovl.h"

/* The sum of a message; begin with {0, 0}, feed it in pieces of any size. */
typedef struct backend_tcp_sum {
  uint32_t low;
  uint32_t high;
} backend_tcp_sum_t;

typedef struct backend_tcp backend_tcp_t;

/* The connection stands (status 0) or could not be made. Called once, unless it is closed before. */
typedef void (*backend_tcp_opened_cb)(backend_tcp_t *tcp, int status);

struct backend_tcp {
  void *data; /* the caller's */
  size_t message_bytes;
  backend_tcp_opened_cb opened; /* NULL once called */
  int status;                   /* the first thing that went wrong; 0 so far */
  int ends;                     /* of the two ends of the connection, how many are up */

  /* The near end: one message at a time, as its lane has width 1. */
  uv_tcp_t client;
  uv_connect_t connecting;
  uv_write_t sending;
  ovl_op_t *op;   /* in flight; NULL for none */
  int unfinished; /* of its two parts, written and answered */
  uint64_t *answer;
  char answer_bytes[sizeof(uint64_t)];
  size_t answered;

  /* The far end. */
  uv_tcp_t listener;
  uv_tcp_t peer;
  uv_write_t answering;
  backend_tcp_sum_t sum;
  size_t received;
  uint64_t peer_answer;

  char near_buffer[64];
  char far_buffer[65536];
};

/* Begins to connect; every message will have `message_bytes` bytes. 0, or libuv's error. Either way
 * backend_tcp_close() is due, and the struct must stay until the loop has run to its end after that. */
int backend_tcp_open(backend_tcp_t *tcp, uv_loop_t *loop, size_t message_bytes, backend_tcp_opened_cb opened);

/* For a stage's `run`: begins to send `bytes` and returns OVL_PENDING, or an error. The op ends when the
 * peer's answer is in *answer; until then `bytes` must stay as they are, and answer valid. */
int backend_tcp_send(backend_tcp_t *tcp, ovl_op_t *op, const void *bytes, uint64_t *answer);

/* Closes both ends; an op in flight fails. May be called again. */
void backend_tcp_close(backend_tcp_t *tcp);

/* What the peer does to a message. */
void backend_tcp_sum_add(backend_tcp_sum_t *sum, const void *bytes, size_t count);
uint64_t backend_tcp_sum_value(const backend_tcp_sum_t *sum);

#endif
