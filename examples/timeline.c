/* SPDX-License-Identifier: MIT */
/* Maps ops to columns of a fixed width and prints them; time is O(ops + columns), memory that of one row.
 * Plain ASCII, so that every terminal and every log file shows it. */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_WIDTH 80
#define FRAME_WIDTH 12 /* "  compute |" before the columns and "|" after */

static const char symbols[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
#define SYMBOLS (sizeof symbols - 1)

/* What one column of one row stands for. */
typedef struct column {
  uint64_t busy_ns; /* of the time that it covers */
  uint64_t ops;     /* that are shown here: those that cover its centre, or are too short for any */
  uint64_t first;   /* of them */
} column_t;

/* ---- width and colour ---- */

static size_t width_of_environment(void) {
  const char *text = getenv("COLUMNS");
  if (text == NULL || *text < '1' || *text > '9')
    return 0;
  char *end = NULL;
  unsigned long width = strtoul(text, &end, 10);
  return *end == '\0' ? (size_t)width : 0;
}

static size_t width_of_terminal(FILE *out) {
  struct winsize size;
  if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &size) != 0)
    return 0;
  return size.ws_col;
}

static size_t width_for(FILE *out) {
  size_t width = width_of_environment();
  if (width == 0)
    width = width_of_terminal(out);
  if (width == 0)
    width = DEFAULT_WIDTH;
  if (width < TIMELINE_MIN_WIDTH)
    width = TIMELINE_MIN_WIDTH;
  return width > TIMELINE_MAX_WIDTH ? TIMELINE_MAX_WIDTH : width;
}

static int colour_for(FILE *out) {
  const char *terminal = getenv("TERM");
  const char *no_colour = getenv("NO_COLOR");
  if (no_colour != NULL && *no_colour != '\0')
    return 0;
  return isatty(fileno(out)) && terminal != NULL && *terminal != '\0' && strcmp(terminal, "dumb") != 0;
}

void timeline_init(timeline_t *timeline, FILE *out, uint64_t total_ns) {
  memset(timeline, 0, sizeof *timeline);
  timeline->out = out;
  timeline->columns = width_for(out) - FRAME_WIDTH;
  timeline->total_ns = total_ns;
  timeline->colour = colour_for(out);
}

/* ---- from ops to columns ---- */

static double column_ns(const timeline_t *timeline) {
  return (double)timeline->total_ns / (double)timeline->columns;
}

/* The column that `at_ns` lies in. */
static size_t column_at(const timeline_t *timeline, double at_ns) {
  size_t column = (size_t)(at_ns / column_ns(timeline));
  return column < timeline->columns ? column : timeline->columns - 1;
}

static void show(column_t *column, uint64_t i) {
  if (column->ops++ == 0)
    column->first = i;
}

static void add_busy(const timeline_t *timeline, column_t *columns, timeline_op_t op) {
  size_t last = column_at(timeline, (double)op.end_ns);
  for (size_t k = column_at(timeline, (double)op.start_ns); k <= last; k++) {
    double from = (double)k * column_ns(timeline);
    double to = from + column_ns(timeline);
    if (from < (double)op.start_ns)
      from = (double)op.start_ns;
    if (to > (double)op.end_ns)
      to = (double)op.end_ns;
    if (to > from)
      columns[k].busy_ns += (uint64_t)(to - from);
  }
}

static void add_op(const timeline_t *timeline, column_t *columns, timeline_op_t op, uint64_t i) {
  int shown = 0;
  size_t last = column_at(timeline, (double)op.end_ns);
  for (size_t k = column_at(timeline, (double)op.start_ns); k <= last; k++) {
    double centre_ns = ((double)k + 0.5) * column_ns(timeline);
    if (centre_ns < (double)op.start_ns || centre_ns >= (double)op.end_ns)
      continue;
    show(&columns[k], i);
    shown = 1;
  }
  if (!shown)
    show(&columns[column_at(timeline, ((double)op.start_ns + (double)op.end_ns) / 2)], i);
  add_busy(timeline, columns, op);
}

/* ---- from columns to characters ---- */

static char busy_sign(const timeline_t *timeline, const column_t *column) {
  double share = (double)column->busy_ns / column_ns(timeline);
  if (column->ops == 0 && share < 0.125)
    return ' ';
  if (share < 0.375)
    return '.';
  if (share < 0.625)
    return '-';
  return share < 0.875 ? '=' : '#';
}

/* Whether signs for single microbatches would leave out too many: in a quarter of the columns or more. */
static int is_crowded(const timeline_t *timeline, const column_t *columns) {
  size_t used = 0;
  size_t crowded = 0;
  for (size_t k = 0; k < timeline->columns; k++) {
    used += columns[k].ops > 0;
    crowded += columns[k].ops > 1;
  }
  return crowded > 0 && crowded * 4 >= used;
}

static char column_sign(timeline_t *timeline, const column_t *column, int crowded) {
  if (!crowded && column->ops == 0)
    return ' ';
  if (!crowded && column->ops == 1)
    return symbols[column->first % SYMBOLS];
  timeline->summed = 1;
  return busy_sign(timeline, column);
}

static void print_row(const timeline_t *timeline, const timeline_lane_t *lane, const char *row) {
  const char *before = timeline->colour ? "\033[" : "";
  const char *code = timeline->colour ? lane->colour : "";
  const char *after = timeline->colour ? "m" : "";
  const char *reset = timeline->colour ? "\033[0m" : "";
  fprintf(timeline->out, "  %-7s |%s%s%s%s%s|\n", lane->name, before, code, after, row, reset);
}

void timeline_draw(timeline_t *timeline, const timeline_lane_t *lane) {
  column_t columns[TIMELINE_MAX_WIDTH] = {{0, 0, 0}};
  char row[TIMELINE_MAX_WIDTH + 1] = "";
  for (uint64_t i = 0; i < lane->microbatches && timeline->total_ns > 0; i++)
    add_op(timeline, columns, lane->op(lane->source, i), i);
  int crowded = is_crowded(timeline, columns);
  for (size_t k = 0; k < timeline->columns; k++)
    row[k] = column_sign(timeline, &columns[k], crowded);
  if (lane->microbatches > SYMBOLS && !crowded)
    timeline->repeated = 1;
  print_row(timeline, lane, row);
}

void timeline_draw_scale(const timeline_t *timeline) {
  char end[32];
  (void)snprintf(end, sizeof end, "%.3f ms", (double)timeline->total_ns / 1e6);
  fprintf(timeline->out, "%11s%-4s%*s\n", "", "0", (int)timeline->columns - 4, end);
  if (timeline->repeated)
    fprintf(timeline->out, "  (signs repeat after %zu microbatches)\n", SYMBOLS);
  if (timeline->summed)
    fprintf(timeline->out, "  (several in one column, busy: . 1/4  - 1/2  = 3/4  # all)\n");
}
