/* SPDX-License-Identifier: MIT */
/* Both ends of a loopback connection: the near end sends a message and awaits its sum, the far end answers.
 * An op ends in one of two places: finish_part() when all went well, on_client_closed() when not. */
#include "backend_tcp.h"

#include <string.h>

/* ---- the sum: two running sums, so that the order of the bytes counts too ---- */

void backend_tcp_sum_add(backend_tcp_sum_t *sum, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  for (size_t i = 0; i < count; i++) {
    sum->low += at[i];
    sum->high += sum->low;
  }
}

uint64_t backend_tcp_sum_value(const backend_tcp_sum_t *sum) { return (uint64_t)sum->high << 32 | sum->low; }

/* ---- ends ---- */

static void call_opened(backend_tcp_t *tcp, int status) {
  backend_tcp_opened_cb opened = tcp->opened;
  tcp->opened = NULL;
  if (opened != NULL)
    opened(tcp, status);
}

/* libuv has let go of the message by now, so its buffer may be used again and the op may end. */
static void on_client_closed(uv_handle_t *client) {
  backend_tcp_t *tcp = client->data;
  ovl_op_t *op = tcp->op;
  tcp->op = NULL;
  if (op != NULL)
    (void)ovl_op_complete(op, tcp->status); /* the only end of this op, so not refused */
}

static void close_once(uv_tcp_t *end, uv_close_cb closed) {
  uv_handle_t *handle = (uv_handle_t *)end;
  if (handle->type != UV_UNKNOWN_HANDLE && !uv_is_closing(handle))
    uv_close(handle, closed);
}

void backend_tcp_close(backend_tcp_t *tcp) {
  if (tcp->status == 0)
    tcp->status = OVL_ECANCELED;
  tcp->opened = NULL;
  close_once(&tcp->client, on_client_closed);
  close_once(&tcp->peer, NULL);
  close_once(&tcp->listener, NULL);
}

static void fail(backend_tcp_t *tcp, int status) {
  backend_tcp_opened_cb opened = tcp->opened;
  if (tcp->status == 0)
    tcp->status = status;
  backend_tcp_close(tcp);
  if (opened != NULL)
    opened(tcp, tcp->status);
}

/* ---- the near end ---- */

static void finish_part(backend_tcp_t *tcp) {
  if (--tcp->unfinished > 0)
    return;
  ovl_op_t *op = tcp->op;
  tcp->op = NULL;
  memcpy(tcp->answer, tcp->answer_bytes, sizeof *tcp->answer);
  (void)ovl_op_complete(op, 0); /* the only end of this op, so not refused */
}

static void on_sent(uv_write_t *sending, int status) {
  backend_tcp_t *tcp = sending->data;
  if (status < 0)
    fail(tcp, status);
  else
    finish_part(tcp);
}

static void give_near_buffer(uv_handle_t *client, size_t suggested, uv_buf_t *buffer) {
  backend_tcp_t *tcp = client->data;
  (void)suggested;
  *buffer = uv_buf_init(tcp->near_buffer, sizeof tcp->near_buffer);
}

static void on_answer(uv_stream_t *client, ssize_t count, const uv_buf_t *buffer) {
  backend_tcp_t *tcp = client->data;
  if (count < 0) {
    fail(tcp, (int)count);
    return;
  }
  if ((size_t)count > sizeof tcp->answer_bytes - tcp->answered || (count > 0 && tcp->op == NULL)) {
    fail(tcp, UV_EPROTO); /* an answer that nobody asked for */
    return;
  }
  memcpy(tcp->answer_bytes + tcp->answered, buffer->base, (size_t)count);
  tcp->answered += (size_t)count;
  if (count > 0 && tcp->answered == sizeof tcp->answer_bytes)
    finish_part(tcp);
}

int backend_tcp_send(backend_tcp_t *tcp, ovl_op_t *op, const void *bytes, uint64_t *answer) {
  if (tcp->status != 0)
    return tcp->status;
  if (tcp->op != NULL)
    return OVL_EBUSY;
  uv_buf_t message =
      uv_buf_init((char *)(uintptr_t)bytes, (unsigned)tcp->message_bytes); /* libuv only reads it */
  tcp->sending.data = tcp;
  int status = uv_write(&tcp->sending, (uv_stream_t *)&tcp->client, &message, 1, on_sent);
  if (status != 0)
    return status;
  tcp->op = op;
  tcp->unfinished = 2;
  tcp->answer = answer;
  tcp->answered = 0;
  return OVL_PENDING;
}

/* ---- the far end ---- */

static void on_answered(uv_write_t *answering, int status) {
  backend_tcp_t *tcp = answering->data;
  if (status < 0)
    fail(tcp, status);
}

/* The near end sends its next message only after this answer, so one request is enough. */
static void answer_message(backend_tcp_t *tcp) {
  tcp->peer_answer = backend_tcp_sum_value(&tcp->sum);
  tcp->received = 0;
  tcp->sum = (backend_tcp_sum_t){0, 0};
  uv_buf_t bytes = uv_buf_init((char *)&tcp->peer_answer, sizeof tcp->peer_answer);
  tcp->answering.data = tcp;
  int status = uv_write(&tcp->answering, (uv_stream_t *)&tcp->peer, &bytes, 1, on_answered);
  if (status != 0)
    fail(tcp, status);
}

static void give_far_buffer(uv_handle_t *peer, size_t suggested, uv_buf_t *buffer) {
  backend_tcp_t *tcp = peer->data;
  size_t missing = tcp->message_bytes - tcp->received; /* so that a read never goes into the next message */
  (void)suggested;
  *buffer = uv_buf_init(tcp->far_buffer,
                        (unsigned)(missing < sizeof tcp->far_buffer ? missing : sizeof tcp->far_buffer));
}

static void on_message(uv_stream_t *peer, ssize_t count, const uv_buf_t *buffer) {
  backend_tcp_t *tcp = peer->data;
  if (count < 0) {
    fail(tcp, (int)count);
    return;
  }
  backend_tcp_sum_add(&tcp->sum, buffer->base, (size_t)count);
  tcp->received += (size_t)count;
  if (tcp->received == tcp->message_bytes)
    answer_message(tcp);
}

/* ---- opening ---- */

static void end_is_up(backend_tcp_t *tcp, int status) {
  if (status != 0)
    fail(tcp, status);
  else if (++tcp->ends == 2)
    call_opened(tcp, 0);
}

static void on_connected(uv_connect_t *connecting, int status) {
  backend_tcp_t *tcp = connecting->data;
  if (uv_is_closing((uv_handle_t *)&tcp->client))
    return;
  if (status == 0)
    status = uv_tcp_nodelay(&tcp->client, 1);
  if (status == 0)
    status = uv_read_start((uv_stream_t *)&tcp->client, give_near_buffer, on_answer);
  end_is_up(tcp, status);
}

static void on_connection(uv_stream_t *listener, int status) {
  backend_tcp_t *tcp = listener->data;
  if (status == 0)
    status = uv_tcp_init(listener->loop, &tcp->peer);
  tcp->peer.data = tcp;
  if (status == 0)
    status = uv_accept(listener, (uv_stream_t *)&tcp->peer);
  if (status == 0)
    status = uv_tcp_nodelay(&tcp->peer, 1);
  if (status == 0)
    status = uv_read_start((uv_stream_t *)&tcp->peer, give_far_buffer, on_message);
  close_once(&tcp->listener, NULL); /* one connection is all that there will be */
  end_is_up(tcp, status);
}

/* Listens on a port that the system chooses, and stores it in *address. */
static int listen_somewhere(backend_tcp_t *tcp, struct sockaddr_storage *address) {
  struct sockaddr_in wanted;
  int size = sizeof *address;
  int status = uv_ip4_addr("127.0.0.1", 0, &wanted);
  if (status == 0)
    status = uv_tcp_bind(&tcp->listener, (const struct sockaddr *)&wanted, 0);
  if (status == 0)
    status = uv_listen((uv_stream_t *)&tcp->listener, 1, on_connection);
  if (status == 0)
    status = uv_tcp_getsockname(&tcp->listener, (struct sockaddr *)address, &size);
  return status;
}

int backend_tcp_open(backend_tcp_t *tcp, uv_loop_t *loop, size_t message_bytes,
                     backend_tcp_opened_cb opened) {
  struct sockaddr_storage address;
  memset(tcp, 0, sizeof *tcp); /* handles of type UV_UNKNOWN_HANDLE are not there yet */
  tcp->message_bytes = message_bytes;
  tcp->opened = opened;
  int status = uv_tcp_init(loop, &tcp->listener);
  if (status == 0)
    status = uv_tcp_init(loop, &tcp->client);
  tcp->listener.data = tcp;
  tcp->client.data = tcp;
  tcp->connecting.data = tcp;
  if (status == 0)
    status = listen_somewhere(tcp, &address);
  if (status == 0)
    status = uv_tcp_connect(&tcp->connecting, &tcp->client, (const struct sockaddr *)&address, on_connected);
  return status;
}
